# SPDX-License-Identifier: Apache-2.0
"""A bound on the population loss of one trained network, from how far it moved."""

import math

import equinox as eqx
import jax.numpy as jnp

from unlazy.core.checks import check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import TwoLayerParams
from unlazy.papers.arora2019.rademacher_network import linear_and_residual
from unlazy.papers.shared.conditions import check_delta
from unlazy.papers.shared.patterns import Inputs, check_network


class TrainedBound(eqx.Module):
    """A bound on the population loss, and the parts that it is the sum of."""

    training_loss: float
    linear: float  # twice the complexity of the linearised class
    residual: float  # twice what the ReLUs that may switch add to it
    confidence: float
    distance: float  # B_i, the distance from the start rounded up to the grid
    neuron_distance: float  # R_j, that of the neuron that moved most, rounded up

    @property
    def value(self) -> float:
        """The bound."""
        return self.training_loss + self.linear + self.residual + self.confidence


@entry
def population_loss_trained(
    params0: TwoLayerParams,
    params: TwoLayerParams,
    x: Inputs,
    *,
    training_loss: int | float,
    delta: float = 0.05,
    smallest_neuron_distance: float = 1e-6,
    neuron_distance_ratio: float = 1.1,
) -> TrainedBound:
    r"""A bound on the population loss of a network after training, at any width.

    $$L_S + 2 \mathcal R(R_j, B_i) + 3\sqrt{\frac{\log(2\, i(i+1)\, j(j+1)/\delta)}{2n}}$$

    with $\mathcal R$ that of `rademacher_sharp`, $B_i = i \ge \|W - W(0)\|_F$ and
    $R_j = R_0 t^j \ge \max_r \|w_r - w_r(0)\|$, the smallest $i, j \ge 1$ that do. It holds with
    probability 1 - delta for every $W$ at once, however it was found; only the hidden layer may
    have been trained. Its residual falls like $m^{-1/2}$ and dominates at practical widths.

    Source: AR-17d, derived from arXiv:1901.08584 Theorem 5.1.

    Args:
        params0: the start, drawn independently of the sample.
        params: the trained network; its output weights are those of the start.
        x: training inputs.
        training_loss: mean loss on the sample, by a loss in [0, 1] that is 1-Lipschitz in the
            prediction, such as `ramp_loss`.
        delta: failure probability.
        smallest_neuron_distance: $R_0$, fixed before training.
        neuron_distance_ratio: $t$, fixed before training. 1.1 is better than 2, because the
            residual grows like $R^2$.

    Raises:
        ValueError: the arrays do not fit each other, the output weights were trained, or a number
            is out of range.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> start = TwoLayer(3, 100).init(key=jax.random.key(0))
        >>> end = eqx.tree_at(lambda p: p.W, start, start.W + 0.01)
        >>> bound = population_loss_trained(start, end, jnp.eye(3), training_loss=0.0)
        >>> print(bound.distance, round(bound.neuron_distance, 4))
        1.0 0.0183
    """
    check_network(params0.W, x)
    check_delta(delta)
    check_positive(smallest_neuron_distance, "smallest_neuron_distance")
    if not 0 <= training_loss <= 1:
        raise ValueError(
            f"`training_loss` must be in [0, 1], got training_loss={training_loss}. "
            "Use the mean of ramp_loss or clipped_absolute_loss."
        )
    if not neuron_distance_ratio > 1:
        raise ValueError(
            "`neuron_distance_ratio` must be above 1, "
            f"got neuron_distance_ratio={neuron_distance_ratio}."
        )
    moved, neuron_moved = _movement(params0, params)
    i = max(1, math.ceil(moved))
    j, R = _rounded_up(neuron_moved, smallest_neuron_distance, neuron_distance_ratio)
    terms = linear_and_residual(params0, x, i, R)
    log = math.log(2 * i * (i + 1) * j * (j + 1) / delta)
    return TrainedBound(
        training_loss=float(training_loss),
        linear=2 * terms.linear,
        residual=2 * terms.residual,
        confidence=3 * math.sqrt(log / (2 * x.shape[0])),
        distance=float(i),
        neuron_distance=R,
    )


def _movement(params0: TwoLayerParams, params: TwoLayerParams) -> tuple[float, float]:
    if params0.W.shape != params.W.shape or not bool(jnp.all(params0.a == params.a)):
        raise ValueError(
            "`params` must have the shape and the output weights of `params0`, got "
            f"params.W.shape={params.W.shape} and params0.W.shape={params0.W.shape}. "
            "The bound is for networks whose hidden layer alone was trained."
        )
    with float64():
        dW = jnp.asarray(params.W, jnp.float64) - jnp.asarray(params0.W, jnp.float64)
        rows = jnp.linalg.norm(dW, axis=1)
        return float(jnp.linalg.norm(rows)), float(jnp.max(rows))


def _rounded_up(value: float, smallest: float, ratio: float) -> tuple[int, float]:
    """The least j >= 1 with smallest * ratio**j >= value, and that power."""
    j = 1
    if value > smallest * ratio:
        j = max(1, math.ceil(math.log(value / smallest) / math.log(ratio)) - 1)
    while smallest * ratio**j < value:
        j += 1
    return j, smallest * ratio**j
