# SPDX-License-Identifier: Apache-2.0
r"""Training of $(f - f_0)/\gamma$ at all output scales and learning rates as one `fit_grid`.

A lane of the grid has an output scale and a multiple r of the natural rate $s(\gamma)$. The scale
is an untrained parameter of the lane, and the loss is multiplied by $s(\gamma)$: a step with rate r
then is a step with rate $r\,s(\gamma)$ on the loss itself.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from unlazy.core.trained import Trained, partition
from unlazy.linalg.iterative import Progress
from unlazy.train import GridResult, fit_grid


class ScaledModel(eqx.Module):
    """The loss of the centred model at the scale of a lane, with or without the natural rate."""

    f: Callable[[Any, Any], Array]
    loss: Callable[[Any, Any], Any]
    is_objective: bool = eqx.field(static=True)

    def __call__(self, lane: PyTree, batch: tuple[Array, Array, Array]) -> Float[Array, ""]:
        """The loss on a batch of inputs, labels and outputs at the start."""
        x, y, origin = batch
        outputs = self.f(eqx.combine(lane["trained"], lane["rest"]), x)
        value = self.loss((outputs - origin) / lane["gamma"], y)
        return value * lane["rate"] if self.is_objective else value


def natural_rates(gammas: Float[np.ndarray, " g"], depth: int) -> Float[np.ndarray, " g"]:
    r"""$s(\gamma)$: $\gamma^2$ up to 1, where training is lazy, and $\gamma^{2/L}$ above."""
    return np.where(gammas <= 1, gammas**2, gammas ** (2 / depth))


def train_lanes(
    f: Callable[[Any, Any], Array],
    params: PyTree,
    sets: dict[str, tuple[Array, Array]],
    *,
    loss: Callable[[Any, Any], Any],
    gammas: Float[np.ndarray, " g"],
    rates: Float[np.ndarray, " g"],
    multiples: Float[np.ndarray, " r"],
    epochs: int,
    batch_size: int | None,
    momentum: float,
    trained: Trained,
    progress: Progress | None,
    key: PRNGKeyArray | None,
) -> GridResult:
    """The grid: multiples of the natural rate by output scales, the latter in place of seeds."""
    trainable, rest = partition(params, trained)
    dtype = jnp.result_type(*(leaf.dtype for leaf in jax.tree.leaves(trainable)))
    lane = {
        "trained": trainable,
        "rest": rest,
        "gamma": jnp.asarray(gammas, dtype),
        "rate": jnp.asarray(rates, dtype),
    }
    data = {name: (x, y, jax.jit(f)(params, x)) for name, (x, y) in sets.items()}
    return fit_grid(
        ScaledModel(f, loss, True),
        lane,
        data.pop("train"),
        learning_rates=multiples,
        # All scales see the mini-batches in one order.
        seeds=[0] * len(gammas),
        epochs=epochs,
        batch_size=batch_size,
        momentum=momentum,
        trained={"trained": True, "rest": False, "gamma": False, "rate": False},
        params_axes={"trained": None, "rest": None, "gamma": "seed", "rate": "seed"},
        evaluate=data,
        metric=ScaledModel(f, loss, False),
        progress=progress,
        key=key,
    )


def joined(lane: PyTree) -> PyTree:
    """The parameters of the model of a lane."""
    return eqx.combine(lane["trained"], lane["rest"])
