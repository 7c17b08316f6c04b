# SPDX-License-Identifier: Apache-2.0
"""Labels of a data set: which kinds are accepted, and how they become columns of numbers."""

import math
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64, Shaped

from unlazy.core.checks import check_finite, some_rows

Task = Literal["auto", "classify", "regress"]
_MOST_CLASSES = 20  # integers with more distinct values than this are quantities


def as_labels(y: Any) -> Shaped[np.ndarray, "n ..."]:
    """The labels as an array of numbers, text, dates or objects; raises if one is missing."""
    if getattr(y, "dtype", None) == jnp.bfloat16:  # NumPy knows only its size
        y = np.asarray(y, np.float32)
    if isinstance(y, np.ma.MaskedArray) or np.asarray(y).dtype.kind not in "OUSTMm":
        check_finite(y, "y")
        return np.asarray(y)
    y = np.asarray(y)
    if y.dtype.kind in "Mm":
        missing = np.isnat(y)
    elif y.dtype.kind == "O":
        missing = np.reshape([_is_missing(label) for label in y.flat], y.shape)
    else:
        return y
    rows = np.flatnonzero(missing.reshape(len(y), -1).any(axis=1))
    if rows.size:
        raise ValueError(f"`y` must have a label in every row, got none in {some_rows(rows)}.")
    return y


def encode(y: np.ndarray, task: Task) -> tuple[str, Float64[np.ndarray, "n c"], tuple[str, ...]]:
    """The task, the labels as columns of numbers, and the classes."""
    if task == "regress" or (task == "auto" and _are_quantities(y)):
        if y.dtype.kind not in "biuf":
            raise ValueError(f"`y` must be numbers for task='regress', got y.dtype={y.dtype}.")
        return "regress", np.asarray(y, np.float64).reshape(len(y), -1), ()
    if y.shape[1:] == (1,):
        y = y[:, 0]
    if y.ndim > 1:
        raise ValueError(f"`y` must have shape ({len(y)},) for classes, got y.shape={y.shape}.")
    classes = _distinct(y)
    if len(classes) < 2:
        raise ValueError(f"`y` must have two classes at least, got {classes.tolist()}.")
    columns = classes[:1] if len(classes) == 2 else classes  # one column tells two classes apart
    signs = np.where(y[:, None] == columns[None, :], 1.0, -1.0)
    return "classify", signs, tuple(str(c) for c in classes)


def _are_quantities(y: np.ndarray) -> bool:
    """Whether labels are numbers to regress on, by their type, shape and number."""
    if y.dtype.kind in "iu":
        return y.shape[1:] not in ((), (1,)) or len(np.unique(y)) > _MOST_CLASSES
    if y.dtype.kind == "f" and y.ndim == 1:
        return len(np.unique(y)) > 2  # two numbers are two classes, whatever they are
    return y.dtype.kind in "bf" and y.ndim > 1


def _distinct(y: np.ndarray) -> np.ndarray:
    try:
        return np.unique(y)
    except (TypeError, ValueError) as error:  # lists in the rows: a ValueError
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(
            f"`y` must be labels of one kind that can be sorted, got {', '.join(kinds)}. "
            "Convert them to text."
        ) from error


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float | np.floating) and not math.isfinite(label))
