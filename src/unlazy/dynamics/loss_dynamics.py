# SPDX-License-Identifier: Apache-2.0
"""Training of a linearised network under a fixed kernel, for any loss."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Shaped

from unlazy.core.checks import calling, check_finite
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.sheltering import sheltered
from unlazy.dynamics.curves import Losses, draw_losses, drawn_steps, first_measured, recorded
from unlazy.dynamics.decays import Rule, Steps, as_times, as_whole_steps
from unlazy.dynamics.integration import descend, integrate
from unlazy.dynamics.linear_models import LinearModel
from unlazy.dynamics.rules import checked_rule
from unlazy.dynamics.trajectories import Trajectory
from unlazy.kernels.layouts import Gram, layout_of, total_ridge
from unlazy.linalg.eigen import eigh
from unlazy.losses import PointwiseLoss, check_targets, pointwise

_STEPS_DRAWN = 1000

OutputLoss = Callable[[Array, Array], Array]
"""`loss(outputs, labels)`: a number, or an array of which the sum is the loss."""


class LossDynamics(eqx.Module):
    r"""Full-batch descent and gradient flow under a fixed kernel, on any loss of the outputs.

    The linearised network $f(x) = f_0(x) + \langle \nabla f_0(x), \theta - \theta_0 \rangle$ is
    trained on $L(u, y)$, a function of its outputs $u$ on the training set. With the tangent kernel
    $H$ they follow

    $$\dot u = -H \nabla_u L(u, y), \qquad u(k+1) = u(k) - \eta H \nabla_u L(u(k), y).$$

    Time, learning rate, `momentum`, `ridge` and `start` mean what they mean in `KernelDynamics`,
    which has the closed form for the half-squared loss.

    Source: arXiv:1902.06720 section 2.2; the bound of the error is ours.

    Example:
        >>> import optax
        >>> flow = LossDynamics.from_gram(np.eye(2), np.eye(2), optax.softmax_cross_entropy)
        >>> print(flow.at_time([0.0, 10.0]).loss.round(4))
        [1.3863 0.1075]
    """

    model: LinearModel
    y: Shaped[Array, "n *c"]
    loss: OutputLoss = eqx.field(static=True)
    learning_rate: float
    momentum: float
    started: bool = eqx.field(static=True)  # whether initial outputs were given

    @classmethod
    @entry
    def from_gram(
        cls,
        H: Gram,
        y: Shaped[Array | np.ndarray, "n *c"],
        loss: str | PointwiseLoss | OutputLoss,
        *,
        learning_rate: float | None = None,
        momentum: float = 0.0,
        ridge: float = 0.0,
        relative_ridge: float = 0.0,
        start: Float[Array | np.ndarray, "n *k"] | None = None,
    ) -> "LossDynamics":
        """Decompose a symmetric positive semi-definite `H`, and take a loss.

        Args:
            H: kernel of the training samples, (n, n), or (n, n, c, c) with coupled outputs.
            y: labels, of the kind that the loss takes.
            loss: `loss(outputs, labels)`, summed if it is an array: a name or a loss of
                `losses.pointwise`, a function such as `optax.softmax_cross_entropy`, or your own.
            learning_rate: of `at_step`, and of the flow with momentum. None means
                1/(lambda_max + ridge), which is stable for losses of curvature below 2.
            momentum: from 0 to less than 1.
            ridge: strength of the penalty on the movement of the weights.
            relative_ridge: added to it, in units of the mean of the diagonal of `H`.
            start: initial outputs; None means zeros of the shape of `y`. It is needed where labels
                do not have the shape of outputs, such as numbers of classes.
        """
        layout = layout_of(H)
        u0 = np.zeros(np.shape(y)) if start is None else np.asarray(start, np.float64)
        layout.check_outputs(u0, "y" if start is None else "start")
        function, matrix = _as_function(loss, y), layout.gram(H, "H")
        with float64():
            ridge = total_ridge(ridge, relative_ridge, float(jnp.mean(jnp.diagonal(matrix))))
            model = LinearModel.from_eigen(eigh(matrix), u0, ridge, layout)
            labels = _as_labels(y, layout.n)
            _check_total(function, model.start, labels)
            largest = float(model.roots[0]) ** 2
        rate, momentum, _ = checked_rule((learning_rate, momentum, ridge), largest, warn=False)
        return cls(model, labels, function, rate, momentum, start is not None)

    @entry
    def at_step(self, steps: Steps) -> Trajectory:
        """Loss, movement and outputs after so many steps of descent, one number or many."""
        counts = as_whole_steps(steps, "steps")
        _check_ends(counts, "steps")
        with float64():
            w = descend(self.model, self._total, self._rule, counts)
            return self._trajectory(w, np.shape(steps))

    @entry
    def at_time(self, times: Steps, *, tolerance: float = 1e-9) -> Trajectory:
        """Loss, movement and outputs at these times of gradient flow, by integration in float64.

        Takes a few hundred evaluations of the gradient for each factor of ten in time, and, once
        the flow is stiff, some factorisations of a matrix with a row for each sample and output.

        Args:
            times: one number or many, in any order; not infinite, since a loss such as
                cross-entropy has no minimum at finite weights.
            tolerance: of each step, relative to the weights' distance from their start. For a
                convex loss without momentum these errors add up at most: with the default, the
                outputs had errors below 1e-7 of their size in all of our tests.

        Example:
            >>> flow = LossDynamics.from_gram(np.eye(2), np.ones(2), "logistic")
            >>> print(flow.at_time([0.0, 1.0, 1e4]).train[:, 0].round(3))
            [0.    0.443 9.21 ]
        """
        at = as_times(times, "times")
        _check_ends(at, "times")
        if not 1e-13 <= tolerance <= 0.1:
            raise ValueError(f"`tolerance` must be from 1e-13 to 0.1, got tolerance={tolerance}.")
        with float64():
            w = integrate(self.model, self._total, self._rule, at, tolerance=tolerance)
            return self._trajectory(w, np.shape(times))

    @entry
    def plot(
        self,
        ax: Axes | None = None,
        *,
        steps: Steps | None = None,
        measured: Any = None,
        relative: bool = False,
        label: str | None = None,
    ) -> Axes:
        """Draw the predicted loss against the steps, on logarithmic axes.

        As `KernelDynamics.plot`; but without `steps` and `measured` the curve ends at step 1000,
        since every step is taken.

        Example:
            >>> flow = LossDynamics.from_gram(np.eye(2), np.ones(2), "logistic")
            >>> print(flow.plot(steps=[1, 10, 100]).get_lines()[0].get_ydata().round(3))
            [0.948 0.198 0.02 ]
        """
        found = recorded(measured)
        at = drawn_steps(steps, found, lambda: _STEPS_DRAWN)
        losses = self.at_step(np.append(at, [0, first_measured(found)])).loss
        starts = float(losses[-2]), float(losses[-1])
        predicted = Losses(at, losses[:-2])
        return draw_losses(ax, predicted, starts, found, relative=relative, label=label)

    @property
    def _rule(self) -> Rule:
        return Rule(self.learning_rate, self.momentum)

    def _total(self, u: Float64[Array, "n *k"]) -> Float64[Array, ""]:
        return jnp.sum(self.loss(u, self.y))

    def _trajectory(self, w: Float64[np.ndarray, "T r *k"], times: tuple[int, ...]) -> Trajectory:
        model = self.model
        train = jax.vmap(model.outputs)(jnp.asarray(w))
        return Trajectory(
            np.asarray(jax.vmap(self._total)(train)).reshape(times),
            np.linalg.norm(w.reshape(len(w), -1), axis=1).reshape(times),
            np.asarray(train).reshape(*times, *train.shape[1:]),
            np.asarray(jax.vmap(model.coefficients)(jnp.asarray(w))).reshape(
                *times, len(model.vectors), *w.shape[2:]
            ),
            model.layout,
            self.started,
        )


def _as_function(loss: str | PointwiseLoss | OutputLoss, y: Array | np.ndarray) -> OutputLoss:
    if isinstance(loss, str | PointwiseLoss):
        check_targets(loss, y)
        return pointwise(loss)
    if not callable(loss):
        raise TypeError(
            f"`loss` must be a function of (outputs, labels) or a name, got loss={loss!r}."
        )
    return sheltered(loss)


def _as_labels(y: Shaped[Array | np.ndarray, "n *c"], n: int) -> Shaped[Array, "n *c"]:
    check_finite(y, "y")
    if np.shape(y)[:1] != (n,):
        raise ValueError(f"`y` must have a row for each of {n} samples, got y.shape={np.shape(y)}.")
    labels = jnp.asarray(y)
    return labels.astype(jnp.float64) if jnp.issubdtype(labels.dtype, jnp.floating) else labels


def _check_total(loss: OutputLoss, u0: Float64[Array, "n *k"], y: Shaped[Array, "n *c"]) -> None:
    """Raise unless the loss takes the outputs and labels, and gives real numbers."""
    with calling("loss", f"outputs of shape {u0.shape} and `y` of shape {y.shape}"):
        found = jax.eval_shape(loss, u0, y)
    if not (isinstance(found, jax.ShapeDtypeStruct) and jnp.issubdtype(found.dtype, jnp.floating)):
        raise ValueError(f"`loss` must return a real number or an array of them, got {found}.")


def _check_ends(times: Float64[np.ndarray, " T"], name: str) -> None:
    if not times.size or np.any(np.isinf(times)):
        raise ValueError(
            f"`{name}` must be finite, and at least one, got {name}={times}. Only KernelDynamics, "
            "for the squared loss, has a closed form at infinity."
        )
