# SPDX-License-Identifier: Apache-2.0
"""Sums of smooth functions of an angle times a linear form, with a bias as a last coordinate."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import check_count, check_key
from unlazy.core.entries import entry
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
    bias. A term that some outputs do not have has factor 0 there.

    Source: RN-11, arXiv:1905.10337 Appendix A; there the functions depend on r as well, which here
    are further terms.

    Args:
        a: factors, (k, p).
        functions: $\phi_i$, one a term: names, activations, coefficients or `PowerSeries`.
        w1: $w_1$, (p, d + 1), one direction a row.
        w2: $w_2$.

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
        r"""The concept that is a sum of ridge functions on the unit sphere.

        $$F_r(x) = \sum_i a_{r,i}\, \phi_i(\langle w_i, x\rangle / \sqrt2), \qquad
        \|x\| = \|w_i\| = 1$$

        There $\|x_a\| = \sqrt2$. The constant and odd terms of $\phi_i$ go into a term with
        $w_2 = e_{d+1}$, the even ones, divided by their argument, into one with $w_2 = (w_i, 0)$.
        So p doubles at most, and complexities do not grow.

        Source: RN-10 and RN-12, arXiv:1905.10337 Lemma A.2.

        Args:
            a: factors, (k, p).
            functions: $\phi_i$, of any terms; infinite series are cut where 1e-12 is left.
            w: one unit direction a row.

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
        """Its values at the rows of `x`, in their dtype."""
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
