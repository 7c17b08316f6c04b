# SPDX-License-Identifier: Apache-2.0
"""Equations (3.1) and (4.1), Remark 4.2: the concept classes of two- and three-layer learners."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import check_count, check_key
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.data.composed_products import PAIRS, ComposedProduct
from unlazy.papers.shared import (
    PowerSeries,
    SeriesComplexity,
    chebyshev_series,
    series_complexity,
    taylor_series,
)
from unlazy.papers.shared.complexities import log10_c_eps, log10_c_s, power_of_ten
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

Vectors = Float[Array | np.ndarray, "_ _"]


class TwoLayerConcept(eqx.Module):
    r"""A function of the class that two-layer learners provably learn.

    $$f^*_r(x) = \sum_{i \le p} a^*_{r,i}\, \phi_i(\langle w^*_{1,i}, x\rangle)\,
    \langle w^*_{2,i}, x\rangle, \qquad \|w^*_{1,i}\| = \|w^*_{2,i}\| = 1, \quad |a^*_{r,i}| \le 1$$

    A plain two-layer network has $w^*_{2,i} = e_d$, the padded coordinate of the inputs.

    Factors `a` of shape (p,) give values of shape (n,), and (k, p) gives (n, k). The `functions`
    $\phi_i$ are names, activations, coefficients or `PowerSeries`; `w1` and `w2` have one direction
    per row.

    Source: LG-3, arXiv:1811.04918 eq. (3.1).

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
        return _weighted(columns(self.functions, forms(x, self.w1)) * forms(x, self.w2), self.a)


class ThreeLayerComplexity(eqx.Module):
    r"""The complexities of a three-layer concept, as decimal logarithms.

    `inner` holds those of the inner functions at radius 1. The outer ones are taken at the radii
    that the theorems ask for, which are complexities of the inner functions. `reason` says why one
    is infinite.
    """

    inner: SeriesComplexity
    log10_outer_c_eps: float  # C_eps(Phi, sqrt(p2) C_eps(phi, 1))
    log10_outer_c_s: float  # C_s(Phi, p2 C_s(phi, 1))
    reason: str | None = None


class ThreeLayerConcept(eqx.Module):
    r"""A function of the class that three-layer learners provably learn.

    $$f^*_r(x) = \sum_{i \le p_1} a^*_{r,i}\, \Phi_i\Big( \sum_{j \le p_2} v^*_{1,i,j}\,
    \phi_{1,j}(\langle w^*_{1,j}, x\rangle) \Big) \Big( \sum_{j \le p_2} v^*_{2,i,j}\,
    \phi_{2,j}(\langle w^*_{2,j}, x\rangle) \Big)$$

    with all $w^*$ and the rows of $v^*_1, v^*_2$ of unit norm and $|a^*| \le 1$. In the generalised
    class each $\phi_{1,j}$ is multiplied by $\langle w^*_{3,j}, x\rangle$ and each $\phi_{2,j}$ by
    $\langle w^*_{4,j}, x\rangle$, with $w^*_{1,j} \perp w^*_{3,j}$.

    Factors `a` of shape (p1,) give values of shape (n,), and (k, p1) gives (n, k). The functions
    `outer` $\Phi_i$, `inner1` $\phi_{1,j}$ and `inner2` $\phi_{2,j}$ are names, activations,
    coefficients or `PowerSeries`; `v1` and `v2` have shape (p1, p2), `w1` to `w4` (p2, d).

    Source: LG-4, arXiv:1811.04918 eq. (4.1) and Remark 4.2.

    Example:
        >>> e, one = np.eye(3), np.ones((1, 1))
        >>> concept = ThreeLayerConcept(
        ...     np.ones(1), ["quadratic"], one, one, ["identity"], ["exp"], e[:1], e[1:2])
        >>> print(concept(np.array([[2.0, 0.0, 0.5]])))
        [2.]
    """

    a: Float64[np.ndarray, "*c p1"]
    outer: tuple[PowerSeries, ...]
    v1: Float64[np.ndarray, "p1 p2"]
    v2: Float64[np.ndarray, "p1 p2"]
    inner1: tuple[PowerSeries, ...]
    inner2: tuple[PowerSeries, ...]
    w1: Float64[np.ndarray, "p2 d"]
    w2: Float64[np.ndarray, "p2 d"]
    w3: Float64[np.ndarray, "p2 d"] | None
    w4: Float64[np.ndarray, "p2 d"] | None

    @entry
    def __init__(
        self,
        a: Float[Array | np.ndarray, "*c p1"],
        outer: Sequence[Function],
        v1: Vectors,
        v2: Vectors,
        inner1: Sequence[Function],
        inner2: Sequence[Function],
        w1: Vectors,
        w2: Vectors,
        w3: Vectors | None = None,
        w4: Vectors | None = None,
    ) -> None:
        self.outer = as_functions(outer, "outer")
        self.inner1, self.inner2 = as_functions(inner1, "inner1"), as_functions(inner2, "inner2")
        self.v1, self.v2 = unit_rows(v1, "v1"), unit_rows(v2, "v2")
        self.w1, self.w2 = unit_rows(w1, "w1"), unit_rows(w2, "w2")
        self.w3 = None if w3 is None else unit_rows(w3, "w3")
        self.w4 = None if w4 is None else unit_rows(w4, "w4")
        self.a = small_factors(a, len(self.outer))
        self._check_shapes()

    @classmethod
    @entry
    def sample(
        cls,
        inputs: int,
        outer: Sequence[Function],
        inner1: Sequence[Function],
        inner2: Sequence[Function],
        *,
        outputs: int | None = None,
        generalized: bool = False,
        key: PRNGKeyArray,
    ) -> "ThreeLayerConcept":
        """Draw every direction uniformly from its sphere and factors uniformly from [-1, 1]."""
        check_count(inputs, "inputs", least=2 if generalized else 1)
        if outputs is not None:
            check_count(outputs, "outputs")
        check_key(key)
        p1, p2 = len(as_functions(outer, "outer")), len(as_functions(inner1, "inner1"))
        keys = jr.split(key, 7)
        sizes = [(p1, p2)] * 2 + [(p2, inputs)] * 4
        pairs = zip(sizes, keys[1:], strict=True)
        v1, v2, w1, w2, w3, w4 = (random_rows(*size, key=k) for size, k in pairs)
        w3 = w3 - np.sum(w3 * w1, axis=1, keepdims=True) * w1
        w3 = w3 / np.linalg.norm(w3, axis=1, keepdims=True)
        more = (w3, w4) if generalized else (None, None)
        factors = random_factors((p1,) if outputs is None else (outputs, p1), key=keys[0])
        return cls(factors, outer, v1, v2, inner1, inner2, w1, w2, *more)

    @entry
    def __call__(self, x: Inputs) -> Outputs:
        """The values at the rows of `x`, in their dtype."""
        return on_rows(self._values, x, self.w1.shape[1])

    @entry
    def complexity(
        self, *, epsilon: float = 0.1, constant: int | float = 2.0, exponent: int | float = 1.75
    ) -> ThreeLayerComplexity:
        """The complexities that the theorems combine: LG-5 and LG-6."""
        inner = series_complexity(
            [*self.inner1, *self.inner2], epsilon=epsilon, constant=constant, exponent=exponent
        )
        log_p2 = math.log10(len(self.inner1))
        radius_eps, radius_s = log_p2 / 2 + inner.log10_c_eps, log_p2 + inner.log10_c_s
        reached = {"C_s": radius_s, "C_eps": radius_eps + math.log10(constant)}
        reasons = [inner.reason, _outer_reason(self.outer, reached)]
        return ThreeLayerComplexity(
            inner=inner,
            log10_outer_c_eps=log10_c_eps(self.outer, radius_eps, epsilon, constant),
            log10_outer_c_s=log10_c_s(self.outer, radius_s, constant, exponent),
            reason="; ".join(reason for reason in reasons if reason) or None,
        )

    @entry
    def factor(self, which: int, x: Inputs) -> Outputs:
        r"""The sums $\sum_j v^*_{1,i,j} \phi_{1,j}$, or the second ones for `which` 2: (n, p1)."""
        return on_rows(lambda rows: self._factor(which, rows), x, self.w1.shape[1])

    def _factor(self, which: int, x: Array) -> Array:
        first = self.inner1, self.w1, self.w3, self.v1
        second = self.inner2, self.w2, self.w4, self.v2
        functions, w, times, v = first if which == 1 else second
        values = columns(functions, forms(x, w))
        values = values if times is None else values * forms(x, times)
        return forms(values, v)

    def _values(self, x: Array) -> Array:
        return _weighted(columns(self.outer, self._factor(1, x)) * self._factor(2, x), self.a)

    def _check_shapes(self) -> None:
        p1, p2, d = len(self.outer), len(self.inner1), self.w1.shape[1]
        for name in ("v1", "v2", "w1", "w2", "w3", "w4"):
            shape, found = (p1, p2) if name[0] == "v" else (p2, d), getattr(self, name)
            if found is not None and found.shape != shape:
                raise ValueError(
                    f"`{name}` must have shape {shape} for {p1} outer and {p2} inner functions, "
                    f"got {name}.shape={found.shape}."
                )
        if len(self.inner2) != p2:
            raise ValueError(f"`inner2` must be {p2} functions, as inner1, got {len(self.inner2)}.")
        if self.w3 is not None:
            overlap = float(np.max(np.abs(np.sum(self.w1 * self.w3, axis=1))))
            if overlap > 1e-5:
                raise ValueError(
                    "`w3` must have rows orthogonal to those of w1, "
                    f"got an inner product of {overlap:.3g}."
                )


def _outer_reason(outer: Sequence[PowerSeries], reached: dict[str, float]) -> str | None:
    """Why an outer series diverges, if it does so without an infinite inner complexity."""
    for what, log10_size in reached.items():
        for function in outer:
            if math.log10(function.radius) <= log10_size < math.inf:
                return (
                    f"the series of {what} of the outer {function.name} diverges at "
                    f"{power_of_ten(log10_size):.6g}: its radius of convergence is "
                    f"{function.radius:.6g}"
                )
    return None


@entry
def product_concept(
    product: ComposedProduct, *, inputs: int = 4, degree: int = 41
) -> ThreeLayerConcept:
    r"""A target of the experiments as a three-layer concept, whose complexity is known.

    The hyperbolic tangents have no Taylor series on [-1, 1]: they become polynomials of that
    degree, within 4e-4 of them there.
    """
    check_count(inputs, "inputs", least=4)
    phi, psi = (_series(name, scale, degree) for name, scale in PAIRS[product.kind])
    root, e = math.sqrt(3), np.eye(inputs)
    return ThreeLayerConcept(
        a=np.ones(1),
        outer=[[4.0, -4.0 * root, 3.0]],  # (sqrt(3) z - 2)^2, since v has unit norm
        v1=np.full((1, 3), 1 / root),
        v2=np.eye(3)[:1],
        inner1=[phi] * 3,
        inner2=[psi] * 3,
        w1=e[:3],
        w2=np.tile(e[3], (3, 1)),
    )


def _series(name: str, scale: float, degree: int) -> PowerSeries:
    series = taylor_series(name, scale=scale)
    if series.radius > 1:
        return series
    return chebyshev_series(lambda z: getattr(np, name)(scale * z), degree).series


def _weighted(terms: Array, a: Float64[np.ndarray, "*c p"]) -> Array:
    """The sums over terms, which are columns, with the factors `a` of every output."""
    return forms(terms, a) if a.ndim == 2 else forms(terms, a[None])[:, 0]


def random_rows(rows: int, inputs: int, *, key: PRNGKeyArray) -> Float64[np.ndarray, "q d"]:
    """Draw directions uniformly from the sphere, one per row."""
    with float64():
        w = np.asarray(jr.normal(key, (rows, inputs), jnp.float64))
    return w / np.linalg.norm(w, axis=1, keepdims=True)


def random_factors(shape: tuple[int, ...], *, key: PRNGKeyArray) -> Float64[np.ndarray, "..."]:
    """Draw factors uniformly from [-1, 1]."""
    with float64():
        return np.asarray(jr.uniform(key, shape, jnp.float64, -1.0, 1.0))
