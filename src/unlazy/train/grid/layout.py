# SPDX-License-Identifier: Apache-2.0
"""Parameters and data of a grid, apart: what is trained, what is shared, what a seed has alone."""

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from unlazy.core.trained import Trained, partition

Axes = Any
"""None or "seed" for a whole tree, or a tree of them that is a prefix of it."""

Axis = Literal["seed"] | None


@dataclass(frozen=True)
class Layout:
    """Where the trained, the frozen and the other leaves of the parameters sit; hashable."""

    structure: Any
    kinds: tuple[str, ...]  # "trained", "frozen" or "static", one a leaf
    statics: tuple[Any, ...]  # functions and the like
    frozen_axes: tuple[int | None, ...]

    @property
    def frozen_count(self) -> int:
        """How many of the frozen arrays are parameters."""
        return self.kinds.count("frozen")

    def combine(self, trained: Any, frozen: list[Array]) -> Any:
        """The parameters as the loss takes them."""
        rest, constants = iter(frozen), iter(self.statics)
        leaves = [
            leaf if kind == "trained" else next(rest if kind == "frozen" else constants)
            for kind, leaf in zip(self.kinds, _with_none(trained), strict=True)
        ]
        return jax.tree.unflatten(self.structure, leaves)


def lay_out(
    params: Any, trained: Trained, axes: Axes, seeds: int
) -> tuple[Layout, Any, list[Array]]:
    """The layout, the trained part with a leading axis of seeds, and the frozen arrays."""
    per_leaf = _with_none(leaf_axes(axes, params, "params", "params_axes"))
    part, rest = partition(params, trained)
    pairs = list(zip(_with_none(part), _with_none(rest), strict=True))
    kinds = tuple(
        "trained" if one is not None else "frozen" if eqx.is_array(other) else "static"
        for one, other in pairs
    )
    check_seed_axis(
        [leaf for leaf in (one if one is not None else other for one, other in pairs)],
        per_leaf,
        seeds,
        "params",
        "params_axes",
    )
    frozen = [other for kind, (_, other) in zip(kinds, pairs, strict=True) if kind == "frozen"]
    statics = tuple(
        other for kind, (_, other) in zip(kinds, pairs, strict=True) if kind == "static"
    )
    frozen_axes = tuple(
        axis for kind, axis in zip(kinds, per_leaf, strict=True) if kind == "frozen"
    )
    stacked = [
        # By NumPy: JAX would compile a program for each shape, half a second in all.
        leaf
        if leaf is None or axis == 0
        else jnp.asarray(np.broadcast_to(np.asarray(leaf), (seeds, *leaf.shape)))
        for leaf, axis in zip(_with_none(part), per_leaf, strict=True)
    ]
    structure = jax.tree.structure(part, is_leaf=_is_none)
    layout = Layout(structure, kinds, statics, frozen_axes)
    return layout, jax.tree.unflatten(structure, stacked), frozen


def leaf_axes(axes: Axes, tree: Any, name: str, of_axes: str) -> Any:
    """For each leaf of `tree` 0 if it carries an axis of seeds, None if all seeds share it."""

    def spread(axis: Axis, part: Any) -> Any:
        if axis not in (None, "seed"):
            raise ValueError(f'`{of_axes}` must hold None or "seed", got {axis!r}.')
        return jax.tree.map(lambda _: 0 if axis == "seed" else None, part, is_leaf=_is_none)

    try:
        return jax.tree.map(spread, axes, tree, is_leaf=lambda a: a is None or isinstance(a, str))
    except (ValueError, TypeError) as error:
        if "must hold" in str(error):
            raise
        raise ValueError(
            f'`{of_axes}` must be None, "seed" or a tree of them that is a prefix of the '
            f"structure of `{name}`, got {of_axes}={axes!r}: {error}"
        ) from error


def check_seed_axis(
    leaves: list[Any], axes: list[int | None], seeds: int, name: str, of_axes: str
) -> None:
    """Raise unless each leaf with an axis of seeds has one entry a seed."""
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis == 0 and eqx.is_array_like(leaf) and jnp.shape(leaf)[:1] != (seeds,):
            raise ValueError(
                f"`{name}` must have a leading axis of {seeds} entries, one a seed, where "
                f'`{of_axes}` says "seed", got shape {jnp.shape(leaf)}.'
            )


def of_seeds(
    arrays: list[Array], axes: tuple[int | None, ...], rows: Int[Array, " r"]
) -> list[Array]:
    """The arrays of the chosen seeds; shared ones as they are."""
    return [a if axis is None else a[rows] for a, axis in zip(arrays, axes, strict=True)]


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _with_none(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=_is_none)
