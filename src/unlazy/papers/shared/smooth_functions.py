# SPDX-License-Identifier: Apache-2.0
"""The non-linear functions of a concept class, from names, activations or coefficients."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.activations import Activation, activation
from unlazy.core.checks import as_array, check_finite
from unlazy.core.float64 import float64
from unlazy.data.composed_products import ComposedProduct
from unlazy.data.parities import ComposedParities
from unlazy.papers.shared.power_series import PowerSeries, taylor_series
from unlazy.papers.shared.series_operations import ChebyshevSeries

Function = (
    str
    | Activation
    | PowerSeries
    | ChebyshevSeries
    | Sequence[int | float]
    | Float[np.ndarray, " q"]
)
Inputs = Float[Array | np.ndarray, "n d"]
Outputs = Float[Array | np.ndarray, "n *c"]
_KINKED = ("relu", "relu3")  # activations without a power series around 0


def as_series(function: Function, name: str = "function") -> PowerSeries:
    """The power series of a name, an activation or coefficients; `name` is what errors call it."""
    if isinstance(function, ChebyshevSeries):
        return function.series
    if isinstance(function, str) and function in _KINKED:
        function = activation(function)
    if not isinstance(function, Activation):
        _check_one_variable(function, name)
        return taylor_series(function)
    if function.name == "polynomial" and function.shift == 0:
        return taylor_series(function.coefficients)
    if function.name in _KINKED or function.shift != 0:
        raise ValueError(
            f"`{name}` must be smooth and without a shift, got "
            f"{function.name} with shift={function.shift}. Fit a polynomial with "
            "papers.shared.chebyshev_series."
        )
    return taylor_series(function.name)


def as_functions(functions: Sequence[Function], name: str) -> tuple[PowerSeries, ...]:
    """The power series of each of a list of functions; `name` is what errors call it."""
    if isinstance(functions, str | Activation | PowerSeries | ChebyshevSeries):
        shown = repr(functions) if isinstance(functions, str) else type(functions).__name__
        raise TypeError(
            f"`{name}` must be a list of functions, got {name}={shown}. Put it into a list, "
            "also if it is the only one."
        )
    if not len(functions):
        raise ValueError(f"`{name}` must be at least one function, got none.")
    return tuple(as_series(function, name) for function in functions)


def _check_one_variable(function: Any, name: str) -> None:
    """Raise for a target or a concept, which has a complexity of its own."""
    ask = "complexity()" if callable(getattr(function, "complexity", None)) else None
    if isinstance(function, ComposedProduct):
        ask = "product_concept(...).complexity()"
    elif isinstance(function, ComposedParities):
        ask = "parities_concept(...).complexity()"
    if ask is not None:
        raise TypeError(
            f"`{name}` must be a function of one variable, got {type(function).__name__}, "
            f"one of several inputs. Ask for its own complexity by {ask}."
        )


def unit_rows(w: Float[Array | np.ndarray, "q d"], name: str) -> Float[np.ndarray, "q d"]:
    """The rows in float64, checked to have unit norm to the precision of float32."""
    w = np.asarray(w, np.float64)
    if w.ndim != 2 or 0 in w.shape:
        raise ValueError(f"`{name}` must be a matrix of row vectors, got {name}.shape={w.shape}.")
    check_finite(w, name)
    norms = np.linalg.norm(w, axis=1)
    worst = int(np.argmax(np.abs(norms - 1)))
    if abs(norms[worst] - 1) > 1e-5:
        raise ValueError(
            f"`{name}` must have rows of unit norm, got {norms[worst]:.6g} in row {worst}. "
            "Put the norm into the function, whose argument can be scaled."
        )
    return w


class Products(NamedTuple):
    """Functions of one linear form, each times another form."""

    functions: tuple[PowerSeries, ...]
    w1: Float[np.ndarray, "p d"]
    w2: Float[np.ndarray, "p d"]


def checked_products(
    functions: Sequence[Function],
    w1: Float[Array | np.ndarray, "p d"],
    w2: Float[Array | np.ndarray, "p d"],
) -> Products:
    """The terms of a concept, checked to have one function per pair of unit directions."""
    terms = Products(as_functions(functions, "functions"), unit_rows(w1, "w1"), unit_rows(w2, "w2"))
    if len(terms.functions) != len(terms.w1) or terms.w1.shape != terms.w2.shape:
        raise ValueError(
            "`functions`, `w1` and `w2` must be as many, got "
            f"{len(terms.functions)}, w1.shape={terms.w1.shape} and w2.shape={terms.w2.shape}."
        )
    return terms


def small_factors(a: Float[Array | np.ndarray, "*c q"], terms: int) -> Float[np.ndarray, "*c q"]:
    """The factors in float64, checked to be at most 1 in size, one per term."""
    a = np.asarray(a, np.float64)
    if a.ndim not in (1, 2) or a.shape[-1] != terms:
        raise ValueError(
            f"`a` must have shape ({terms},) or (k, {terms}), one factor a term, "
            f"got a.shape={a.shape}."
        )
    check_finite(a, "a")
    if np.max(np.abs(a)) > 1 + 1e-6:
        raise ValueError(
            f"`a` must be at most 1 in size, got {np.max(np.abs(a)):.6g}. "
            "Put the factor into the function."
        )
    return a


def on_rows(function: Callable[[Array], Array], x: Inputs, inputs: int) -> Outputs:
    """The function at the rows: NumPy rows give NumPy values, JAX rows JAX values."""
    x = as_array(x)
    if x.ndim != 2 or x.shape[1] != inputs:
        raise ValueError(f"`x` must have shape (n, {inputs}), got x.shape={x.shape}.")
    if isinstance(x, jax.Array):
        return function(x)
    with float64():
        return np.asarray(function(jnp.asarray(x)))


def forms(x: Array, w: Float[np.ndarray, "q d"]) -> Array:
    """The inner products of the rows of `x` with those of `w`."""
    return jnp.matmul(x, jnp.asarray(w, x.dtype).T, precision=jax.lax.Precision.HIGHEST)


def columns(functions: Sequence[PowerSeries], z: Array) -> Array:
    """The j-th function of the j-th column; equal functions are evaluated together."""
    places: dict[tuple, list[int]] = {}
    for j, f in enumerate(functions):
        places.setdefault((f.name, f.coefficients, f.scale, f.logs, f.own_radius), []).append(j)
    values = [functions[own[0]](z[:, np.array(own)]) for own in places.values()]
    order = np.argsort(np.concatenate(list(places.values())))
    return jnp.concatenate(values, axis=1)[:, order]
