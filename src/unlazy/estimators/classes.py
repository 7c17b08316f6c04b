# SPDX-License-Identifier: Apache-2.0
"""Classes as columns of numbers, and the weights of samples."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Shaped
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

ClassWeight = Mapping[Any, int | float] | str | None
"""None, "balanced", or a weight per class, as scikit-learn has it."""


class Classes(NamedTuple):
    """The classes of labels, and the class of each sample."""

    names: Shaped[np.ndarray, " k"]  # sorted
    numbers: Int[np.ndarray, " n"]

    def signs(self) -> Float64[np.ndarray, "n c"]:
        """+1 in the column of a sample's class, -1 elsewhere; one column for two classes.

        Of two classes the second is +1, as scikit-learn has it.
        """
        columns = np.arange(len(self.names))[1 if len(self.names) == 2 else 0 :]
        return np.where(self.numbers[:, None] == columns[None, :], 1.0, -1.0)


def as_classes(y: Shaped[np.ndarray, " n"]) -> Classes:
    """The classes of labels of any type; raises unless there are two at least."""
    try:
        check_classification_targets(y)
        names, numbers = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise ValueError("`y` must be labels of one kind, none of them missing.") from error
    if len(names) < 2:
        raise ValueError(f"`y` must have two classes at least, got one class: {names.tolist()}.")
    return Classes(names, numbers)


def chosen_classes(
    names: Shaped[np.ndarray, " k"], scores: Float64[np.ndarray, "n *c"]
) -> Shaped[np.ndarray, " n"]:
    """The class of the largest score; of two classes, the second where the score is positive."""
    best = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
    return names[best]


def sample_weights(sample_weight: Any, n: int) -> Float64[np.ndarray, " n"]:
    """The weight of each of n rows, 1 where none is given; none below 0, and not all of them 0."""
    if sample_weight is None or isinstance(sample_weight, int | float | np.number):
        sample_weight = np.full(n, 1.0 if sample_weight is None else float(sample_weight))
    weights = np.asarray(
        check_array(sample_weight, ensure_2d=False, dtype="float64", input_name="sample_weight")
    )
    if weights.shape != (n,) or np.any(weights < 0):
        raise ValueError(
            f"`sample_weight` must be {n} numbers >= 0, one per row of X, got "
            f"sample_weight.shape={weights.shape}, the least of them {np.min(weights):g}."
        )
    if not np.any(weights):
        raise ValueError(
            "`sample_weight` must be positive somewhere, got a weight of zero per row."
        )
    return weights


def class_weights(classes: Classes, class_weight: ClassWeight) -> Float64[np.ndarray, " n"]:
    """The weight of each sample's class."""
    labels = classes.names[classes.numbers]
    given = dict(class_weight) if isinstance(class_weight, Mapping) else class_weight
    return compute_class_weight(given, classes=classes.names, y=labels)[classes.numbers]
