# SPDX-License-Identifier: Apache-2.0
"""What the components along the eigenvectors of a kernel add up to: residuals and movements."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from unlazy.dynamics.decays import Rule, Share, Steps, as_times, as_whole_steps


class Components(NamedTuple):
    """What is to be learnt along each eigenvector, and what a ridge holds back of it."""

    eigenvalues: Float64[np.ndarray, " r"]
    projections: Float64[np.ndarray, "r *c"]  # v_i . (y - start)
    ridge: float

    @property
    def curvatures(self) -> Float64[np.ndarray, " r"]:
        """The eigenvalues of the loss with its penalty."""
        return self.eigenvalues + self.ridge

    @property
    def squares(self) -> Float64[np.ndarray, " r"]:
        """The squared projections, summed over the columns of the labels."""
        return (self.projections**2).reshape(len(self.eigenvalues), -1).sum(axis=1)

    def weights(self, share: Share) -> Float64[np.ndarray, "T r"]:
        """What has been learnt over the curvature: coefficients per unit of `projections`."""
        positive = self.eigenvalues > 0
        return np.where(positive, share.learnt / np.where(positive, self.curvatures, 1), 0)

    def movement(self, share: Share) -> Float64[np.ndarray, " T"]:
        """The distance of the weights from their start."""
        return np.sqrt(self.weights(share) ** 2 @ (self.eigenvalues * self.squares))

    def squared_left(self, share: Share) -> Float64[np.ndarray, " T"]:
        """The squared residual; a ridge holds back the share ridge / curvature for ever."""
        positive = self.curvatures > 0
        held = np.where(positive, self.ridge / np.where(positive, self.curvatures, 1), 0)
        with np.errstate(over="ignore"):
            return (held + (1 - held) * share.left) ** 2 @ self.squares

    def squared_residual(self, rule: Rule, steps: Steps) -> Float64[np.ndarray, "*shape"]:
        """The squared residual after so many steps; without momentum parts of a step count, too."""
        flat = as_times(steps, "steps") if rule.momentum == 0 else as_whole_steps(steps, "steps")
        # A block of steps at a time: 10^4 samples times 10^4 steps would take 0.8 GB at once.
        size = max(1, 2**24 // len(self.eigenvalues))
        blocks = [flat[start : start + size] for start in range(0, flat.size, size)]
        with np.errstate(over="ignore"):
            shares = (rule.by_steps(self.curvatures, block) for block in blocks)
            values = [self.squared_left(share) for share in shares]
        return np.concatenate([np.zeros(0), *values]).reshape(np.shape(steps))
