# SPDX-License-Identifier: Apache-2.0
"""Whether the weights of a start have the scale that a construction divides by."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float
from scipy.special import chdtr, chdtrc

_FALSE_ALARM = 1e-9  # probability with which Gaussian weights of the right scale are refused


class Squares(NamedTuple):
    """The sum of the squares of some weights and their number: all that a scale is judged by."""

    total: float
    number: int

    @property
    def root_mean(self) -> float:
        """The scale that the weights seem to have."""
        return math.sqrt(self.total / self.number)

    def fit(self, scale: float) -> bool:
        r"""Whether Gaussian weights of that standard deviation could have this sum.

        $\sum_i v_i^2/s^2$ is chi-squared with as many degrees of freedom as there are weights; the
        answer is no for weights of that scale with probability 1e-9.
        """
        ratio = self.total / float(scale) ** 2
        return bool(2 * min(chdtr(self.number, ratio), chdtrc(self.number, ratio)) >= _FALSE_ALARM)


def squares(*arrays: Float[Array | np.ndarray, "..."]) -> Squares:
    """Those of all arrays together, in float64."""
    wide = [np.asarray(array, np.float64) for array in arrays]
    return Squares(float(sum(np.sum(part**2) for part in wide)), sum(part.size for part in wide))


def check_given_scale(
    weights: Squares, scale: float, argument: str, *, of: str, advice: str, root: int = 1
) -> None:
    r"""Raise unless a scale given by hand, divided by $\sqrt{\text{root}}$, is that of weights.

    Args:
        weights: those that were drawn with it.
        scale: the number given.
        argument: its name.
        of: what the weights are, in words.
        advice: one sentence on what to do.
        root: the network divides the scale by the root of this number.
    """
    if not weights.fit(scale / math.sqrt(root)):
        raise ValueError(
            f"`{argument}` must be the scale of {of}, got {argument}={scale:g} for weights whose "
            f"root mean square says {weights.root_mean * math.sqrt(root):.6g}. {advice}"
        )


def check_start_scale(
    weights: Squares, scale: float, name: str, *, formula: str, advice: str
) -> None:
    """Raise unless the weights of a start have the standard deviation that is built upon."""
    if not weights.fit(scale):
        raise ValueError(
            f"`{name}` must have entries of standard deviation {formula} = {scale:.6g}, got a root "
            f"mean square of {weights.root_mean:.6g}. {advice}"
        )
