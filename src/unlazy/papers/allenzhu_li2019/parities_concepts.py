# SPDX-License-Identifier: Apache-2.0
"""Parities of parities as residual concepts."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.linalg import block_diag

from unlazy.core.checks import check_count
from unlazy.core.entries import entry
from unlazy.data.parities import ComposedParities
from unlazy.papers.allenzhu_li2019.biased_concepts import BiasedConcept
from unlazy.papers.allenzhu_li2019.residual_concepts import ResidualConcept


@entry
def parities_concept(parities: ComposedParities, *, inputs: int | None = None) -> ResidualConcept:
    r"""Composed parities on unit inputs as a residual concept, whose complexity is known.

    $$\beta\sqrt k\, H(u) = f(c\sqrt d\, u), \qquad u \in \{\pm 1/\sqrt d\}^d$$

    As the theorems have it, $\|u\| = 1$ and, by the factor $\beta\sqrt k$, $\|F(u)\| = 1$. A
    product of g signs is a sum of powers,

    $$\prod_{j \le g} z_j = \frac{1}{g!\, 2^{g-1}} \sum_{s \in \{0,1\}^g,\, s_g = 0}
    (-1)^{|s|} \Big( \sum_j (-1)^{s_j} z_j \Big)^g$$

    so that $p_F = 2^{|S_r|-1}$ for the largest group and $p_G = 2^{|Q|-1}$: half of the
    paper's, who counts each power twice.

    Source: RN-10 to RN-16, arXiv:1905.10337 Corollary 7.1.

    Args:
        parities: the target.
        inputs: d; None for as many as the groups need.

    Raises:
        ValueError: `inputs` is too small for the groups, or `beta` is 0.
    """
    d, k = parities.inputs if inputs is None else inputs, parities.outputs
    check_count(d, "inputs", least=parities.inputs)
    if parities.beta == 0:
        raise ValueError("`beta` must not be zero for a concept, whose base has size 1.")
    parts = [
        _as_ridges(group, d, d ** (len(group) / 2) / math.sqrt(k)) for group in parities.groups
    ]
    base = BiasedConcept.ridge(
        np.asarray(block_diag(*(part.a for part in parts))),
        [part.power for part in parts for _ in part.a],
        np.concatenate([part.w for part in parts]),
    )
    outer = _as_ridges(parities.outer, k, k ** (len(parities.outer) / 2) / math.sqrt(k))
    signed = np.outer(parities.signs, outer.a)
    composite = BiasedConcept.ridge(signed, [outer.power] * len(outer.a), outer.w)
    return ResidualConcept(base, composite, parities.alpha / parities.beta)


class _Ridges(NamedTuple):
    """A sum of powers of linear forms as `BiasedConcept.ridge` takes it."""

    a: Float64[np.ndarray, " p"]
    power: list[float]  # one function for all
    w: Float64[np.ndarray, "p d"]


def _as_ridges(coordinates: Sequence[int], inputs: int, size: float) -> _Ridges:
    """The product of the coordinates of a unit vector, times `size`."""
    g = len(coordinates)
    bits = np.arange(2 ** (g - 1))[:, None] >> np.arange(g)[None, :] & 1  # the last is always 0
    signs = np.where(bits == 1, -1.0, 1.0)
    total = size * g ** (g / 2) / (math.factorial(g) * 2 ** (g - 1))
    w = np.zeros((len(signs), inputs))
    w[:, list(coordinates)] = signs / math.sqrt(g)
    # Factors are at most 1. (sqrt(2) z)^g: the argument of a ridge function is divided by sqrt(2).
    power = [0.0] * g + [max(total, 1.0) * 2.0 ** (g / 2)]
    return _Ridges(min(total, 1.0) * np.prod(signs, axis=1), power, w)
