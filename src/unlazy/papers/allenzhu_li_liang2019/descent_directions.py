# SPDX-License-Identifier: Apache-2.0
"""Lemma 6.7, descent: a step along good weights or a decay of the multiplier lowers the loss."""

import math
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.random_draws import draw_signs
from unlazy.nets import ThreeLayerParams
from unlazy.nets.checking import check_kind, check_owner
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import (
    Movement,
    ThreeLayerObjective,
)
from unlazy.papers.shared.conditions import check_epsilon
from unlazy.papers.shared.learner_data import Data, check_learner_data
from unlazy.papers.shared.learner_losses import check_learner_targets


class DescentAlternatives(eqx.Module):
    r"""What both alternatives do to the mean objective $L'$, over $\eta$, with standard errors."""

    objective: float  # L' where both start
    eta: float
    step: float  # change of L' over eta, of the step along good weights
    step_error: float
    decay: float  # change of L' over eta, of the decay of the multiplier
    decay_error: float

    @property
    def factor(self) -> float:
        """What the better alternative leaves of the objective."""
        return 1 + self.eta * min(self.step, self.decay) / self.objective

    @entry
    def claimed(self, gamma: float) -> float:
        r"""What the lemma says is left at most: $1 - \eta\gamma/4$."""
        check_epsilon(gamma, "gamma")
        return 1 - self.eta * gamma / 4


@entry
def descent_alternatives(
    objective: ThreeLayerObjective,
    params: ThreeLayerParams,
    delta: Movement,
    star: Movement,
    data: Data,
    *,
    lam: float = 1.0,
    eta: float = 1e-2,
    draws: int = 500,
    key: PRNGKeyArray,
) -> DescentAlternatives:
    r"""The two ways in which the mean objective of Algorithms 2 and 3 can fall.

    $$\frac{E_\Sigma L'(\lambda;\, W' + \sqrt\eta\, \Sigma W^*, V' + \sqrt\eta\, V^* \Sigma)
    - L'}{\eta}, \qquad \frac{L'((1 - \eta)\lambda;\, W', V') - L'}{\eta}$$

    with $L'$ the mean of `objective` over its noise and signs. The lemma says that one of both
    leaves at most $1 - \eta\gamma/4$ of $L'$, as long as $L' \ge (1 + \gamma) \mathrm{OPT}$ plus an
    error and $(W^*, V^*)$ have the target as their pseudo network. The reason is convexity: to
    first order both together replace the outputs $\lambda F$ by $(1 - \eta) \lambda F + \eta F^*$.

    All three objectives share their draws. The signs of the step come in pairs $\pm\Sigma$, in
    which what is linear in the step cancels.

    Source: LG-33, arXiv:1811.04918 Lemma 6.7.

    Args:
        objective: $L_1$ or $L_2$, by its variant.
        params: the initialisation.
        delta: $W'$ and $V'$.
        star: $W^*$ and $V^*$, such as those of `three_layer_weights`, over $\sqrt\lambda$ each.
        data: `(x, y)`.
        lam: $\lambda$.
        eta: $\eta$, the decay and the square of the step.
        draws: of noise and signs.
        key: for them.

    Example:
        >>> from unlazy.nets import ThreeLayer
        >>> net = ThreeLayer(inputs=2, widths=8)
        >>> params, data = net.init(key=jr.key(0)), (jnp.eye(2), jnp.zeros(2))
        >>> still = Movement(jnp.zeros((8, 2)), jnp.zeros((8, 8)))
        >>> found = descent_alternatives(
        ...     ThreeLayerObjective(net), params, still, still, data, key=jr.key(1))
        >>> print(found.step, found.decay < 0, found.factor < found.claimed(0.25))
        0.0 True True
    """
    check_key(key)
    check_kind(objective, ThreeLayerObjective, name="objective")
    check_positive(lam, "lam")
    check_epsilon(eta, "eta")
    check_count(draws, "draws", least=2)
    shapes = objective.net.shapes
    check_owner(params, shapes)
    for name, movement in (("delta", delta), ("star", star)):
        check_owner(movement, {part: shapes[part] for part in ("W", "V")}, name)
    dtype = params.W.dtype
    batch = check_learner_data(data, objective.net.output_shape[:-1], dtype)
    check_learner_targets(objective.loss, batch[1])
    numbers = jnp.asarray(lam, dtype), jnp.asarray(eta, dtype)
    found = _changes(objective, params, Place(delta, star, batch), numbers, jr.split(key, draws))
    base, step, decay = (np.asarray(values, np.float64) for values in found)
    errors = [float(np.std(v, ddof=1)) / math.sqrt(draws) / eta for v in (step, decay)]
    return DescentAlternatives(
        objective=float(np.mean(base)),
        eta=float(eta),
        step=float(np.mean(step)) / eta,
        step_error=errors[0],
        decay=float(np.mean(decay)) / eta,
        decay_error=errors[1],
    )


class Place(NamedTuple):
    """Where the alternatives are taken."""

    delta: Movement
    star: Movement
    batch: tuple[Array, Array]


@partial(jax.jit, static_argnums=0)
def _changes(
    objective: ThreeLayerObjective,
    params: ThreeLayerParams,
    place: Place,
    numbers: tuple[Float[Array, ""], Float[Array, ""]],
    keys: Array,
) -> tuple[Array, Array, Array]:
    """The objective of every draw, and how it changes by each alternative."""
    (lam, eta), (delta, star, batch) = numbers, place

    def one(key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        key_draw, key_signs = jr.split(key)
        draw = objective.draw(params, key=key_draw)
        signs = draw_signs(key_signs, (objective.net.widths[0],), params.W.dtype)

        def at(scale: Array, lam: Array) -> Array:
            s = scale * signs
            W, V = delta.W + s[:, None] * star.W, delta.V + star.V * s[None, :]
            return objective(params, Movement(W, V), batch, draw, lam)

        root = jnp.sqrt(eta)
        base = at(0 * root, lam)
        return (
            base,
            (at(root, lam) + at(-root, lam)) / 2 - base,
            at(0 * root, (1 - eta) * lam) - base,
        )

    return jax.lax.map(one, keys)  # one at a time: a draw is as large as the network
