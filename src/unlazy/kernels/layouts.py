# SPDX-License-Identifier: Apache-2.0
"""Kernels of several outputs as matrices, so that one formula serves both of their forms.

A kernel of shape (n, n) is one kernel for every output. One of shape (n, n, c, c), as
`empirical_ntk` returns it, couples the outputs: its matrix has a row for each pair of a sample and
an output, (i, a), and labels of shape (n, c) become a vector of as many entries.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import as_array, as_number, check_finite, check_gram, check_labels
from unlazy.core.float64 import float64

Gram = Float[Array | np.ndarray, "n n *outputs"]
"""A kernel of a sample with itself, (n, n) or (n, n, c, c)."""

CrossGram = Float[Array | np.ndarray, "t n *outputs"]
"""A kernel of new points with the training samples, (t, n) or (t, n, c, c)."""


class Layout(NamedTuple):
    """The form of a kernel of `n` samples; `outputs` is None for the form (n, n)."""

    n: int
    outputs: int | None

    def gram(self, H: Gram, name: str) -> Float64[Array, "m m"]:
        """The checked matrix of a kernel of this form."""
        self.check_shape(H, self.n, self.n, name)
        matrix = flat(as_array(H, name))
        check_gram(matrix, name)
        with float64():
            return jnp.asarray(matrix, jnp.float64)

    def cross(self, K: CrossGram, name: str, rows: int | None = None) -> Float64[Array, "q m"]:
        """The checked matrix of a kernel between new points, as many as `rows`, and these."""
        self.check_shape(K, rows, self.n, name)
        check_finite(K, name)
        with float64():
            return jnp.asarray(flat(as_array(K, name)), jnp.float64)

    def check_shape(self, K: CrossGram, rows: int | None, columns: int, name: str) -> None:
        """Raise unless the kernel has so many rows (any number for None) and columns."""
        tail = () if self.outputs is None else (self.outputs, self.outputs)
        shape = np.shape(K)
        ends = (shape[0] if rows is None and shape else rows, columns)
        if shape != (*ends, *tail) or 0 in shape:
            wanted = ", ".join(
                str(size) for size in ("t" if rows is None else rows, columns, *tail)
            )
            raise ValueError(
                f"`{name}` must have shape ({wanted}), a row for each point and a column for each "
                f"training sample, got {name}.shape={shape}."
            )

    def check_outputs(self, y: Float[Array | np.ndarray, "n *c"], name: str) -> None:
        """Raise unless `y` has a number for each sample and output."""
        check_labels(y, self.n, name)
        if self.outputs is not None and np.size(y) != self.n * self.outputs:
            raise ValueError(
                f"`{name}` must have shape ({self.n}, {self.outputs}), a column for each output of "
                f"the kernel, got {name}.shape={np.shape(y)}."
            )

    def flat_outputs(self, y: np.ndarray) -> np.ndarray:
        """Labels or outputs as the matrix of the kernel multiplies them."""
        return y if self.outputs is None else y.reshape(-1)


def layout_of(H: Gram, name: str = "H") -> Layout:
    """The form of a kernel of a sample with itself."""
    shape = np.shape(H)
    if len(shape) != 4:
        if len(shape) != 2 or shape[0] != shape[1]:
            check_gram(H, name)  # says so; `gram` makes all other checks
        return Layout(shape[0], None)
    if shape[0] != shape[1] or shape[2] != shape[3] or 0 in shape:
        raise ValueError(
            f"`{name}` must be a Gram matrix of shape (n, n) or (n, n, c, c), got "
            f"{name}.shape={shape}."
        )
    return Layout(shape[0], shape[2])


def flat(K: CrossGram) -> Float[Array | np.ndarray, "q m"]:
    """The kernel as a matrix."""
    if K.ndim == 2:
        return K
    t, n, c, _ = K.shape
    with float64():  # float64 keeps its digits
        return K.transpose(0, 2, 1, 3).reshape(t * c, n * c)


def unflat(K: Float64[np.ndarray, "*T q q"], layout: Layout) -> Float64[np.ndarray, "..."]:
    """The matrices as kernels in the form of the layout."""
    if layout.outputs is None:
        return K
    c = layout.outputs
    t = K.shape[-1] // c
    return np.swapaxes(K.reshape(*K.shape[:-2], t, c, t, c), -3, -2)


def total_ridge(ridge: float, relative_ridge: float, mean_diagonal: float) -> float:
    """What is added to the diagonal: `ridge`, and `relative_ridge` times the diagonal's mean."""
    ridge = as_number(ridge, "ridge", least=0)
    return ridge + as_number(relative_ridge, "relative_ridge", least=0) * mean_diagonal
