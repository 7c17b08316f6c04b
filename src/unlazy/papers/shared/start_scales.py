# SPDX-License-Identifier: Apache-2.0
"""Checks that the weights of a start have the scale that a construction divides by."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float
from scipy.special import chdtr, chdtrc

_FALSE_ALARM = 1e-9  # probability with which Gaussian weights of the right scale are refused


class Squares(NamedTuple):
    """The number of some weights and the sum of their squares, which decide on their scale."""

    total: float
    number: int

    @property
    def root_mean(self) -> float:
        """The estimated scale of the weights."""
        return math.sqrt(self.total / self.number)

    def fit(self, scale: float) -> bool:
        r"""Whether Gaussian weights of that standard deviation could have this sum.

        $\sum_i v_i^2/s^2$ is chi-squared with one degree of freedom per weight. Weights of that
        scale are refused with probability 1e-9.
        """
        ratio = self.total / float(scale) ** 2
        return bool(2 * min(chdtr(self.number, ratio), chdtrc(self.number, ratio)) >= _FALSE_ALARM)


def squares(*arrays: Float[Array | np.ndarray, "..."]) -> Squares:
    """The number of entries of all arrays and the sum of their squares, in float64."""
    wide = [np.asarray(array, np.float64) for array in arrays]
    return Squares(float(sum(np.sum(part**2) for part in wide)), sum(part.size for part in wide))


def check_given_scale(
    weights: Squares, scale: float, argument: str, *, of: str, advice: str, root: int = 1
) -> None:
    r"""Raise unless the weights have the scale that the caller's `argument` gives.

    The network divides it by $\sqrt{\text{root}}$. `of` says what the weights are, in words.
    """
    if not weights.fit(scale / math.sqrt(root)):
        raise ValueError(
            f"`{argument}` must be the scale of {of}, got {argument}={scale:g} for weights whose "
            f"root mean square says {weights.root_mean * math.sqrt(root):.6g}. {advice}"
        )


def check_start_scale(
    weights: Squares, scale: float, name: str, *, formula: str, advice: str
) -> None:
    """Raise unless the weights of a start have the standard deviation of the `formula`."""
    if not weights.fit(scale):
        raise ValueError(
            f"`{name}` must have entries of standard deviation {formula} = {scale:.6g}, got a root "
            f"mean square of {weights.root_mean:.6g}. {advice}"
        )
