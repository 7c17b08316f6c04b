# SPDX-License-Identifier: Apache-2.0
"""Labels of a data set: which kinds are accepted, and how they become columns of numbers."""

import math
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float64, Shaped

from unlazy.core.checks import check_finite, some_rows

Task = Literal["auto", "classify", "regress"]
_LARGEST = 1e150  # numbers whose squares are still finite
_MOST_CLASSES = 20  # integers with more distinct values than this are quantities


class LabelColumns(NamedTuple):
    """Labels as columns of numbers, not yet centred, and the classes; none for regression."""

    task: str
    columns: Float64[np.ndarray, "n c"]
    classes: tuple[str, ...]
    codes: np.ndarray  # the class of each row by number; the label itself for regression


def as_labels(y: Any) -> Shaped[np.ndarray, "n ..."]:
    """The labels as an array of numbers, text, dates or objects; raises if one is missing."""
    labels = label_array(y)
    if labels.dtype.kind == "f":
        check_finite(labels, "y")
    rows = np.flatnonzero(~has_label(labels))
    if rows.size:
        raise ValueError(f"`y` must have a label in every row, got none in {some_rows(rows)}.")
    return labels


def label_array(y: Any) -> Shaped[np.ndarray, "n ..."]:
    """The labels as an array of numbers, text, dates or objects, some perhaps missing."""
    if getattr(y, "dtype", None) == jnp.bfloat16:  # NumPy knows only its size
        y = np.asarray(y, np.float32)
    if isinstance(y, np.ma.MaskedArray):
        check_finite(y, "y")
    y = np.asarray(y)
    if y.dtype.kind not in "OUSTMmf":
        check_finite(y, "y")  # which names what is no number
    if y.dtype.kind == "f" and np.isinf(y).any():
        check_finite(np.where(np.isnan(y), 0.0, y), "y")
    return y


def has_label(y: Shaped[np.ndarray, "n ..."]) -> Bool[np.ndarray, " n"]:
    """Which rows have a label: not nan, NaT, None or an empty text."""
    if y.dtype.kind == "f":
        missing = np.isnan(y)
    elif y.dtype.kind in "Mm":
        missing = np.isnat(y)
    elif y.dtype.kind in "OUST":
        missing = np.reshape([_is_missing(label) for label in y.flat], y.shape)
    else:
        return np.ones(len(y), bool)
    return ~np.any(np.reshape(missing, (len(y), -1)), axis=1)


def encode(y: np.ndarray, task: Task) -> LabelColumns:
    """Classes as columns of +1 and -1, one per class, or one for two; or the numbers themselves."""
    if task == "regress" or (task == "auto" and _are_quantities(y)):
        columns = quantities(y)
        if np.max(np.abs(columns)) > _LARGEST:
            raise ValueError(
                f"`y` must be small enough to be squared, got one beyond {_LARGEST:g}."
            )
        if np.all(columns == columns[0]):
            raise ValueError(f"`y` must vary, got {columns[0, 0]:g} in all {len(y)} rows.")
        return LabelColumns("regress", columns, (), columns)
    if y.shape[1:] == (1,):
        y = y[:, 0]
    if y.ndim > 1:
        raise ValueError(f"`y` must have shape ({len(y)},) for classes, got y.shape={y.shape}.")
    classes, codes = _distinct(y)
    if len(classes) < 2:
        raise ValueError(f"`y` must have two classes at least, got {classes.tolist()}.")
    # Classes beyond this would be rows of their own, and take a column of memory each.
    if len(classes) > max(_MOST_CLASSES, len(y) // 2):
        raise ValueError(
            f"`y` must have fewer classes than rows, got {len(classes)} classes in {len(y)} rows. "
            "Name another column, or use task='regress' for numbers."
        )
    columns = np.arange(1 if len(classes) == 2 else len(classes))
    signs = np.where(codes[:, None] == columns[None, :], 1.0, -1.0)
    return LabelColumns("classify", signs, tuple(str(c) for c in classes), codes)


def quantities(y: np.ndarray) -> Float64[np.ndarray, "n c"]:
    """Numbers to regress on, as columns."""
    if y.dtype.kind not in "biuf":
        raise ValueError(f"`y` must be numbers for task='regress', got y.dtype={y.dtype}.")
    return np.asarray(y, np.float64).reshape(len(y), -1)


def standardised(columns: Float64[np.ndarray, "n c"], task: str) -> Float64[np.ndarray, "n c"]:
    """The columns centred, and for regression scaled so that the mean square of a row is 1."""
    centred = columns - columns.mean(axis=0)
    size = math.sqrt(np.mean(np.sum(centred**2, axis=1)))
    if not size > 1e-12 * np.abs(columns).max():
        raise ValueError("`y` must vary between rows that differ, got one mean label for all.")
    return centred / size if task == "regress" else centred


def _are_quantities(y: np.ndarray) -> bool:
    """Whether labels are numbers to regress on, by their type, shape and number."""
    if y.dtype.kind in "iu":
        return y.shape[1:] not in ((), (1,)) or len(np.unique(y)) > _MOST_CLASSES
    if y.dtype.kind == "f" and y.shape[1:] in ((), (1,)):
        values = np.unique(y)  # two numbers are two classes, whatever they are
        return len(values) > (_MOST_CLASSES if np.all(values == np.round(values)) else 2)
    return y.dtype.kind in "bf" and y.ndim > 1


def _distinct(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    try:
        return np.unique(y, return_inverse=True)
    except (TypeError, ValueError) as error:  # lists in the rows: a ValueError
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(
            f"`y` must be labels of one kind that can be sorted, got {', '.join(kinds)}. "
            "Convert them to text."
        ) from error


def _is_missing(label: Any) -> bool:
    if isinstance(label, str):
        return not label.strip()
    if type(label).__name__ in ("NAType", "NaTType"):  # of pandas
        return True
    is_float = isinstance(label, float | np.floating)
    return label is None or (is_float and not math.isfinite(label)) or label is np.ma.masked
