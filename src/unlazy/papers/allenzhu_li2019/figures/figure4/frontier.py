# SPDX-License-Identifier: Apache-2.0
r"""The least error on a parity for a norm, in units of $\sqrt d$, which no dimension enters.

Source: RN-73, arXiv:1905.10337 section 8.2.
"""

import functools
import math

import numpy as np
from jaxtyping import Float

from unlazy.papers.allenzhu_li2019.parity_networks import parity_network


def frontier_error(norm: Float[np.ndarray, " r"], degree: int) -> Float[np.ndarray, " r"]:
    r"""The least mean square error at $\|W\|_F / \sqrt d$."""
    return np.maximum(1 - norm * _slope(degree), 0) ** 2


def frontier_norm(error: Float[np.ndarray, " r"], degree: int) -> Float[np.ndarray, " r"]:
    r"""The least $\|W\|_F / \sqrt d$ with that mean square error, at most 1."""
    return (1 - np.sqrt(error)) / _slope(degree)


@functools.cache
def _slope(degree: int) -> float:
    r"""$\gamma \sqrt d$."""
    return parity_network(degree, degree).gamma * math.sqrt(degree)
