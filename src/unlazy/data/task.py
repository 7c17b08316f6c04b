# SPDX-License-Identifier: Apache-2.0
"""A learning problem: inputs and labels to train on and to test on."""

import equinox as eqx
from jaxtyping import Array, Float

from unlazy.core.checks import check_inputs, check_labels
from unlazy.core.entries import entry


class Task(eqx.Module):
    """Inputs and labels, for training and for testing, and what they stand for.

    With one label a sample, it is +1 for the first of two classes and -1 for the second. A row of
    labels is one-vs-rest: +1 in the column of the sample's class, -1 in the others.

    Raises:
        ValueError: If the arrays do not fit together, are empty, not finite, or a row of the inputs
            is zero.
    """

    x_train: Float[Array, "n d"]
    y_train: Float[Array, " n"] | Float[Array, "n c"]
    x_test: Float[Array, "n_test d"]
    y_test: Float[Array, " n_test"] | Float[Array, "n_test c"]
    name: str = eqx.field(static=True)
    classes: tuple[int, ...] = eqx.field(static=True)  # in the order of the columns of y

    @entry
    def __check_init__(self):
        check_inputs(self.x_train, "x_train")
        check_inputs(self.x_test, "x_test")
        check_labels(self.y_train, len(self.x_train), "y_train")
        check_labels(self.y_test, len(self.x_test), "y_test")
        for name, train, test in [
            ("x_test", self.x_train, self.x_test),
            ("y_test", self.y_train, self.y_test),
        ]:
            if train.shape[1:] != test.shape[1:]:
                raise ValueError(
                    f"`{name}` must have as many columns as in training, {train.shape[1:]}, "
                    f"got {name}.shape={test.shape}."
                )
