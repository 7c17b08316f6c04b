# SPDX-License-Identifier: Apache-2.0
"""The Taylor expansion of a network in its parameters: single terms, and the model they add to."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from unlazy.core.checks import MOST_FACTORIAL, calling, check_count, check_name, is_known
from unlazy.core.current import current, unwrapped
from unlazy.core.entries import entry
from unlazy.core.filtering import jit_filtered
from unlazy.core.guesses import begun
from unlazy.core.summaries import parameters_in_words
from unlazy.special.array_series import Series, dense, total
from unlazy.taylor.context import SPARE
from unlazy.taylor.interpreter import taylor_coefficients
from unlazy.taylor.movement import difference, float64_if, is_wide, matched
from unlazy.taylor.sides import check_sides, check_slope

Apply = Callable[[Any, Any], Array]
"""A network `f(params, x)`, with x of shape (n, ...) and outputs (n,) or (n, c)."""


@runtime_checkable
class HasTaylorSeries(Protocol):
    """A network that has its Taylor series in closed form."""

    def __call__(self, params: Any, x: Any, /) -> Array:
        """The outputs at `x`."""
        ...

    def taylor_series(
        self, params: Any, delta: Any, x: Any, order: int
    ) -> tuple[Series, dict[str, Array]]:
        """The series, and by the name of an operation whether it meets a kink."""
        ...


AtKinks = Literal["raise", "jax"]
"""What is done where a derivative does not exist: an error, or JAX's own derivative."""


@entry
def terms(
    f: Apply, params: PyTree, delta: PyTree, x: PyTree, order: int, *, at_kinks: AtKinks = "raise"
) -> Float[Array, "{order}+1 ..."]:
    r"""The Taylor terms of a network at `params`, in the direction `delta`.

    $$f^{(k)}(x) = \frac{1}{k!} \frac{d^k}{dt^k} f(\theta + t\,\delta, x) \Big|_{t=0},
    \qquad f(\theta + \delta, x) \approx \sum_{k=0}^{\text{order}} f^{(k)}(x)$$

    The first is the output at `params`, the second the linearised (NTK) model's change, the third
    the quadratic term, its 1/2 included. Computed in one pass over the network with truncated
    power series: about 2k + 1 times the products of a forward pass at order k, and a program that
    grows with k rather than with $2^k$. A network that offers `taylor_series`, as `TwoLayer` does,
    takes its closed form.

    Custom derivatives are followed as `jax.grad` follows them. Where a function has a kink, as ReLU
    at exactly 0, and the parameters move across it, the terms from both sides are compared: those
    that agree are returned, and otherwise there is no such term and the call raises. Nothing can be
    raised under `jax.jit` and the other transformations; there, and with `at_kinks="jax"`, JAX's
    own derivative at the kink is taken. Equal values that are sorted follow JAX everywhere, and so
    does the number of steps of `lax.while_loop`.

    Computed in the dtype of the parameters, products in full precision; float64 parameters give
    float64 terms whatever JAX's global setting is.

    Source: BL-8, arXiv:1910.01619 section 3, for a two-layer network; $f^L$ and $f^Q$ there are the
    terms of order 1 and 2.

    Args:
        f: the network: `f(params, x)`, one array of floats. An Equinox model:
            `lambda model, x: jax.vmap(model)(x)`; a Flax linen model: `model.apply`; Flax nnx:
            `lambda state, x: nnx.merge(graphdef, state)(x)`.
        params: any pytree. Only floats move; integers, keys, functions and the numbers in an
            Equinox module, which are settings, stay what they are.
        delta: the movement, in the structure of `params`, with None for what does not move;
            `displacement(params, end)` for that to `end`. Running statistics move where it is not
            None: the difference of two whole `variables` of a Flax linen model leads to the
            statistics of the end as well, `displacement` keeps those of the start.
        x: the inputs, an array or a pytree.
        order: the last term, 0 or more.
        at_kinks: "raise" where a term does not exist, or "jax" for JAX's own derivative there, as
            for a convolution without bias over an empty background.

    Returns:
        The terms 0 to `order`, along the first axis.

    Raises:
        NoTaylorTermError: a derivative of that order does not exist.
        UnsupportedOperationError: the network holds an operation that JAX cannot differentiate.

    Example:
        >>> cube = lambda w, x: (x @ w) ** 3
        >>> print(terms(cube, jnp.array([2.0]), jnp.array([1.0]), jnp.eye(1), 4).ravel())
        [ 8. 12.  6.  1.  0.]
    """
    check_count(order, "order", least=0, most=MOST_FACTORIAL)
    check_name(at_kinks, ("raise", "jax"), "at_kinks")
    params, delta = _scoped(matched, params, delta)
    with jax.default_matmul_precision("highest"):
        return _scoped(_values, params, f, delta, x, int(order), at_kinks, False)


class TaylorModel(eqx.Module):
    """The Taylor polynomial of a network around `params`, as `expand` makes it.

    A network `g(new_params, x)` itself: differentiable in both modes, and usable under `jit` and
    `vmap`, so that it is trained as the network is. Two are equal when they have the same `f`, the
    same order and the very same arrays for `params`: training twice compiles once. Each call sees
    what `f` reads from outside as it is then.
    """

    f: Apply
    params: PyTree
    order: int = eqx.field(static=True)
    at_kinks: AtKinks = eqx.field(static=True, default="raise")

    @entry
    def __call__(self, new_params: PyTree, x: PyTree) -> Float[Array, "..."]:
        """The outputs at `x`; what is None in `new_params` stays where it was.

        Running statistics in `new_params` that differ from those at the start count as moved.
        """
        params, new = _scoped(matched, self.params, new_params, "new_params")
        return _scoped(_values, params, self.f, new, x, self.order, self.at_kinks, True)

    def __repr__(self) -> str:
        """In one line: the order, the network and its size."""
        name = getattr(self.f, "__name__", type(self.f).__name__)
        return f"TaylorModel(order {self.order} of {name}, {parameters_in_words(self.params)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaylorModel):
            return False
        return self.f == other.f and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.f, self._identity()))

    def _identity(self) -> tuple:
        leaves, structure = jax.tree.flatten(self.params)
        return self.order, self.at_kinks, structure, tuple(id(leaf) for leaf in leaves)


@entry
def expand(f: Apply, params: PyTree, order: int, *, at_kinks: AtKinks = "raise") -> TaylorModel:
    r"""The Taylor model of a network around `params`.

    $$g(\theta', x) = \sum_{k=0}^{\text{order}} \frac{1}{k!} \frac{d^k}{dt^k}
    f(\theta + t\,(\theta' - \theta), x) \Big|_{t=0}$$

    the sum of the terms of `terms`, which says what happens at kinks. The model `g(new_params, x)`
    is equal to `f` to the order + 1 in the distance from `params`; order 1 gives the linearised
    (NTK) model. Products are done in the precision of the network's own.

    Source: BL-8 and BL-9, arXiv:1910.01619 section 3.

    Example:
        >>> g = expand(lambda w, x: jnp.exp(x @ w), jnp.zeros(1), 2)
        >>> print(g(jnp.array([2.0]), jnp.eye(1)))  # 1 + 2 + 2
        [5.]
    """
    check_count(order, "order", least=0, most=MOST_FACTORIAL)
    check_name(at_kinks, ("raise", "jax"), "at_kinks")
    params, _ = _scoped(matched, params, jax.tree.map(lambda _: None, params))
    return TaylorModel(f, params, int(order), at_kinks)


@entry
def linearize(f: Apply, params: PyTree) -> TaylorModel:
    r"""The linearised network, whose kernel is the tangent kernel at `params`.

    $$f(\theta, x) + \langle \nabla_\theta f(\theta, x), \theta' - \theta \rangle$$

    Source: BL-8 with k = 1, arXiv:1910.01619 section 3.

    Example:
        >>> g = linearize(lambda w, x: (x @ w) ** 2, jnp.array([3.0]))
        >>> print(g(jnp.array([4.0]), jnp.eye(1)))  # 9 + 6
        [15.]
    """
    return expand(f, params, 1)


def _scoped(function: Callable[..., Any], params: PyTree, *arguments: Any) -> Any:
    """Call a function in float64 if the parameters are, whatever the global setting is."""
    with float64_if(is_wide(params)):
        return function(params, *arguments)


def _values(
    params: PyTree, f: Apply, to: PyTree, x: PyTree, order: int, at_kinks: AtKinks, summed: bool
) -> Array:
    """As `_compiled`, with the terms at kinks checked from both sides."""
    shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(x))

    def launched(f: Apply) -> _Found:
        return _compiled(params, f, to, x, order, 0, summed)

    found = begun(launched, f, (params, x), shapes, wait=False)
    if order == 0 or at_kinks == "jax" or not found.has_ties():
        return found.values
    f = current(f, params, x)
    values = _from_sides(params, f, difference(params, to) if summed else to, x, order)
    return jnp.sum(values, axis=0) if summed else values


def _from_sides(params: PyTree, f: Apply, delta: PyTree, x: PyTree, order: int) -> Array:
    """The terms, if both sides of every kink that was met agree on them."""
    found = _compiled(params, f, delta, x, order, 0)
    here, names, eps = found.values, found.names_of_ties(), float(jnp.finfo(found.values.dtype).eps)
    # Every comparison within a derivative costs an order, and so does every limit of 0/0.
    sides = (_compiled(params, f, delta, x, order + SPARE, side).values for side in (1, -1))
    right, left = (values[: order + 1] for values in sides)
    check_sides(right, left, here, eps, names)
    right = right.at[0].set(here[0])
    if bool(jnp.any(right[1] != here[1])):
        measured = _difference_quotient(params, f, delta, x, eps)
        check_slope(right[1], here[1], measured, eps, names)
    return right


@eqx.filter_jit
def _difference_quotient(params: PyTree, f: Apply, delta: PyTree, x: PyTree, eps: float) -> Array:
    """The slope along `delta`, by a step that balances rounding and curvature."""
    step = eps ** (1 / 3) * (1 + _largest(params)) / _largest(delta)

    def along(sign: int) -> Array:
        def moved(p: Any, d: Array | None) -> Any:
            return p if d is None else p + (sign * step).astype(p.dtype) * d

        return f(jax.tree.map(moved, params, delta, is_leaf=lambda leaf: leaf is None), x)

    gap = along(1) - along(-1)
    return gap / (2 * step).astype(gap.dtype)


def _largest(tree: PyTree) -> Array:
    arrays = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    sizes = [jnp.max(jnp.abs(array), initial=0).astype(jnp.float32) for array in arrays]
    return jnp.max(jnp.stack(sizes))


class _Found(NamedTuple):
    values: Array
    ties: Array | None  # whether equal values moved apart, by operation
    names: tuple[str, ...]  # of the operations

    def has_ties(self) -> bool:
        return self.ties is not None and is_known(self.ties) and bool(np.any(self.ties))

    def names_of_ties(self) -> list[str]:
        ties = [False] * len(self.names) if self.ties is None else np.asarray(self.ties)
        return [name for name, tied in zip(self.names, ties, strict=True) if tied]


@jit_filtered
def _compiled(
    params: PyTree, f: Apply, to: PyTree, x: PyTree, order: int, side: int, summed: bool = False
) -> _Found:
    """The terms for the movement `to`; or their sum, for the movement to the parameters `to`."""
    delta = difference(params, to) if summed else to
    series, ties = _series(params, f, delta, x, order, side)
    values = total(series) if summed else jnp.stack(dense(series, order))
    assert values is not None
    flags = jnp.stack(list(ties.values())) if ties else None
    return _Found(values, flags, tuple(ties))


def _series(
    params: PyTree, f: Apply, delta: PyTree, x: PyTree, order: int, side: int
) -> tuple[Series, dict[str, Array]]:
    """The series, and by the name of an operation whether equal values moved apart there."""
    if isinstance(own := unwrapped(f), HasTaylorSeries) and side == 0:
        return own.taylor_series(params, delta, x, order)
    leaves, structure = jax.tree.flatten(params, is_leaf=lambda leaf: leaf is None)
    moves = jax.tree.leaves(delta, is_leaf=lambda leaf: leaf is None)
    moving = [k for k, move in enumerate(moves) if move is not None]

    def function(*values: Array) -> Array:
        filled = list(leaves)
        for k, value in zip(moving, values, strict=True):
            filled[k] = value
        with calling("f", "these `params` and this `x`"):
            return _one_array(f(structure.unflatten(filled), x))

    series, ctx = taylor_coefficients(
        function, order, [(leaves[k], moves[k]) for k in moving], side
    )
    ties: dict[str, Array] = {}
    for tie in ctx.ties:
        ties[tie.name] = ties[tie.name] | tie.found if tie.name in ties else tie.found
    return series, ties


def _one_array(out: Any) -> Array:
    if not isinstance(out, Array) or not jnp.issubdtype(out.dtype, jnp.inexact):
        kind = f"dtype {out.dtype}" if isinstance(out, Array) else type(out).__name__
        raise ValueError(
            f"`f` must return one array of floats, got {kind}. "
            "Select one output: lambda params, x: f(params, x)[0]."
        )
    return out
