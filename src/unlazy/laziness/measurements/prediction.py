# SPDX-License-Identifier: Apache-2.0
"""What the kernel of the start predicts for the training, beside what was recorded of it."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Float64

from unlazy.core.drawing import COLORS, Axes
from unlazy.core.entries import entry
from unlazy.core.panels import log_if_positive, panel
from unlazy.dynamics import LossDynamics
from unlazy.laziness.measurements.recorded import Losses
from unlazy.laziness.measurements.sections import Section
from unlazy.laziness.measurements.targets import Targets
from unlazy.linalg import eigh

_TIMES = 8  # of the training that are compared


class Prediction(eqx.Module):
    """The recorded loss, and the loss of descent under the kernel of the start."""

    steps: Float64[np.ndarray, " t"]
    recorded: Float64[np.ndarray, " t"]
    predicted: Float64[np.ndarray, " t"]
    edge_start: float  # learning rate times the curvature; descent is stable below 2
    edge_end: float
    remark: str = ""  # on recorded losses that begin elsewhere than the model

    @property
    def gap(self) -> float:
        """The mean of |log(recorded / predicted)| over the compared steps."""
        if not len(self.steps):
            return math.nan
        tiny = np.finfo(float).tiny
        return float(np.mean(np.abs(np.log((self.recorded + tiny) / (self.predicted + tiny)))))

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the recorded loss, and that of descent under the kernel of the start.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
        """
        with panel(ax) as ax:
            ax.plot(self.steps, self.recorded, color=COLORS[0], ls="-", label="recorded")
            name = "kernel of the start"
            ax.plot(self.steps, self.predicted, color=COLORS[1], ls="--", label=name)
            log_if_positive(ax, "x", "y")
            ax.set(xlabel="step", ylabel="loss", title="loss")
            ax.legend()
        return ax

    def section(self) -> Section:
        """The measurement as people read it."""
        rows = [tuple(map(float, row)) for row in zip(self.steps, self.recorded, self.predicted)]  # noqa: B905
        edges = (
            f"Learning rate times curvature: {self.edge_start:.3g} at the start, "
            f"{self.edge_end:.3g} at the end; descent is stable below 2."
        )
        return Section(
            "Prediction",
            "does the training follow the kernel of its start?",
            "descent on the mean loss under K0 from f(start), on the sub-sample; curvature: "
            "lambda_max(K)/n per output, times 1/2 at most for cross-entropy",
            ("step", "recorded loss", "predicted loss"),
            tuple(rows),
            (edges, self.remark) if self.remark else (edges,),
        )


def prediction(
    kernels: tuple[Float[np.ndarray, "n n"], Float[np.ndarray, "n n"]],
    start: Float[np.ndarray, "n c"],
    targets: Targets,
    history: Losses | None,
    learning_rate: int | float,
    remark: str = "",
) -> Prediction:
    """Predict the recorded losses.

    Args:
        kernels: of the start and of the end, summed over the outputs.
        start: the outputs at the start.
        targets: the labels.
        history: steps and recorded mean losses.
        learning_rate: of plain descent on the mean loss.
        remark: on the recorded losses.
    """
    n, c = start.shape
    curvature = 1.0 if targets.squared else 0.5 if c > 1 else 0.25
    before, after = (
        learning_rate * curvature * float(eigh(np.asarray(K) / (n * c)).values.max())
        for K in kernels
    )
    if history is None:
        nothing = np.zeros(0)
        return Prediction(nothing, nothing, nothing, before, after)
    steps, recorded = _chosen(*history)
    loss, y = _loss(targets)
    flow = LossDynamics.from_gram(
        np.asarray(kernels[0], np.float64) / c, y, loss, learning_rate=learning_rate, start=start
    )
    predicted = np.asarray(flow.at_step(steps.astype(int)).loss, np.float64)
    return Prediction(steps, recorded, predicted, before, after, remark)


def _chosen(steps: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A few steps, spread evenly in the logarithm."""
    places = np.unique(np.round(np.geomspace(1, len(steps), _TIMES)).astype(int)) - 1
    return np.asarray(steps, np.float64)[places], np.asarray(losses, np.float64)[places]


def _loss(targets: Targets) -> tuple[Callable[[Array, Array], Array], Any]:
    """The mean loss as a function of outputs and labels."""
    if targets.squared:
        return _half_squared_mean, targets.columns
    if targets.columns.shape[1] == 1:
        return _logistic_mean, targets.columns
    return _cross_entropy_mean, targets.columns


def _half_squared_mean(u: Array, y: Array) -> Array:
    return jnp.sum((u - y) ** 2) / (2 * u.shape[0])


def _logistic_mean(u: Array, y: Array) -> Array:
    return jnp.mean(jnp.logaddexp(jnp.zeros((), u.dtype), -u * y))


def _cross_entropy_mean(u: Array, y: Array) -> Array:
    return jnp.mean(optax.softmax_cross_entropy(u, y))
