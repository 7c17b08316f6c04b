# SPDX-License-Identifier: Apache-2.0
"""The labels beside a model's outputs: which outputs are right, and what a kernel is to learn."""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from unlazy.core.summaries import counted
from unlazy.laziness.label_columns import as_labels, quantities

_LISTED = 5  # classes in an error

LossName = Literal["auto", "cross-entropy", "squared"]
"""What the model was trained on: "auto" is cross-entropy for classes, else half the square."""


class Targets(NamedTuple):
    """Labels of a sample, for a model with so many outputs."""

    classes: np.ndarray | None  # the number of the class of each row; None for quantities
    columns: Float64[np.ndarray, "n c"]  # what a kernel is to learn: signs, one-hot rows, numbers
    names: tuple[str, ...]  # of the classes
    squared: bool  # whether the loss is half the squared error; else cross-entropy

    def at(self, rows: np.ndarray) -> "Targets":
        """The labels of some rows."""
        classes = None if self.classes is None else self.classes[rows]
        return self._replace(classes=classes, columns=self.columns[rows])

    def accuracy(self, outputs: Float[np.ndarray, "n c"]) -> float:
        """The share of rows whose class the outputs name; nan for quantities."""
        if self.classes is None:
            return math.nan
        if outputs.shape[1] == 1:
            chosen = (outputs[:, 0] > 0).astype(int)
        else:
            chosen = np.argmax(outputs, axis=1)
        return float(np.mean(chosen == self.classes))

    def loss(self, outputs: Float[np.ndarray, "n c"]) -> float:
        r"""The mean over the rows of the cross-entropy, or of half the squared error."""
        out = np.asarray(outputs, np.float64)
        if self.squared:
            return float(np.mean(np.sum((out - self.columns) ** 2, axis=1)) / 2)
        if out.shape[1] == 1:  # of the sigmoid, with signs as labels
            return float(np.mean(np.logaddexp(0, -out * self.columns)))
        logits = out - out.max(axis=1, keepdims=True)
        chosen = np.sum(logits * self.columns, axis=1)
        return float(np.mean(np.log(np.exp(logits).sum(axis=1)) - chosen))


def as_targets(
    y: Any,
    n: int,
    outputs: int,
    name: str = "y",
    *,
    loss: LossName = "auto",
    names: tuple[str, ...] = (),
) -> Targets:
    """Labels of any kind for `n` rows of a model with so many outputs.

    Classes are whole numbers from 0, text, one-hot rows, or for a model with one output two
    different numbers, of which the larger is the class of positive outputs. Rows of signs with one
    +1, as `data.load` gives them, are classes too; a kernel learns the signs, and the loss is
    squared unless another is named. All else is a quantity. Text is sorted, and its k-th class is
    that of output k; `names` are the classes of other labels, in whose order text is then taken.

    Raises:
        ValueError: the labels do not fit the rows or the outputs.
    """
    y = y.detach().cpu().numpy() if hasattr(y, "detach") else y  # of PyTorch
    y = y if hasattr(y, "dtype") else np.asarray(y)
    if np.shape(y)[:1] != (n,):
        raise ValueError(
            f"`{name}` must have one label per row of `x`, {n} in all, got {name}.shape="
            f"{np.shape(y)}."
        )
    labels = as_labels(y)
    if labels.shape[1:] == (1,):
        labels = labels[:, 0]
    if labels.ndim == 2 and _is_one_hot((labels + 1) / 2 if labels.dtype.kind in "if" else labels):
        if labels.shape[1] == outputs and loss != "cross-entropy":
            classes = _classes(np.argmax(labels, axis=1), outputs, name)
            return classes._replace(columns=labels.astype(np.float64), squared=True)
        labels = np.argmax(labels, axis=1)
    if labels.ndim == 2 and _is_one_hot(labels):
        labels = np.argmax(labels, axis=1)
    if labels.ndim == 1 and _are_classes(labels, outputs):
        return _classes(labels, outputs, name, names)._replace(squared=loss == "squared")
    if loss == "cross-entropy":
        raise ValueError(
            f"`{name}` must be classes for loss='cross-entropy', got quantities of shape "
            f"{np.shape(y)}."
        )
    columns = quantities(labels)
    if columns.shape != (n, outputs):
        raise ValueError(
            f"`{name}` must be quantities like the outputs of `f`, ({n}, {outputs}), or one class "
            f"per row, got {name}.shape={np.shape(y)}."
        )
    return Targets(None, columns, (), squared=True)


def _is_one_hot(y: np.ndarray) -> bool:
    if y.dtype.kind not in "biuf" or y.shape[1] < 2:
        return False
    return bool(np.all((y == 0) | (y == 1)) and np.all(np.sum(y, axis=1) == 1))


def _are_classes(y: np.ndarray, outputs: int) -> bool:
    if y.dtype.kind not in "iuf":
        return True
    if outputs > 1:
        return bool(np.all(y == np.round(y)))
    return len(np.unique(y)) == 2


def _classes(y: np.ndarray, outputs: int, name: str, names: tuple[str, ...] = ()) -> Targets:
    """Whole numbers name outputs; other labels are numbered in their order."""
    values, numbers = np.unique(y, return_inverse=True)
    if y.dtype.kind in "iuf" and outputs > 1:
        numbers = y.astype(int)
        if numbers.min() < 0 or numbers.max() >= outputs:
            raise ValueError(
                f"`{name}` must be numbers of the {outputs} outputs of `f`, 0 to {outputs - 1}, "
                f"got {numbers.min()} to {numbers.max()}."
            )
        names = tuple(str(k) for k in range(outputs))
    elif y.dtype.kind not in "iuf" and names:
        numbers = _places(list(map(str, values)), names, name)[numbers]
    else:
        names = tuple(map(str, values))
        _check_count(names, outputs, name)
    numbers = numbers.reshape(-1)
    columns = 2.0 * numbers[:, None] - 1 if outputs == 1 else np.eye(outputs)[numbers]
    return Targets(numbers, columns, names, squared=False)


def _check_count(names: tuple[str, ...], outputs: int, name: str) -> None:
    """Raise unless there is a class per output: sorted, they would name others than was trained."""
    count = max(outputs, 2)
    if len(names) != count:
        listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
        raise ValueError(
            f"`{name}` must have {count} classes where labels are no numbers, for a model with "
            f"{counted(outputs, 'output')}, got {len(names)}: {listed}. Sorted, the k-th would be "
            "that of output k. Give the number of the output in each row instead."
        )


def _places(values: list[str], names: tuple[str, ...], name: str) -> np.ndarray:
    """The numbers of classes among those known."""
    unknown = [value for value in values if value not in names]
    if unknown:
        raise ValueError(f"`{name}` must have classes that `y` has, got {unknown[0]} too.")
    return np.array([names.index(value) for value in values])
