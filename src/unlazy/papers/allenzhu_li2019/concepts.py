# SPDX-License-Identifier: Apache-2.0
"""Concepts 1 and 2: what residual networks learn, a base signal and a small composite of it."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_key
from unlazy.core.entries import entry
from unlazy.nets import ResNet3
from unlazy.papers.allenzhu_li2019.conditions import (
    ResNetConstants,
    ResNetTheory,
    resnet_theory,
)
from unlazy.papers.allenzhu_li_liang2019.concept_classes import random_factors, random_rows
from unlazy.papers.shared import PowerSeries, SeriesComplexity, series_complexity, taylor_series
from unlazy.papers.shared.smooth_functions import (
    Function,
    Inputs,
    Outputs,
    as_functions,
    checked_products,
    columns,
    forms,
    on_rows,
    small_factors,
    unit_rows,
)

_TAIL = 1e-12  # what is left of an infinite series where it is cut into odd and even parts


class BiasedConcept(eqx.Module):
    r"""A function of the class that one layer of a residual network provably learns.

    $$F_r(x) = \sum_{i \le p} a_{r,i}\, \phi_i\Big( \frac{\langle w_{1,i}, x_a\rangle}{\|x_a\|}
    \Big) \langle w_{2,i}, x_a\rangle, \qquad x_a = (x, 1)$$

    with unit $w_1, w_2$, $|a_{r,i}| \le 1$, and functions of a constant and odd terms only, those
    that `papers.allenzhu_li_liang2019.indicator_function` can make of indicators without a random
    bias. A term that an output does not have has factor 0 there. The $\phi_i$ are given by names,
    activations, coefficients or `PowerSeries`, the directions as rows.

    Source: RN-11, arXiv:1905.10337 Appendix A; there the functions depend on r as well, which here
    are further terms.

    Raises:
        ValueError: shapes do not fit, a row is not of unit norm, a factor is above 1, or a function
            has an even term other than its constant.

    Example:
        >>> e = np.eye(3)
        >>> concept = BiasedConcept(np.ones((1, 1)), ["identity"], e[:1], e[2:])
        >>> print(concept(np.array([[0.5, 0.0]])).round(4))
        [[0.4472]]
    """

    a: Float64[np.ndarray, "k p"]
    functions: tuple[PowerSeries, ...]
    w1: Float64[np.ndarray, "p d1"]
    w2: Float64[np.ndarray, "p d1"]

    @entry
    def __init__(
        self,
        a: Float[Array | np.ndarray, "k p"],
        functions: Sequence[Function],
        w1: Float[Array | np.ndarray, "p d1"],
        w2: Float[Array | np.ndarray, "p d1"],
    ) -> None:
        self.functions, self.w1, self.w2 = checked_products(functions, w1, w2)
        self.a = np.atleast_2d(small_factors(a, len(self.functions)))
        for i, function in enumerate(self.functions):
            _check_odd(function, i)

    @classmethod
    @entry
    def ridge(
        cls,
        a: Float[Array | np.ndarray, "k p"],
        functions: Sequence[Function],
        w: Float[Array | np.ndarray, "p d"],
    ) -> "BiasedConcept":
        r"""Write a sum of ridge functions on the unit sphere as a concept.

        $$F_r(x) = \sum_i a_{r,i}\, \phi_i(\langle w_i, x\rangle / \sqrt2), \qquad
        \|x\| = \|w_i\| = 1$$

        There $\|x_a\| = \sqrt2$. The constant and odd terms of $\phi_i$ go into a term with
        $w_2 = e_{d+1}$, the even ones, divided by their argument, into one with $w_2 = (w_i, 0)$.
        So p doubles at most, and complexities do not grow. Infinite series are cut where 1e-12 is
        left.

        Source: RN-10 and RN-12, arXiv:1905.10337 Lemma A.2.

        Raises:
            ValueError: `a`, `functions` and `w` are not as many, or all functions are zero.
        """
        a = np.atleast_2d(np.asarray(a, np.float64))
        series = as_functions(functions, "functions")
        if not a.shape[-1] == len(series) == np.shape(w)[0]:
            raise ValueError(
                "`functions` must be as many as the columns of `a` and the rows of `w`, got "
                f"{len(series)}, a.shape={a.shape} and w.shape={np.shape(w)}."
            )
        padded = np.pad(unit_rows(w, "w"), ((0, 0), (0, 1)))
        last = np.eye(padded.shape[1])[-1]
        factors, parts, w1, w2 = [], [], [], []
        for i, function in enumerate(series):
            odd, even = _split(function)
            # <w, x_a> is sqrt(2) times the argument, whence the factor of the even part.
            for part, times, factor in ((odd, last, 1.0), (even, padded[i], math.sqrt(0.5))):
                if np.any(part):
                    factors.append(a[:, i] * factor)
                    parts.append(taylor_series(part))
                    w1.append(padded[i])
                    w2.append(times)
        if not parts:
            raise ValueError("`functions` must not all be zero.")
        return cls(np.stack(factors, axis=1), parts, np.stack(w1), np.stack(w2))

    @classmethod
    @entry
    def sample(
        cls, inputs: int, functions: Sequence[Function], outputs: int, *, key: PRNGKeyArray
    ) -> "BiasedConcept":
        """Draw directions uniformly from the sphere and factors uniformly from [-1, 1]."""
        check_count(inputs, "inputs")
        check_count(outputs, "outputs")
        check_key(key)
        p = len(as_functions(functions, "functions"))
        key_a, key_1, key_2 = jr.split(key, 3)
        w1, w2 = (random_rows(p, inputs + 1, key=k) for k in (key_1, key_2))
        return cls(random_factors((outputs, p), key=key_a), functions, w1, w2)

    @property
    def inputs(self) -> int:
        """The dimension d of the inputs."""
        return self.w1.shape[1] - 1

    @property
    def outputs(self) -> int:
        """The number k of outputs."""
        return self.a.shape[0]

    @property
    def terms(self) -> int:
        """p, the most terms that an output has."""
        return int(np.max(np.count_nonzero(self.a, axis=1)))

    @entry
    def __call__(self, x: Inputs) -> Outputs:
        """Evaluate it at the rows of `x`, in their dtype."""
        return on_rows(self._values, x, self.inputs)

    @entry
    def complexity(
        self, *, epsilon: float = 0.1, constant: int | float = 2.0, exponent: int | float = 1.0
    ) -> SeriesComplexity:
        r"""The largest $C_\varepsilon(\phi_i, 1)$ and $C_s(\phi_i, 1)$: RN-13."""
        options = {"epsilon": epsilon, "constant": constant, "exponent": exponent}
        return series_complexity(self.functions, **options)

    def _values(self, x: Array) -> Array:
        xa = jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1)
        unit = xa / jnp.linalg.norm(xa, axis=1, keepdims=True)
        return forms(columns(self.functions, forms(unit, self.w1)) * forms(xa, self.w2), self.a)


class ResidualComplexity(eqx.Module):
    r"""The complexities of a residual concept, and the bounds on its size that follow.

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
        """L_G, the Lipschitz constant of the composite."""
        return math.sqrt(self.outputs) * self.composite_terms * self.composite.c_s

    @property
    def base_size(self) -> float:
        """B_F, the bound on the base signal."""
        return math.sqrt(self.outputs) * self.base_terms * self.base.c_s

    @property
    def composed_size(self) -> float:
        """B_FG, the bound on the composite of the base signal."""
        return self.lipschitz * self.base_size + self.lipschitz


class ResidualConcept(eqx.Module):
    r"""A base signal F with a small composite G of it.

    $$H(x) = F(x) + \alpha\, G(F(x)), \qquad F: \mathbb R^d \to \mathbb R^k, \quad
    G: \mathbb R^k \to \mathbb R^k$$

    Source: RN-10 and RN-11, arXiv:1905.10337 Concepts 1 and 2; Concept 1 has both by
    `BiasedConcept.ridge`, unit inputs and unit F(x).

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
        """Evaluate it at the rows of `x`, in their dtype."""
        F = self.base(x)
        return F + self.alpha * self.composite(F)

    @entry
    def complexity(
        self, *, epsilon: float = 0.1, constant: int | float = 2.0, exponent: int | float = 1.0
    ) -> ResidualComplexity:
        """The complexities of both signals: RN-13 and RN-14."""
        options = {"epsilon": epsilon, "constant": constant, "exponent": exponent}
        F, G = self.base, self.composite
        known = F.complexity(**options), G.complexity(**options)
        return ResidualComplexity(*known, F.outputs, F.terms, G.terms)

    @entry
    def theory(
        self,
        net: ResNet3,
        *,
        B_F: int | float | None = None,
        opt: int | float = 0.0,
        delta: int | float | None = None,
        constant: int | float = 2.0,
        exponent: int | float = 1.0,
        constants: ResNetConstants | None = None,
    ) -> ResNetTheory:
        """What the theorem prescribes to learn this concept with a network: `resnet_theory`.

        The numbers of terms, the complexities and alpha are those of the concept, the width and the
        scales of the start those of the network. The other arguments are as there.

        Source: RN-28, arXiv:1905.10337 Theorem 1.

        Raises:
            ValueError: the network has other inputs or outputs than the concept, is of the general
                form, or has another start than init="theory".
        """
        fits = (net.inputs, net.outputs) == (self.base.inputs, self.base.outputs)
        if not fits or (net.form, net.init_kind) != ("bottleneck", "theory"):
            raise ValueError(
                f"`net` must have {self.base.inputs} inputs and {self.base.outputs} outputs, as "
                "the concept, form='bottleneck' and init='theory', got "
                f"net.inputs={net.inputs}, net.outputs={net.outputs}, net.form={net.form!r} and "
                f"net.init_kind={net.init_kind!r}."
            )
        known = self.complexity(constant=constant, exponent=exponent)
        return resnet_theory(
            net.width,
            net.outputs,
            alpha=abs(self.alpha),
            c_s_F=known.base.c_s,
            c_s_G=known.composite.c_s,
            p_F=self.base.terms,
            p_G=self.composite.terms,
            B_F=B_F,
            opt=opt,
            delta=delta,
            sigma_w=net.sigma_w,
            sigma_v=net.sigma_v,
            constants=constants,
        )


def _split(series: PowerSeries) -> tuple[np.ndarray, np.ndarray]:
    """The constant and odd terms, and the even ones divided by z."""
    c = series.taylor(series.tail_degree(_TAIL))
    odd, even = c.copy(), np.zeros(max(len(c) - 1, 1))
    odd[2::2] = 0
    even[1::2] = c[2::2]
    return odd, even


def _check_odd(function: PowerSeries, i: int) -> None:
    last = 64 if function.degree is None else function.degree
    degrees = np.arange(2, last + 1, 2)
    even = degrees[np.isfinite(function.log_coefficients(degrees))] if len(degrees) else degrees
    if len(even):
        raise ValueError(
            f"`functions` must have a constant and odd terms only, got a term of degree {even[0]} "
            f"in function {i}. Ridge functions on the sphere can have others: BiasedConcept.ridge."
        )
