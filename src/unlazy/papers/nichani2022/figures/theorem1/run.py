# SPDX-License-Identifier: Apache-2.0
"""What the cells of the experiment on Theorem 1 compute."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from unlazy import escape
from unlazy.experiments import CellResult, Progress
from unlazy.papers.nichani2022.figures.theorem1.config import Descents
from unlazy.papers.nichani2022.figures.trials import table
from unlazy.papers.nichani2022.regularized_risk import RegularizedRisk, theory_strengths
from unlazy.papers.shared.settings import reproducible
from unlazy.special import gegenbauer_coefficients

COLUMNS = ("train", "test", "r1", "r2", "r3", "r4", "risk")


class Trial(NamedTuple):
    """One trial: the network's risk without penalties, their strengths and new samples."""

    risk: RegularizedRisk
    x_new: Float[Array, "q d"]
    y_new: Float[Array, " q"]
    strengths: Float[Array, "2 4"]  # none, and those of the theory


def run(config: Descents, *, seed: int, progress: Progress) -> CellResult:
    seeds, found = range(seed, seed + config.trials), []
    steps = np.arange(0, config.steps + 1, config.record_every)
    with reproducible():
        for done, trial in enumerate(seeds):
            key = jr.fold_in(jr.key(38), trial)
            keys = jr.split(jr.fold_in(key, 1), config.steps // config.record_every)
            found.append(np.asarray(_descend(config, drawn(config, key), keys), np.float64))
            progress(done + 1, config.trials)
    axes = {"seed": np.array(seeds), "penalised": np.array([0, 1]), "step": steps}
    values = np.moveaxis(np.stack(found), -1, 0)  # by trial, setting and step
    return CellResult(table(axes, dict(zip(COLUMNS, values, strict=True))))


def drawn(config: Descents, key: PRNGKeyArray) -> Trial:
    """A trial with its own direction beta, samples, unlabelled points and network."""
    key_beta, key_x, key_new, key_more, key_net = jr.split(key, 5)
    p = config.problem
    target = p.target(jr.normal(key_beta, (p.inputs,)))
    x, new, more = (
        p.points(count, key=own)
        for count, own in ((p.n, key_x), (p.n_test, key_new), (p.n_unlabelled, key_more))
    )
    geometry = escape.directions(
        p.net, p.net.init(key=key_net), x, rank=p.rank, covariance="unlabelled", unlabelled=more
    )
    # R4 of the movement that builds the square (NB-40), in the limit of wide networks.
    r4 = (8 / gegenbauer_coefficients(p.net.activation, p.inputs, 0, derivative=2)[0] ** 2) ** 2
    strengths = theory_strengths(p.width, p.inputs, 1, accuracy=config.accuracy, r4=float(r4))
    return Trial(
        RegularizedRisk.of(geometry, target(x), network=True),
        new,
        jnp.asarray(target(new)),
        jnp.array([[0.0] * 4, strengths], x.dtype),
    )


@eqx.filter_jit
def _descend(config: Descents, trial: Trial, keys: Key[Array, " t"]) -> Float[Array, "2 q c"]:
    """Update (21) for both settings, under the same noise."""
    p = config.problem
    spread = config.noise / math.sqrt(p.width * p.inputs)

    def one(lam: Float[Array, " 4"]) -> Float[Array, "t c"]:
        def objective(W):
            return trial.risk.data_term(W) + jnp.sum(lam * _penalties(trial, W))

        def step(W, key):
            kick = spread * jr.normal(key, W.shape, W.dtype)
            return W - config.learning_rate * (jax.grad(objective)(W) + kick), None

        def stretch(W, key):
            W, _ = jax.lax.scan(step, W, jr.split(key, config.record_every))
            return W, record(W)

        def record(W):
            losses = [trial.risk.data_term(W), _population(trial, W)]
            return jnp.concatenate([jnp.stack(losses), _penalties(trial, W), objective(W)[None]])

        start = jnp.zeros((p.width, p.inputs), trial.x_new.dtype)
        _, rows = jax.lax.scan(stretch, start, keys)
        return jnp.concatenate([record(start)[None], rows])

    return jax.vmap(one)(trial.strengths)


def _population(trial: Trial, W: Float[Array, "m d"]) -> Float[Array, ""]:
    """The loss on new samples; the network starts at zero."""
    net, start = trial.risk.geometry.net, trial.risk.geometry.params
    f = net(type(start)(W=start.W + W, a=start.a), trial.x_new)
    return jnp.mean(trial.risk.loss(f, trial.y_new))


def _penalties(trial: Trial, W: Float[Array, "m d"]) -> Float[Array, " 4"]:
    g = trial.risk.geometry
    return jnp.stack([g.r1(W), g.r2(W), g.r3(W), g.r4(W)])
