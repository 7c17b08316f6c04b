# SPDX-License-Identifier: Apache-2.0
"""Which parameters move, and by how much."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from unlazy.core.float64 import float64


def matched(params: PyTree, delta: PyTree, name: str = "delta") -> tuple[PyTree, PyTree]:
    """Check that the two fit; return their floats as JAX arrays, None in `delta` for what is fixed.

    Integers, booleans, keys and functions among the parameters never move; a parameter whose
    movement is None does not either, and costs nothing.

    Raises:
        ValueError: the two do not fit; the first leaf that differs is named.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(params, is_leaf=_is_none)
    moves = jax.tree_util.tree_flatten_with_path(delta, is_leaf=_is_none)[0]
    _check_paths([path for path, _ in leaves], [path for path, _ in moves], name)
    values, movements = [], []
    for (path, leaf), (_, move) in zip(leaves, moves, strict=True):
        if leaf is None and move is not None:
            raise ValueError(
                f"`{name}` must be None at {_word(path)}, where `params` is, got {_kind(move)}."
            )
        values.append(_as_array(leaf) if _is_float(leaf) else leaf)
        movements.append(_movement(path, _as_array(leaf), move, name) if _is_float(leaf) else None)
    return structure.unflatten(values), structure.unflatten(movements)


def displacement(params: PyTree, new_params: PyTree) -> PyTree:
    """The movement from `params` to `new_params`, as `matched` returns them."""
    return jax.tree.map(
        lambda to, start: None if to is None else to - start, new_params, params, is_leaf=_is_none
    )


def is_wide(params: PyTree) -> bool:
    """Whether a parameter is float64, so that all is computed in float64."""
    return any(getattr(leaf, "dtype", None) == np.float64 for leaf in jax.tree.leaves(params))


def float64_if(wide: bool) -> contextlib.AbstractContextManager[None]:
    """The float64 scope, or the caller's own setting."""
    return float64() if wide else contextlib.nullcontext()


def _movement(path: tuple, value: Array, move: Any, name: str) -> Array | None:
    if move is None:
        return None
    if not _is_float(move):
        raise ValueError(
            f"`{name}` must hold an array of floats at {_word(path)}, where `params` does, "
            f"got {_kind(move)}. Put None where a parameter does not move."
        )
    moved = _as_array(move)
    if moved.shape != value.shape or moved.dtype != value.dtype:
        # With x64 off, transformations hand on float32 in place of float64.
        narrowed = value.dtype == np.float64 and moved.dtype == np.float32
        hint = " For float64 turn x64 on: with jax.enable_x64(True)." if narrowed else ""
        raise ValueError(
            f"`{name}` must be like `params`, with {_kind(value)} at {_word(path)}, "
            f"got {_kind(moved)} there.{hint}"
        )
    return moved


def _check_paths(wanted: list[tuple], given: list[tuple], name: str) -> None:
    for k in range(max(len(wanted), len(given))):
        here = wanted[k] if k < len(wanted) else None
        there = given[k] if k < len(given) else None
        if here != there:
            raise ValueError(
                f"`{name}` must have the structure of `params`, got "
                f"{'nothing' if there is None else _word(there)} where `params` has "
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


def _is_float(leaf: Any) -> bool:
    if isinstance(leaf, Array | np.ndarray | np.generic):
        return jnp.issubdtype(leaf.dtype, jnp.inexact)
    return isinstance(leaf, float | complex)


def _as_array(leaf: Any) -> Array:
    # jnp.asarray takes 50 microseconds for what is an array already, which adds up over a network.
    return leaf if isinstance(leaf, Array) else jnp.asarray(leaf)
