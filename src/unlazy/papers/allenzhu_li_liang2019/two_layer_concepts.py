# SPDX-License-Identifier: Apache-2.0
"""Equation (3.1): the concept class of two-layer learners."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import check_count, check_key
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.papers.shared import PowerSeries, SeriesComplexity, series_complexity
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
)


class TwoLayerConcept(eqx.Module):
    r"""A function of the class that two-layer learners provably learn.

    $$f^*_r(x) = \sum_{i \le p} a^*_{r,i}\, \phi_i(\langle w^*_{1,i}, x\rangle)\,
    \langle w^*_{2,i}, x\rangle, \qquad \|w^*_{1,i}\| = \|w^*_{2,i}\| = 1, \quad |a^*_{r,i}| \le 1$$

    A plain two-layer network has $w^*_{2,i} = e_d$, the padded coordinate of the inputs.

    Source: LG-3, arXiv:1811.04918 eq. (3.1).

    Args:
        a: factors, (p,) for values of shape (n,), or (k, p) for (n, k).
        functions: $\phi_i$, one per term: names, activations, coefficients or `PowerSeries`.
        w1: $w^*_1$, one direction per row.
        w2: $w^*_2$.

    Example:
        >>> concept = TwoLayerConcept(np.ones(1), ["sin"], np.eye(3)[:1], np.eye(3)[2:])
        >>> print(concept(np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5]])))
        [0.         0.42073549]
    """

    a: Float64[np.ndarray, "*c p"]
    functions: tuple[PowerSeries, ...]
    w1: Float64[np.ndarray, "p d"]
    w2: Float64[np.ndarray, "p d"]

    @entry
    def __init__(
        self,
        a: Float[Array | np.ndarray, "*c p"],
        functions: Sequence[Function],
        w1: Float[Array | np.ndarray, "p d"],
        w2: Float[Array | np.ndarray, "p d"],
    ) -> None:
        self.functions, self.w1, self.w2 = checked_products(functions, w1, w2)
        self.a = small_factors(a, len(self.functions))

    @classmethod
    @entry
    def sample(
        cls,
        inputs: int,
        functions: Sequence[Function],
        *,
        outputs: int | None = None,
        key: PRNGKeyArray,
    ) -> "TwoLayerConcept":
        """Draw directions uniformly from the sphere and factors uniformly from [-1, 1]."""
        check_count(inputs, "inputs")
        if outputs is not None:
            check_count(outputs, "outputs")
        check_key(key)
        p = len(as_functions(functions, "functions"))
        key_a, key_1, key_2 = jr.split(key, 3)
        w1, w2 = (random_rows(p, inputs, key=k) for k in (key_1, key_2))
        shape = (p,) if outputs is None else (outputs, p)
        return cls(random_factors(shape, key=key_a), functions, w1, w2)

    @entry
    def __call__(self, x: Inputs) -> Outputs:
        """The values at the rows of `x`, in their dtype."""
        return on_rows(self._values, x, self.w1.shape[1])

    @entry
    def complexity(
        self, *, epsilon: float = 0.1, constant: int | float = 2.0, exponent: int | float = 1.75
    ) -> SeriesComplexity:
        r"""The largest $C_\varepsilon(\phi_i, 1)$ and $C_s(\phi_i, 1)$: LG-5."""
        return series_complexity(
            self.functions, epsilon=epsilon, constant=constant, exponent=exponent
        )

    def _values(self, x: Array) -> Array:
        return weighted(columns(self.functions, forms(x, self.w1)) * forms(x, self.w2), self.a)


def weighted(terms: Array, a: Float64[np.ndarray, "*c p"]) -> Array:
    """The sums over terms, which are columns, with the factors `a` of every output."""
    return forms(terms, a) if a.ndim == 2 else forms(terms, a[None])[:, 0]


def random_rows(rows: int, inputs: int, *, key: PRNGKeyArray) -> Float64[np.ndarray, "q d"]:
    """Directions, uniform on the sphere."""
    with float64():
        w = np.asarray(jr.normal(key, (rows, inputs), jnp.float64))
    return w / np.linalg.norm(w, axis=1, keepdims=True)


def random_factors(shape: tuple[int, ...], *, key: PRNGKeyArray) -> Float64[np.ndarray, "..."]:
    """Factors, uniform on [-1, 1]."""
    with float64():
        return np.asarray(jr.uniform(key, shape, jnp.float64, -1.0, 1.0))
