# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of a grid, and the arrays that they stand for."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from unlazy.checks import check_count, check_finite, check_positive
from unlazy.train.batches import check_batch_size, common_count


def numbers(values: Any, name: str, *, allow_zero: bool) -> Float[np.ndarray, " values"]:
    """The values of one axis of a grid: at least one, finite, distinct, none negative."""
    given = np.asarray(values)
    # Text would be parsed.
    if not (jnp.issubdtype(given.dtype, jnp.floating) or jnp.issubdtype(given.dtype, jnp.integer)):
        raise ValueError(f"`{name}` must be numbers, got {name}={values!r}.")
    array = np.atleast_1d(np.asarray(given, np.float64))
    least, wanted = (0.0, "not negative") if allow_zero else (np.nextafter(0, 1), "positive")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"`{name}` must have at least one value, got {name}={values!r}.")
    if not np.isfinite(array).all() or (array < least).any():
        raise ValueError(f"`{name}` must be finite and {wanted}, got {name}={values!r}.")
    if len(np.unique(array)) != len(array):
        raise ValueError(f"`{name}` must be distinct, got {name}={values!r}.")
    return array


def seed_numbers(seeds: Sequence[int]) -> Int[np.ndarray, " seeds"]:
    """The seeds: at least one, each a number that a key can be folded with."""
    if np.ndim(seeds) == 0:
        raise ValueError(
            f"`seeds` must be a sequence of integers, got seeds={seeds!r}. "
            "Give range(3) for three replicates, or [3] for the seed 3 alone."
        )
    listed = list(seeds)
    for seed in listed:
        check_count(seed, "seeds", least=0)
    if not listed or max(listed) >= 2**32:
        raise ValueError(
            f"`seeds` must be at least one integer, each below 2**32, got seeds={seeds!r}."
        )
    return np.asarray(listed, np.int64)


def rate_scale(drops: Mapping[int, int | float], epochs: int) -> Float[np.ndarray, " epochs"]:
    """The factor of the learning rate in every epoch."""
    scale = np.ones(epochs)
    for epoch, factor in drops.items():
        check_count(epoch, "drops", least=0)
        if epoch >= epochs:
            raise ValueError(
                f"`drops` must be at epochs below epochs={epochs}, counted from 0, got {epoch}, "
                "which is never reached."
            )
        check_positive(factor, "drops")
        scale[epoch:] *= factor
    return scale


def evaluation_times(evaluate_every: int | None, epochs: int) -> list[int]:
    """After how many epochs the sets are evaluated; the end in any case."""
    if evaluate_every is None:
        return [epochs]
    check_count(evaluate_every, "evaluate_every")
    return sorted({*range(evaluate_every, epochs, evaluate_every), epochs})


def samples_of(leaves: list[Any], axes: list[int | None], name: str) -> int:
    """How many rows all arrays have, after the axis of seeds where there is one."""
    pairs = zip(leaves, axes, strict=True)
    shapes = [np.shape(leaf)[0 if axis is None else 1 :] for leaf, axis in pairs]
    count = common_count(shapes, name)
    for leaf in leaves:
        _check_finite(leaf, name)
    return count


def check_batches(batch_size: int | None, samples: int, key: Any) -> None:
    """Raise unless mini-batches of that size can be drawn."""
    if batch_size is None:
        return
    check_batch_size(batch_size, samples)
    if key is None:
        raise ValueError("`key` must be given when `batch_size` is, got key=None.")


def check_momentum(momentum: int | float) -> None:
    """Raise unless the velocity fades."""
    is_number = isinstance(momentum, int | float | np.number) and not isinstance(momentum, bool)
    if not (is_number and 0 <= momentum < 1):
        raise ValueError(
            f"`momentum` must be at least 0 and below 1, got momentum={momentum!r}. "
            "Use 0 for plain gradient descent."
        )


def check_optimizer(optimizer: Any) -> None:
    """Raise unless the optimiser is still to be made, of a learning rate and a weight decay."""
    if optimizer is None:
        return
    made = None
    if not callable(optimizer):
        made = "an optimiser that is made already" if hasattr(optimizer, "update") else optimizer
    elif str(getattr(optimizer, "__module__", "")).split(".")[0] == "optax":
        # As optax.adam, which would take the weight decay for b1.
        names = list(inspect.signature(optimizer).parameters)
        if names[1:2] != ["weight_decay"]:
            made = f"optax.{optimizer.__name__}, whose arguments are {', '.join(names)}"
    if made is not None:
        raise TypeError(
            "`optimizer` must be a function of the learning rate and the weight decay, "
            f"got {made}. Give `lambda lr, wd: optax.adamw(lr, weight_decay=wd)`, say, which the "
            "grid calls for every lane."
        )


def check_scalar(value: Any, name: str) -> None:
    """Raise unless a loss gave one number."""
    is_number = eqx.is_array_like(value)
    if not is_number or jnp.shape(value):
        found = f"an array of shape {jnp.shape(value)}" if is_number else type(value).__name__
        raise ValueError(
            f"`{name}` must give a scalar, got {found}. Take the mean over the batch, by jnp.mean."
        )


def check_sets(evaluate: Mapping[str, Any] | None) -> dict[str, Any]:
    """The sets to evaluate, none of them under the name of a column of the table."""
    taken = ("train", "learning_rate", "weight_decay", "seed", "diverged", "diverged_epoch")
    for name in evaluate or {}:
        if not isinstance(name, str) or name in taken:
            raise ValueError(
                f"`evaluate` must name its sets by other words than {', '.join(taken)}, "
                f"got {name!r}."
            )
    return dict(evaluate or {})


def check_start(params: Any) -> None:
    """Raise unless the parameters are finite."""
    for leaf in jax.tree.leaves(params):
        if eqx.is_inexact_array(leaf):
            _check_finite(leaf, "params")


def _check_finite(leaf: Any, name: str) -> None:
    # Small arrays by NumPy, for which nothing is compiled.
    if np.size(leaf) > 10**6 or not np.all(np.isfinite(np.asarray(leaf))):
        check_finite(leaf, name)
