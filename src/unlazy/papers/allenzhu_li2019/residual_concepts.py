# SPDX-License-Identifier: Apache-2.0
"""What residual networks learn: a base signal, and a small composite signal on top of it."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_key
from unlazy.core.entries import entry
from unlazy.papers.allenzhu_li2019.biased_concepts import BiasedConcept
from unlazy.papers.shared import SeriesComplexity
from unlazy.papers.shared.smooth_functions import Function, Inputs, Outputs


class ResidualComplexity(eqx.Module):
    r"""The complexities of a residual concept, and what follows for its sizes.

    $$L_G \le \sqrt k\, p_G C_s(G), \qquad B_F \le \sqrt k\, p_F C_s(F), \qquad
    B_{FG} \le L_G B_F + \sqrt k\, p_G C_s(G)$$

    Source: RN-13 and RN-14, arXiv:1905.10337 Fact A.3, with the factor 3 that its $C^*$ hides, and
    $\|(x, 1)\|$ instead of $\|x\|$, left to the constant.
    """

    base: SeriesComplexity
    composite: SeriesComplexity
    outputs: int
    base_terms: int  # p_F
    composite_terms: int  # p_G

    @property
    def lipschitz(self) -> float:
        """L_G, of the composite."""
        return math.sqrt(self.outputs) * self.composite_terms * self.composite.c_s

    @property
    def base_size(self) -> float:
        """B_F, of the base signal."""
        return math.sqrt(self.outputs) * self.base_terms * self.base.c_s

    @property
    def composed_size(self) -> float:
        """B_FG, of the composite of the base signal."""
        return self.lipschitz * self.base_size + self.lipschitz


class ResidualConcept(eqx.Module):
    r"""A base signal with a small composite of it.

    $$H(x) = F(x) + \alpha\, G(F(x)), \qquad F: \mathbb R^d \to \mathbb R^k, \quad
    G: \mathbb R^k \to \mathbb R^k$$

    Source: RN-10 and RN-11, arXiv:1905.10337 Concepts 1 and 2; Concept 1 has both by
    `BiasedConcept.ridge`, unit inputs and unit F(x).

    Args:
        base: F.
        composite: G.
        alpha: the size of the composite.

    Raises:
        ValueError: `composite` does not map the outputs of `base` to as many, or `alpha` is not
            finite.

    Example:
        >>> e, one = np.eye(2), np.ones((1, 1))
        >>> F = BiasedConcept.ridge(one, [[0, math.sqrt(2)]], e[:1])  # x_1
        >>> G = BiasedConcept(one, ["identity"], e[:1], e[:1])  # h^2 / |(h, 1)|
        >>> print(ResidualConcept(F, G, 0.5)(e).round(4))
        [[1.3536]
         [0.    ]]
    """

    base: BiasedConcept
    composite: BiasedConcept
    alpha: float

    @entry
    def __init__(self, base: BiasedConcept, composite: BiasedConcept, alpha: int | float) -> None:
        check_finite(alpha, "alpha")
        k = base.outputs
        if composite.inputs != k or composite.outputs != k:
            raise ValueError(
                f"`composite` must map the {k} outputs of the base to {k}, got "
                f"{composite.inputs} inputs and {composite.outputs} outputs."
            )
        self.base, self.composite, self.alpha = base, composite, float(alpha)

    @classmethod
    @entry
    def sample(
        cls,
        inputs: int,
        outputs: int,
        base: Sequence[Function],
        composite: Sequence[Function],
        alpha: int | float,
        *,
        key: PRNGKeyArray,
    ) -> "ResidualConcept":
        """Draw both signals by `BiasedConcept.sample`, from functions without even terms."""
        check_key(key)
        key_F, key_G = jr.split(key)
        F = BiasedConcept.sample(inputs, base, outputs, key=key_F)
        return cls(F, BiasedConcept.sample(outputs, composite, outputs, key=key_G), alpha)

    @entry
    def __call__(self, x: Inputs) -> Outputs:
        """Its values at the rows of `x`, in their dtype."""
        F = self.base(x)
        return F + self.alpha * self.composite(F)

    @entry
    def complexity(
        self, *, epsilon: float = 0.1, constant: int | float = 2.0, exponent: int | float = 1.0
    ) -> ResidualComplexity:
        """The complexities of both signals: RN-13 and RN-14."""
        options = {"epsilon": epsilon, "constant": constant, "exponent": exponent}
        return ResidualComplexity(
            base=self.base.complexity(**options),
            composite=self.composite.complexity(**options),
            outputs=self.base.outputs,
            base_terms=self.base.terms,
            composite_terms=self.composite.terms,
        )


@entry
def parity_concept(
    coordinates: Sequence[int], inputs: int, alpha: int | float = 0.3
) -> ResidualConcept:
    r"""The hard instance for kernels as a residual concept, of low complexity for a network.

    $$F_r(x) = \sqrt{d/k}\, x_{i_r}, \qquad G_r(z) = \frac{k^k}{\sqrt k\, k!\, 2^k}
    \sum_{s \in \{0,1\}^k} (-1)^{|s|} \Big( \sum_i \frac{(-1)^{s_i} z_i}{\sqrt k} \Big)^k
    = \frac{k^{k/2}}{\sqrt k} \prod_i z_i$$

    On $x \in \{\pm 1/\sqrt d\}^d$ it is `data.target("hard-parities", ...)` divided by $\sqrt k$,
    so that $\|F(x)\| = 1$, with $p_F = 1$ and $p_G = 2^k$.

    Source: RN-15 and RN-16, arXiv:1905.10337 Corollary 7.1.

    Args:
        coordinates: S, k distinct ones.
        inputs: d.
        alpha: the size of the parity.

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
    bits = np.arange(2**k)[:, None] >> np.arange(k)[None, :] & 1
    signs = np.where(bits == 1, -1.0, 1.0)
    size = k**k / (math.sqrt(k) * math.factorial(k) * 2**k)
    # Factors are at most 1; from k = 11 on the rest of the size goes into the function.
    a = np.tile(min(size, 1.0) * np.prod(signs, axis=1), (k, 1))
    # (sqrt(2) z)^k: the argument is divided by sqrt(2).
    power = [0.0] * k + [max(size, 1.0) * 2.0 ** (k / 2)]
    composite = BiasedConcept.ridge(a, [power] * 2**k, signs / math.sqrt(k))
    return ResidualConcept(base, composite, alpha)
