# SPDX-License-Identifier: Apache-2.0
"""The computation of the cells of the coupling figure."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Key, PRNGKeyArray

from unlazy import data, escape
from unlazy.experiments import CellResult, Progress
from unlazy.losses import pointwise
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients, linear_term, quadratic_term
from unlazy.papers import bai_lee2020
from unlazy.papers.bai_lee2020.figures.coupling.config import Parts, Trained
from unlazy.papers.bai_lee2020.figures.exponents import rms, table
from unlazy.papers.shared.settings import reproducible
from unlazy.train import noisy_sgd


# In float64 whatever the user has set: the same cell, the same numbers; the remainder with signs is
# down to 1e-7 at m = 2^18, and float64 products know no TF32.
@reproducible(x64=True)
def run(config: Parts | Trained, *, seed: int, progress: Progress) -> CellResult:
    if isinstance(config, Parts):
        return _parts(config, seed=seed, progress=progress)
    return _trained(config, seed=seed, progress=progress)


# --- movements of a given size ---------------------------------------------------------------


def structured_movement(width: int, inputs: int) -> Float[Array, "m d"]:
    """Rows of length m^-1/4: along (1, 1/2, 0, ..) in the + half, along e_4 in the - half."""
    # Not independent of the output weights: then f^Q would fall like m^(-1/2), and nothing would
    # dominate.
    plus = jnp.zeros(inputs).at[:2].set(jnp.array([1.0, 0.5]) / math.sqrt(1.25))
    minus = jnp.zeros(inputs).at[3].set(1.0)
    rows = [jnp.broadcast_to(v, (width // 2, inputs)) for v in (plus, minus)]
    return width**-0.25 * jnp.concatenate(rows)


def _parts(config: Parts, *, seed: int, progress: Progress) -> CellResult:
    key_x, key_nets = jr.split(jr.fold_in(jr.key(18), seed))
    x = data.sphere(config.n, config.inputs, key=key_x)
    rows = []
    for done, width in enumerate(config.widths, start=1):
        net = TwoLayer(config.inputs, width, activation="relu3", init="symmetric")
        rows.append(_at_width(net, config.draws, x, key=jr.fold_in(key_nets, width)))
        progress(done, len(config.widths))
    return CellResult({"width": np.array(config.widths), **table(rows)})


def _at_width(net: TwoLayer, draws: int, x: Array, *, key: PRNGKeyArray) -> dict[str, float]:
    key_init, key_parts = jr.split(key)
    params = net.init(key=key_init)
    W = structured_movement(net.width, net.inputs)
    sizes = _sizes(net, draws, params, W, x, key_parts)
    variance = bai_lee2020.linear_variance(net, params, W, x)
    bounds = bai_lee2020.term_bounds(net, params, W, x)
    # BL-26: the expected size, and what the paper bounds over its bound at the worst input.
    sizes["f_L_signs_expected"] = math.sqrt(variance.mean())
    sizes["f_L_over_bound"] = math.sqrt(np.max(variance / bounds.linear_variance))
    sizes["rest_over_bound"] = sizes.pop("rest_max") / float(bounds.remainder.min())
    return {name: float(value) for name, value in sizes.items()}


@functools.partial(jax.jit, static_argnums=(0, 1))
def _sizes(net: TwoLayer, draws: int, params: TwoLayerParams, W, x, key) -> dict[str, Array]:
    key_signs, key_free = jr.split(key)
    f0, (S, T) = net(params, x), (coefficients(net.activation, params, x, k) for k in (1, 2))

    def pieces(V: Float[Array, "m d"]) -> Float[Array, "4 n"]:
        Z = x @ V.T
        f_L, f_Q = linear_term(S, Z), quadratic_term(T, Z)
        f = net(TwoLayerParams(W=params.W + V, a=params.a), x)
        return jnp.stack([f_L, f_Q, f - f_Q, f - f0 - f_L - f_Q])

    free = net.width**-0.25 * data.sphere(net.width, net.inputs, key=key_free)
    signs = jr.rademacher(key_signs, (draws, net.width, 1), dtype=float)
    moves = jnp.concatenate([W[None], free[None], signs * W[None]])
    # Not vmap, which would hold every (n, m) array that many times.
    plain, independent, *_ = parts = jax.lax.map(pieces, moves)
    drawn = parts[2:]
    mean, spread = rest_over_signs(net, params, W, x)
    return {
        "f_Q": rms(plain[1]),
        "f_L_signs": rms(drawn[:, 0]),
        "gap_signs": rms(drawn[:, 2]),
        "rest_signs": rms(drawn[:, 3]),
        "rest_signs_mean": rms(mean),
        "rest_signs_spread": rms(spread),
        "f_L_plain": rms(plain[0]),
        "rest_plain": rms(plain[3]),
        "f_L_free": rms(independent[0]),
        "f_Q_free": rms(independent[1]),
        "rest_max": jnp.maximum(jnp.max(jnp.abs(plain[3])), jnp.max(jnp.abs(drawn[:, 3]))),
    }


def rest_over_signs(
    net: TwoLayer, params: TwoLayerParams, W: Float[Array, "m d"], x: Float[Array, "n d"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Mean and standard deviation of the remainder over all signs, exactly.

    Neurons have independent signs, so the mean is a sum over the even parts of each neuron's
    remainder, and the variance a sum over the squares of the odd ones.
    """
    sigma, Z0, Z = net.activation, net.preactivations(params, x), x @ W.T
    up, down = sigma(Z0 + Z), sigma(Z0 - Z)
    even = (up + down) / 2 - sigma(Z0) - sigma.derivative(2)(Z0) * Z**2 / 2
    odd = (up - down) / 2 - sigma.derivative(1)(Z0) * Z
    variance = jnp.sum((params.a[None, :] * odd) ** 2, axis=1) / net.width
    return even @ params.a / math.sqrt(net.width), jnp.sqrt(variance)


# --- end to end ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SignedRisk:
    """The randomised risk with its origin among the data: the seeds of a width compile once."""

    net: TwoLayer
    penalty: float

    def __call__(self, W: Float[Array, "m d"], problem: Any, key: PRNGKeyArray) -> Array:
        params, batch = problem
        risk = escape.RandomizedRisk(self.net, params, "logistic", strength=self.penalty)
        return risk(W, batch, key)


@functools.cache  # the trainer compiles for the object
def _schedule(rate: float, steps: int) -> optax.Schedule:
    return optax.piecewise_constant_schedule(rate, {3 * steps // 5: 0.2})


def _trained(config: Trained, *, seed: int, progress: Progress) -> CellResult:
    d, m = config.inputs, config.width
    key_x, key_test, key_net, key_sgd, key_signs = jr.split(jr.fold_in(jr.key(28), seed), 5)
    x, x_test = data.cube(config.n, d, key=key_x), data.cube(config.n_test, d, key=key_test)
    net = TwoLayer(d, m, activation="relu3", init="symmetric", init_scale=d**-0.5)
    key_init, key_start = jr.split(jr.fold_in(key_net, m))
    params = net.init(key=key_init)
    history = noisy_sgd(
        _SignedRisk(net, config.penalty),
        0.1 * m**-0.25 * jr.normal(key_start, (m, d)) / math.sqrt(d),
        (params, (x, x[:, 0] * x[:, 1])),
        learning_rate=_schedule(config.rate * math.sqrt(m), config.steps),
        steps=config.steps,
        stochastic=True,
        record_every=10,
        progress=progress,
        key=key_sgd,
    )
    keys_signs = jr.split(key_signs, config.draws)
    on_train = _measured(net, params, history.params, x, keys_signs)
    on_test = _measured(net, params, history.params, x_test, keys_signs)
    row = {"norm": escape.norm_2p(history.params, 4)}
    row |= {f"{name}_train": value for name, value in on_train.items()}
    row |= {f"{name}_test": value for name, value in on_test.items()}
    columns = {name: np.array([value], np.float64) for name, value in row.items()}
    diverged = np.asarray(history.outcome == "diverged")
    arrays = {"step": history.steps, "loss": np.asarray(history.loss), "diverged": diverged}
    return CellResult({"width": np.array([m]), **columns}, arrays)


@functools.partial(jax.jit, static_argnums=0)
def _measured(net: TwoLayer, params: TwoLayerParams, W, x, keys: Key[Array, " s"]):
    """Risks, sizes and errors of the signed network, over pairs of draws, and of f^Q."""
    y, loss = x[:, 0] * x[:, 1], pointwise("logistic")
    f_Q = escape.quadratic_output(net, params, W, x)

    def pair(key: PRNGKeyArray) -> Float[Array, "2 n"]:
        s = escape.random_signs(net.width, key=key)
        return jnp.stack([escape.signed_output(net, params, W, x, t) for t in (s, -s)])

    f = jax.lax.map(pair, keys).reshape(-1, len(y))
    labels = jnp.broadcast_to(y, f.shape)
    return {
        "risk": jnp.mean(loss(f, labels)),
        "risk_Q": jnp.mean(loss(f_Q, y)),
        "f_Q": rms(f_Q),
        "gap": rms(f - f_Q[None, :]),
        "error": jnp.mean(f * labels <= 0, dtype=float),
        "error_Q": jnp.mean(f_Q * y <= 0, dtype=float),
    }
