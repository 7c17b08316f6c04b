# SPDX-License-Identifier: Apache-2.0
"""What training under a fixed kernel has reached at given steps or times."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import as_array, check_finite
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.kernels.layouts import CrossGram, Layout


class Trajectory(eqx.Module):
    r"""The linearised network at given steps or times; every array starts with their axes.

    The change of the weights is a combination $\sum_j \nabla f(x_j)\, a_j$ of the gradients at the
    training samples. The coefficients $a$ give the outputs at any point,
    $f(x) = f_0(x) + \sum_j k(x, x_j)\, a_j$.
    """

    loss: Float64[np.ndarray, "..."]  # (*times), on the training set, a sum; without the penalty
    movement: Float64[np.ndarray, "..."]  # (*times), the distance of the weights from their start
    train: Float64[np.ndarray, "..."]  # (*times, n, *c), outputs on the training set
    coefficients: Float64[np.ndarray, "..."]  # (*times, n, *c), or (*times, n * c) if coupled
    layout: Layout = eqx.field(static=True)
    started: bool = eqx.field(static=True)  # whether initial outputs were given

    @entry
    def outputs(
        self,
        cross_gram: CrossGram | None = None,
        *,
        start: Float[Array | np.ndarray, "t *c"] | None = None,
    ) -> Float64[np.ndarray, "..."]:
        """Outputs on the training set, or on the points of `cross_gram`.

        Args:
            cross_gram: kernel of new points with the training samples, (t, n) or (t, n, c, c).
            start: initial outputs at the new points; needed if the training set has them.

        Returns:
            Shape (*times, t, *c).
        """
        if cross_gram is None:
            _refuse_start(start)
            return self.train
        times, tail = self.loss.shape, self.train.shape[self.loss.ndim + 1 :]
        cross = self.layout.cross(cross_gram, "cross_gram")
        shape = (np.shape(cross_gram)[0], *tail)
        flat = self.coefficients.reshape(-1, *self.coefficients.shape[len(times) :])
        with float64():
            change = np.asarray(jnp.moveaxis(jnp.tensordot(cross, jnp.asarray(flat), (1, 1)), 1, 0))
        return initial(start, shape, self.started) + change.reshape(*times, *shape)


def initial(
    start: Float[Array | np.ndarray, "t *c"] | None, shape: tuple[int, ...], started: bool
) -> Float64[np.ndarray, "t *c"]:
    """The initial outputs at new points, checked; zeros where none were given for any point."""
    if start is None:
        if started:
            raise ValueError(
                f"`start` must be the initial outputs at the points of `cross_gram`, of shape "
                f"{shape}, since the training set has initial outputs, got start=None. Pass zeros "
                "for the change of the outputs alone."
            )
        return np.zeros(shape)
    check_start(start, shape)
    return np.asarray(as_array(start, "start"), np.float64)


def check_start(start: Float[Array | np.ndarray, "t *c"], shape: tuple[int, ...]) -> None:
    """Raise unless initial outputs are finite and of this shape."""
    if np.shape(start) != shape:
        raise ValueError(
            f"`start` must have shape {shape}, a row for each point and the columns of the labels, "
            f"got start.shape={np.shape(start)}."
        )
    check_finite(start, "start")


def _refuse_start(start: object) -> None:
    if start is not None:
        raise ValueError(
            "`start` must be None without `cross_gram`, got initial outputs. Those of the training "
            "set are given when the dynamics are made."
        )
