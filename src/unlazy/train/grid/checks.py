# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of `fit_grid`, and the arrays that they stand for."""

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from unlazy.core.checks import check_count, check_finite, check_name, check_positive
from unlazy.train.batches import check_batch_size, common_count


def numbers(values: Any, name: str, *, allow_zero: bool) -> Float[np.ndarray, " values"]:
    """The values of one axis of a grid: at least one, finite, distinct, none negative."""
    given = np.asarray(values)
    # Not np.asarray(values, float), which would parse text.
    if not (jnp.issubdtype(given.dtype, jnp.floating) or jnp.issubdtype(given.dtype, jnp.integer)):
        raise ValueError(f"`{name}` must be numbers, got {name}={values!r}.")
    array = np.atleast_1d(np.asarray(given, np.float64))
    least, wanted = (0.0, "not negative") if allow_zero else (np.nextafter(0, 1), "positive")
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one list of numbers, got {name}={values!r}.")
    if array.size == 0:
        raise ValueError(f"`{name}` must have at least one value, got {name}={values!r}.")
    if not np.isfinite(array).all() or (array < least).any():
        raise ValueError(f"`{name}` must be finite and {wanted}, got {name}={values!r}.")
    if len(np.unique(array)) != len(array):
        raise ValueError(f"`{name}` must be distinct, got {name}={values!r}.")
    return array


def representable(
    values: Float[np.ndarray, " values"], dtype: Any, name: str
) -> Float[np.ndarray, " values"]:
    """The values, rounded to the type of the parameters, where they must stay distinct."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = values.astype(dtype).astype(np.float64)
    is_lost = (narrow == 0) & (values > 0)
    if not np.isfinite(narrow).all() or is_lost.any() or len(np.unique(narrow)) != len(narrow):
        raise ValueError(
            f"`{name}` must be within the range of {jnp.dtype(dtype).name}, the type of the "
            f"parameters, and distinct in it, got {name}={values.tolist()}."
        )
    return narrow


def seed_numbers(
    seeds: Sequence[int] | Int[Array | np.ndarray, " s"],
) -> Int[np.ndarray, " seeds"]:
    """The seeds: at least one, each a number that `fold_in` takes."""
    if np.ndim(seeds) == 0:
        raise ValueError(
            f"`seeds` must be a sequence of integers, got seeds={seeds!r}. "
            "Give range(3) for three replicates, or [3] for the seed 3 alone."
        )
    listed = seeds.tolist() if isinstance(seeds, jax.Array) else list(seeds)
    for seed in listed:
        check_count(seed, "seeds", least=0, most=None)
    if not listed or max(listed) >= 2**32:
        raise ValueError(
            f"`seeds` must be at least one integer, each below 2**32, got seeds={seeds!r}."
        )
    return np.asarray(listed, np.int64)


def rate_scale(drops: Mapping[int, int | float], epochs: int) -> Float[np.ndarray, " epochs"]:
    """The factor of the learning rate in every epoch."""
    if not isinstance(drops, Mapping):
        raise ValueError(f"`drops` must be a dict of epochs and factors, got drops={drops!r}.")
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
    """The numbers of epochs after which the sets are evaluated, the last epoch included."""
    if evaluate_every is None:
        return [epochs]
    check_count(evaluate_every, "evaluate_every")
    return sorted({*range(evaluate_every, epochs, evaluate_every), epochs})


def check_arrays(leaves: list[Any], name: str) -> None:
    """Raise unless a set consists of arrays, at least one."""
    if not leaves:
        raise ValueError(f"`{name}` must hold at least one array, got none.")
    for leaf in leaves:
        if not eqx.is_array_like(leaf) or np.ndim(leaf) == 0:
            raise ValueError(
                f"`{name}` must be arrays with a row a sample, got {leaf!r} in the place of one. "
                "A list counts as a tree of its entries: make it an array by np.asarray."
            )


def check_seed_axis(
    leaves: list[Any], axes: list[int | None], seeds: int, name: str, of_axes: str
) -> None:
    """Raise unless each leaf with an axis of seeds has one entry per seed."""
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis == 0 and eqx.is_array_like(leaf) and jnp.shape(leaf)[:1] != (seeds,):
            raise ValueError(
                f"`{name}` must have a leading axis of {seeds} entries, one per seed, where "
                f'`{of_axes}` says "seed", got shape {jnp.shape(leaf)}.'
            )


def samples_of(leaves: list[Any], axes: list[int | None], name: str) -> int:
    """The number of rows of all arrays, not counting the axis of seeds."""
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


def products_of(precision: str | None) -> contextlib.AbstractContextManager:
    """A context in which products have this precision."""
    if precision is None:
        return contextlib.nullcontext()
    try:
        return jax.default_matmul_precision(precision)
    except (ValueError, TypeError) as error:
        raise ValueError(
            "`precision` must be one that `jax.default_matmul_precision` takes, such as "
            f"'highest', got precision={precision!r}."
        ) from error


def check_momentum(momentum: int | float) -> None:
    """Raise unless the momentum is from 0 to below 1."""
    is_number = isinstance(momentum, int | float | np.number) and not isinstance(momentum, bool)
    if not (is_number and 0 <= momentum < 1):
        raise ValueError(
            f"`momentum` must be at least 0 and below 1, got momentum={momentum!r}. "
            "Use 0 for plain gradient descent."
        )


def check_optimizer(optimizer: Any) -> None:
    """Raise unless this is a function that makes an optimiser of a learning rate and a decay."""
    if optimizer is None:
        return
    made = None
    if not callable(optimizer):
        made = "an optimiser that is made already" if hasattr(optimizer, "update") else optimizer
    elif not _takes_two(optimizer):
        made = f"one of {inspect.signature(optimizer)}"
    elif str(getattr(optimizer, "__module__", "")).split(".")[0] == "optax":
        # Such as optax.adam, which would take the weight decay for b1.
        names = list(inspect.signature(optimizer).parameters)
        if names[1:2] != ["weight_decay"]:
            made = f"optax.{optimizer.__name__}, whose arguments are {', '.join(names)}"
    if made is not None:
        raise TypeError(
            "`optimizer` must be a function of the learning rate and the weight decay, "
            f"got {made}. Give `lambda lr, wd: optax.adamw(lr, weight_decay=wd)`, say, which the "
            "grid calls for every lane."
        )


def _takes_two(function: Any) -> bool:
    with contextlib.suppress(ValueError):  # there is no signature
        try:
            inspect.signature(function).bind(None, None)
        except TypeError:
            return False
    return True


def check_scalar(value: Any, name: str) -> None:
    """Raise unless a loss returned one number."""
    is_number = eqx.is_array_like(value)
    if not is_number or jnp.shape(value):
        found = f"an array of shape {jnp.shape(value)}" if is_number else type(value).__name__
        raise ValueError(
            f"`{name}` must give a scalar, got {found}. Take the mean over the batch, by jnp.mean."
        )


def check_best(best: str, metric: Any) -> None:
    """Raise unless `best` is a choice, and a sensible one."""
    check_name(best, ["smallest", "largest"], "best")
    if best == "largest" and metric is None:
        raise ValueError(
            "`metric` must be given where best='largest', got metric=None: the lane of the largest "
            "loss would be the best. Pass a metric to maximise, such as the accuracy."
        )


def check_sets(evaluate: Mapping[str, Any] | None) -> dict[str, Any]:
    """The sets to evaluate; none may have the name of a column of the table."""
    if not isinstance(evaluate, Mapping | None):
        raise ValueError(
            '`evaluate` must be a dict of named sets, such as {"test": (x_test, y_test)}, got a '
            f"{type(evaluate).__name__}."
        )
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
    # NumPy checks small arrays without compiling anything.
    if np.size(leaf) > 10**6 or not np.all(np.isfinite(np.asarray(leaf))):
        check_finite(leaf, name)
