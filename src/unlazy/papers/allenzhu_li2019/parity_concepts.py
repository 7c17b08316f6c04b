# SPDX-License-Identifier: Apache-2.0
"""Corollary 7.1: parities as residual concepts, of low complexity for a network."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.linalg import block_diag

from unlazy.core.checks import check_count
from unlazy.core.entries import entry
from unlazy.data.parities import ComposedParities
from unlazy.papers.allenzhu_li2019.concepts import BiasedConcept, ResidualConcept


@entry
def parity_concept(
    coordinates: Sequence[int], inputs: int, alpha: int | float = 0.3
) -> ResidualConcept:
    r"""The hard instance for kernels as a residual concept, of low complexity for a network.

    $$F_r(x) = \sqrt{d/k}\, x_{i_r}, \qquad G_r(z) = \frac{k^k}{\sqrt k\, k!\, 2^k}
    \sum_{s \in \{0,1\}^k} (-1)^{|s|} \Big( \sum_i \frac{(-1)^{s_i} z_i}{\sqrt k} \Big)^k
    = \frac{k^{k/2}}{\sqrt k} \prod_i z_i$$

    for k distinct `coordinates` $i_r$. On $x \in \{\pm 1/\sqrt d\}^d$ it is
    `data.target("hard-parities", ...)` divided by $\sqrt k$, so that $\|F(x)\| = 1$, with $p_F = 1$
    and $p_G = 2^k$.

    Source: RN-15 and RN-16, arXiv:1905.10337 Corollary 7.1.

    Example:
        >>> concept = parity_concept((0, 2), inputs=4)
        >>> print((concept(np.full((1, 4), 0.5)) * math.sqrt(2)).round(6))
        [[1.3 1.3]]
    """
    chosen, k = [int(j) for j in coordinates], len(coordinates)
    check_count(inputs, "inputs")
    if k < 1 or len(set(chosen)) < k or min(chosen) < 0 or max(chosen) >= inputs:
        raise ValueError(
            f"`coordinates` must be distinct, from 0 to {inputs - 1}, got {tuple(coordinates)}."
        )
    slope = math.sqrt(2 * inputs / k)
    base = BiasedConcept.ridge(np.eye(k), [[0.0, slope]] * k, np.eye(inputs)[chosen])
    outer = _as_ridges(range(k), k, outputs=k, twice=True)
    composite = BiasedConcept.ridge(np.tile(outer.a, (k, 1)), outer.powers, outer.w)
    return ResidualConcept(base, composite, alpha)


@entry
def parities_concept(parities: ComposedParities, *, inputs: int | None = None) -> ResidualConcept:
    r"""Composed parities on unit inputs as a residual concept, whose complexity is known.

    $$\beta\sqrt k\, H(u) = f(c\sqrt d\, u), \qquad u \in \{\pm 1/\sqrt d\}^d$$

    As the theorems have it, $\|u\| = 1$ and, by the factor $\beta\sqrt k$, $\|F(u)\| = 1$. A
    product of g signs is a sum of powers,

    $$\prod_{j \le g} z_j = \frac{1}{g!\, 2^{g-1}} \sum_{s \in \{0,1\}^g,\, s_g = 0}
    (-1)^{|s|} \Big( \sum_j (-1)^{s_j} z_j \Big)^g$$

    so that $p_F = 2^{|S_r|-1}$ for the largest group and $p_G = 2^{|Q|-1}$: half of those of the
    paper, which counts each power twice. The number d of `inputs` is by default as many as the
    groups need.

    Source: RN-10 to RN-16, arXiv:1905.10337 Corollary 7.1.

    Raises:
        ValueError: `inputs` is too small for the groups, or `beta` is 0.
    """
    d, k = parities.inputs if inputs is None else inputs, parities.outputs
    check_count(d, "inputs", least=parities.inputs)
    if parities.beta == 0:
        raise ValueError("`beta` must not be zero for a concept, whose base has size 1.")
    parts = [_as_ridges(group, d, outputs=k) for group in parities.groups]
    base = BiasedConcept.ridge(
        np.asarray(block_diag(*(part.a for part in parts))),
        [power for part in parts for power in part.powers],
        np.concatenate([part.w for part in parts]),
    )
    outer = _as_ridges(parities.outer, k, outputs=k)
    composite = BiasedConcept.ridge(np.outer(parities.signs, outer.a), outer.powers, outer.w)
    return ResidualConcept(base, composite, parities.alpha / parities.beta)


class _Ridges(NamedTuple):
    """A sum of powers of linear forms as `BiasedConcept.ridge` takes it."""

    a: Float64[np.ndarray, " p"]
    powers: list[list[float]]  # the same function for all
    w: Float64[np.ndarray, "p d"]


def _as_ridges(
    coordinates: Sequence[int], inputs: int, *, outputs: int, twice: bool = False
) -> _Ridges:
    """The product of all sqrt(inputs) z_j, over sqrt(outputs), with each power once or `twice`."""
    g = len(coordinates)
    terms = 2**g if twice else 2 ** (g - 1)  # the latter with a last sign that is always positive
    signs = np.where(np.arange(terms)[:, None] >> np.arange(g)[None, :] & 1 == 1, -1.0, 1.0)
    size = inputs ** (g / 2) / math.sqrt(outputs)
    total = size * g ** (g / 2) / (math.factorial(g) * terms)
    w = np.zeros((terms, inputs))
    w[:, list(coordinates)] = signs / math.sqrt(g)
    # Factors are at most 1: the rest of a larger total goes into the function.
    # (sqrt(2) z)^g: the argument of a ridge function is divided by sqrt(2).
    power = [0.0] * g + [max(total, 1.0) * 2.0 ** (g / 2)]
    return _Ridges(min(total, 1.0) * np.prod(signs, axis=1), [power] * terms, w)
