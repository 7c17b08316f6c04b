# SPDX-License-Identifier: Apache-2.0
"""Algorithms 2 and 3: noisy SGD on a three-layer learner, in rounds with a decaying multiplier."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.core.trees import gaussian_like
from unlazy.nets import ThreeLayer, ThreeLayerParams
from unlazy.nets.checking import check_kind, check_owner
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import (
    Movement,
    ThreeLayerObjective,
    check_range,
)
from unlazy.papers.shared.learner_data import Data, check_learner_data
from unlazy.papers.shared.learner_losses import LearnerLoss, check_learner_targets
from unlazy.train.history import Outcome


class ThreeLayerRun(eqx.Module):
    """The result of `three_layer_sgd`: the network that was selected, and its training."""

    net: ThreeLayer  # with the final multiplier
    params: ThreeLayerParams  # W0 + W_rho + Sigma W_T and V0 + V_rho + V_T Sigma, as selected
    delta: Movement  # W_T and V_T, without noise and signs
    multiplier: float  # lambda_T, which is in `net`
    outcome: Outcome
    objective: Float64[np.ndarray, " rounds"]  # mean over the steps of each round
    candidate_losses: Float64[np.ndarray, " candidates"]  # training loss of each draw of the noise
    selected: int  # the candidate with the least training loss


class _Settings(NamedTuple):
    learning_rate: Float[Array, ""]
    noise: Float[Array, ""]
    params: ThreeLayerParams
    data: tuple[Array, Array]


class _Plan(NamedTuple):
    """The static arguments of a compiled round; hashable."""

    objective: ThreeLayerObjective
    inner_steps: int
    batch_size: int
    noisy: bool


@entry
def three_layer_sgd(
    net: ThreeLayer,
    params: ThreeLayerParams,
    data: Data,
    *,
    variant: int = 2,
    loss: str | LearnerLoss = "pseudo-huber",
    learning_rate: int | float = 1e-2,
    rounds: int = 40,
    inner_steps: int = 250,
    batch_size: int = 10,
    decay: int | float = 0.02,
    sigma_w: int | float | None = None,
    sigma_v: int | float | None = None,
    lam_w: int | float = 0.1,
    lam_v: int | float = 1e-3,
    alpha: int | float = 2,
    noise: int | float = 1e-4,
    candidates: int = 20,
    progress: Callable[[int, int], None] | None = None,
    key: PRNGKeyArray,
) -> ThreeLayerRun:
    r"""Train the hidden weights of a three-layer learner as the paper's algorithms do.

    In round t = 1, ..., T noisy SGD takes `inner_steps` steps from where the last round ended,

    $$(W', V') \leftarrow (W', V') - \eta \big( \nabla L(\lambda_t; W', V') + \xi \big), \qquad
    \lambda_t = (1 - \text{decay})^{t - 1}$$

    on the objective of `ThreeLayerObjective`, each step with fresh samples, smoothing noise and
    signs. At the end one $\hat\Sigma$ and several draws of the smoothing noise are tried, and the
    draw with the least training loss is returned. Variant 2 has random signs $\Sigma$ on the
    movement (Algorithm 2), variant 1 has none (Algorithm 3).

    Training runs in the dtype of `params`; a round is one compiled program, and a second run of the
    same sizes compiles nothing. The defaults were found at width 64; those of the theory are
    vacuous at any width.

    Source: LG-22 to LG-24, arXiv:1811.04918 Algorithms 2 and 3. The paper has one symbol for step
    size and decay; here they are two, and the first round has $\lambda = 1$.

    Args:
        net: the learner.
        params: its initialisation; biases and output weights are not trained.
        data: `(x, y)`, with y of shape (n,), or (n, k) for k outputs.
        variant: 2 with random signs, 1 without.
        loss: as in `two_layer_sgd`.
        learning_rate: $\eta$.
        rounds: T.
        inner_steps: steps per round.
        batch_size: samples per step, drawn with replacement; they share a draw of noise and signs.
        decay: of $\lambda$ after each round, from 0 to below 1.
        sigma_w: smoothing of the first layer; None for $m_1^{-0.99}$, 0 to switch it off.
        sigma_v: smoothing of the second layer; None for $m_2^{-0.51}$, 0 to switch it off.
        lam_w: $\lambda_w$ of the regulariser.
        lam_v: $\lambda_v$ of the regulariser.
        alpha: of the $(2, 2 + \alpha)$ norm of the regulariser; the paper has 2.
        noise: standard deviation of each entry of $\xi$.
        candidates: draws of the smoothing noise to select from.
        progress: called with (rounds done, rounds in all).
        key: for samples, noise and signs.

    Returns:
        The run: `run.net(run.params, x)` is the predictor. If the objective stops being finite,
        the outcome is "diverged", and the last round that was finite is returned, with a warning;
        the start, without movement, if there was none.

    Example:
        >>> net = ThreeLayer(inputs=2, widths=8)
        >>> params, data = net.init(key=jr.key(0)), (jnp.eye(2), jnp.ones(2))
        >>> run = three_layer_sgd(
        ...     net, params, data, rounds=2, inner_steps=5, batch_size=2, key=jr.key(1)
        ... )
        >>> print(run.outcome, run.multiplier, run.objective.shape)
        completed 0.98 (2,)
    """
    check_key(key)
    check_kind(net, ThreeLayer)
    check_owner(params, net.shapes)
    batch = check_learner_data(data, net.output_shape[:-1], params.W.dtype)
    check_learner_targets(loss, batch[1])
    counts = {"rounds": rounds, "inner_steps": inner_steps, "batch_size": batch_size}
    for name, value in (counts | {"candidates": candidates}).items():
        check_count(value, name)
    check_positive(learning_rate, "learning_rate")
    check_range(decay, "decay", below=1)
    check_range(noise, "noise")
    objective = ThreeLayerObjective(net, variant, loss, sigma_w, sigma_v, lam_w, lam_v, alpha)
    plan = _Plan(objective, inner_steps, batch_size, noise > 0)
    rate, spread = (jnp.asarray(value, params.W.dtype) for value in (learning_rate, noise))
    settings = _Settings(rate, spread, params, batch)
    key_rounds, key_select = jr.split(key)
    trained = _all_rounds(plan, settings, rounds, decay, progress, key_rounds)
    losses, best, chosen = _select(objective, settings, trained, candidates, key_select)
    if trained.outcome == "diverged":
        _tell(len(trained.objective), losses)
    options = net.outputs, net.activation, net.init_kind, net.init_scale
    return ThreeLayerRun(
        net=ThreeLayer(net.inputs, net.widths, *options, net.multiplier * trained.lam),
        params=chosen,
        delta=trained.delta,
        multiplier=trained.lam,
        outcome=trained.outcome,
        objective=np.asarray(trained.objective),
        candidate_losses=losses,
        selected=best,
    )


class _Trained(NamedTuple):
    delta: Movement
    lam: float
    objective: list[float]
    outcome: Outcome


def _all_rounds(
    plan: _Plan,
    settings: _Settings,
    rounds: int,
    decay: int | float,
    progress: Callable[[int, int], None] | None,
    key: PRNGKeyArray,
) -> _Trained:
    params = settings.params
    delta = Movement(jnp.zeros_like(params.W), jnp.zeros_like(params.V))
    means: list[float] = []
    for t in range(rounds):
        lam = jnp.asarray((1 - decay) ** t, params.W.dtype)
        after, mean = _round(plan, settings, delta, lam, jr.fold_in(key, t))
        if not np.isfinite(float(mean)):
            return _Trained(delta, (1 - decay) ** max(t - 1, 0), means, "diverged")
        delta, means = after, [*means, float(mean)]
        if progress is not None:
            progress(t + 1, rounds)
    return _Trained(delta, (1 - decay) ** (rounds - 1), means, "completed")


def _tell(rounds: int, losses: Float64[np.ndarray, " candidates"]) -> None:
    """Warn that training diverged after `rounds`; raise where the start itself is not finite."""
    if rounds == 0 and not np.isfinite(losses).any():
        raise ValueError(
            "`params` must have a finite loss on `data` at the start, got nan or inf. Look for "
            "huge values in both."
        )
    warnings.warn(
        f"The objective is no longer finite in round {rounds + 1}: training diverged. The result "
        f"is {f'that of round {rounds}' if rounds else 'the start'}. Lower the learning rate.",
        UnlazyWarning,
        stacklevel=user_level(),
    )


@partial(jax.jit, static_argnums=0)
def _round(
    plan: _Plan, settings: _Settings, delta: Movement, lam: Float[Array, ""], key: PRNGKeyArray
) -> tuple[Movement, Float[Array, ""]]:
    """The movement after a round, and its mean objective; infinite if the end is not finite."""
    x, y = settings.data

    def one_step(delta: Movement, key: PRNGKeyArray) -> tuple[Movement, Float[Array, ""]]:
        key_rows, key_draw, key_noise = jr.split(key, 3)
        rows = jr.randint(key_rows, (plan.batch_size,), 0, x.shape[0])
        draw = plan.objective.draw(settings.params, key=key_draw)
        loss, gradient = jax.value_and_grad(plan.objective, argnums=1)(
            settings.params, delta, (x[rows], y[rows]), draw, lam
        )
        if plan.noisy:
            xi = gaussian_like(gradient, key=key_noise)
            gradient = jax.tree.map(lambda g, u: g + settings.noise * u, gradient, xi)
        step = settings.learning_rate
        return jax.tree.map(lambda p, g: p - step * g, delta, gradient), loss

    after, losses = jax.lax.scan(one_step, delta, jr.split(key, plan.inner_steps))
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in after]))
    return after, jnp.where(finite, jnp.mean(losses), jnp.inf)


def _select(
    objective: ThreeLayerObjective,
    settings: _Settings,
    trained: _Trained,
    candidates: int,
    key: PRNGKeyArray,
) -> tuple[Float64[np.ndarray, " candidates"], int, ThreeLayerParams]:
    key_signs, key_noise = jr.split(key)
    keys = jr.split(key_noise, candidates)
    signs = objective.signs(settings.params, key=key_signs)
    lam = jnp.asarray(trained.lam, settings.params.W.dtype)
    losses = np.asarray(_candidate_losses(objective, settings, trained.delta, signs, lam, keys))
    best = int(np.argmin(np.where(np.isfinite(losses), losses, np.inf)))
    draw = objective.noise(settings.params, signs, key=keys[best])
    return losses.astype(np.float64), best, objective.weights(settings.params, trained.delta, draw)


@partial(jax.jit, static_argnums=0)
def _candidate_losses(
    objective: ThreeLayerObjective,
    settings: _Settings,
    delta: Movement,
    signs: Float[Array, " m1"],
    lam: Float[Array, ""],
    keys: Array,  # random keys of either kind
) -> Float[Array, " candidates"]:
    def one(key: PRNGKeyArray) -> Float[Array, ""]:
        draw = objective.noise(settings.params, signs, key=key)
        weights = objective.weights(settings.params, delta, draw)
        return objective.data_loss(weights, settings.data, lam)

    return jax.lax.map(one, keys)  # one at a time: a draw is as large as the network
