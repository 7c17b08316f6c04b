# SPDX-License-Identifier: Apache-2.0
"""Which parameters move, and by how much."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.roles import Role, is_float, roles

_NO_NUMBERS = "OSUMm"  # NumPy's kinds of objects, text and times, which JAX does not have


@entry
def displacement(start: PyTree, end: PyTree) -> PyTree:
    r"""The movement of a model's parameters from `start` to `end`, as `terms` takes it.

    $$\delta = \theta_{\text{end}} - \theta_{\text{start}}$$

    where `nets.partition` trains a parameter, and None elsewhere: at functions, integers, keys and
    settings, at running statistics and at the rest of what a model keeps beside its parameters.

    Source: BL-8, arXiv:1910.01619 section 3, where the movement is W.

    Args:
        start: any pytree: an Equinox model, the `variables` or the "params" of a Flax Linen model,
            the state of an `nnx.split`.
        end: the same model, such as `fit(...).params`; what is None in it does not move.

    Returns:
        The movement, in the structure of `start`.

    Raises:
        ValueError: the two do not fit; the first leaf that differs is named.

    Example:
        >>> start = {"w": jnp.array([1.0, 2.0]), "layers": 3}
        >>> end = {"w": jnp.array([1.5, 2.0]), "layers": 3}
        >>> print(displacement(start, end))
        {'layers': None, 'w': Array([0.5, 0. ], dtype=float32)}
    """
    with float64_if(is_wide(start)):
        values, ends = matched(start, end, "end", "start")
        return difference(values, _only_parameters(values, ends))


def matched(
    params: PyTree, delta: PyTree, name: str = "delta", of: str = "params"
) -> tuple[PyTree, PyTree]:
    """Check that the two fit; return their floats as JAX arrays, None in `delta` for what is fixed.

    Integers, booleans, keys, functions and the settings of a module never move; a parameter whose
    movement is None does not either, and costs nothing. Running statistics move if `delta` does.

    Raises:
        ValueError: the two do not fit; the first leaf that differs is named.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(params, is_leaf=_is_none)
    moves = jax.tree_util.tree_flatten_with_path(delta, is_leaf=_is_none)[0]
    _check_paths([path for path, _ in leaves], [path for path, _ in moves], name, of)
    found = jax.tree.leaves(roles(params), is_leaf=_is_none)
    values, movements = [], []
    for (path, leaf), (_, move), role in zip(leaves, moves, found, strict=True):
        if leaf is None and move is not None:
            raise ValueError(
                f"`{name}` must be None at {_word(path)}, where `{of}` is, got {_kind(move)}."
            )
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in _NO_NUMBERS:
            raise ValueError(
                f"`{of}` must hold arrays of numbers, got dtype {leaf.dtype} at {_word(path)}."
            )
        moving = leaf is not None and role is not Role.FIXED
        values.append(_as_array(leaf) if moving else leaf)
        movements.append(_movement(path, _as_array(leaf), move, name, of) if moving else None)
    return structure.unflatten(values), structure.unflatten(movements)


def difference(params: PyTree, new_params: PyTree) -> PyTree:
    """The movement from `params` to `new_params`, as `matched` returns them."""
    return jax.tree.map(
        lambda to, start: None if to is None else to - start, new_params, params, is_leaf=_is_none
    )


def _only_parameters(params: PyTree, new_params: PyTree) -> PyTree:
    """None in place of statistics and all else that `partition` does not train by itself."""
    return jax.tree.map(
        lambda to, role: to if role is Role.PARAMETER else None,
        new_params,
        roles(params),
        is_leaf=_is_none,
    )


def is_wide(params: PyTree) -> bool:
    """Whether a parameter is float64, so that all is computed in float64."""
    return any(getattr(leaf, "dtype", None) == np.float64 for leaf in jax.tree.leaves(params))


def float64_if(wide: bool) -> contextlib.AbstractContextManager[None]:
    """The float64 scope, or the caller's own setting."""
    return float64() if wide else contextlib.nullcontext()


def _movement(path: tuple, value: Array, move: Any, name: str, of: str) -> Array | None:
    if move is None:
        return None
    if not is_float(move, in_module=False):
        raise ValueError(
            f"`{name}` must hold an array of floats at {_word(path)}, where `{of}` does, "
            f"got {_kind(move)}. Put None where a parameter does not move."
        )
    moved = _as_array(move)
    if moved.shape != value.shape or moved.dtype != value.dtype:
        # With x64 off, transformations hand on float32 in place of float64.
        narrowed = value.dtype == np.float64 and moved.dtype == np.float32
        hint = " For float64 turn x64 on: with jax.enable_x64(True)." if narrowed else ""
        raise ValueError(
            f"`{name}` must be like `{of}`, with {_kind(value)} at {_word(path)}, "
            f"got {_kind(moved)} there.{hint}"
        )
    return moved


def _check_paths(wanted: list[tuple], given: list[tuple], name: str, of: str) -> None:
    for k in range(max(len(wanted), len(given))):
        here = wanted[k] if k < len(wanted) else None
        there = given[k] if k < len(given) else None
        if here != there:
            raise ValueError(
                f"`{name}` must have the structure of `{of}`, got "
                f"{'nothing' if there is None else _word(there)} where `{of}` has "
                f"{'nothing' if here is None else _word(here)}. "
                "Put None where a parameter does not move."
            )


def _word(path: tuple) -> str:
    return jax.tree_util.keystr(path) or "its only leaf"


def _kind(leaf: Any) -> str:
    if isinstance(leaf, Array | np.ndarray | np.generic):
        return f"{leaf.dtype}{list(leaf.shape)}"
    return type(leaf).__name__


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _as_array(leaf: Any) -> Array:
    # jnp.asarray takes 50 microseconds for what is an array already, which adds up over a network.
    return leaf if isinstance(leaf, Array) else jnp.asarray(leaf)
