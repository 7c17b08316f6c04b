# SPDX-License-Identifier: Apache-2.0
"""The computation of the cells of the landscape figure."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy import curvature, data, escape
from unlazy.experiments import CellResult, Progress
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers import bai_lee2020
from unlazy.papers.bai_lee2020.clean_risk import QuadraticRisk, quadratic_risk
from unlazy.papers.bai_lee2020.figures.exponents import table
from unlazy.papers.bai_lee2020.figures.landscape.config import Descents
from unlazy.papers.shared.settings import reproducible
from unlazy.train import Perturbation, PerturbedHistory, fit, perturbed_gradient_descent

_PLAIN_STEPS = 300
_DENSE = 2048  # parameters up to which the spectrum is formed
_SCALES = np.linspace(0.05, 3, 2951)  # of the movement made by hand


class Problem(NamedTuple):
    """The risk, and the network that it is of."""

    net: TwoLayer
    params: TwoLayerParams
    risk: QuadraticRisk


@reproducible(x64=True)  # whatever the user has set: values are compared to 5 decimals
def run(config: Descents, *, seed: int, progress: Progress) -> CellResult:
    key_problem, key_runs = jr.split(jr.fold_in(jr.key(5), seed))
    problem = problem_of(config, key=key_problem)
    rows, curves = _descents(config, problem, progress, key=key_runs)
    arrays = {**_start(config, problem), **_by_hand(problem, rows[0], curves.pop("end"))}
    return CellResult(table(rows), {name: np.asarray(a) for name, a in (curves | arrays).items()})


def problem_of(config: Descents, *, key: PRNGKeyArray) -> Problem:
    key_x, key_net = jr.split(key)
    d, m = config.inputs, config.width
    x = data.cube(config.n, d, key=key_x)
    net = TwoLayer(d, m, activation="relu3", init="symmetric", init_scale=d**-0.5)
    params = net.init(key=jr.fold_in(key_net, m))
    y = data.target("two-xor")(x)
    return Problem(net, params, QuadraticRisk.of(net, params, x, y, strength=config.strength))


def _descents(
    config: Descents, problem: Problem, progress: Progress, *, key: PRNGKeyArray
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One row per descent, and the losses on the way of the first."""
    rows, curves = [], {}
    runs = config.kicked + config.random
    for index in range(runs):
        key_start, key_run, key_end = jr.split(jr.fold_in(key, index), 3)
        W, rate = _from(config, problem, index, key=key_start)
        history = perturbed_gradient_descent(
            *(quadratic_risk, W, problem.risk),
            steps=config.steps,
            learning_rate=rate,
            perturbation=Perturbation.scaled(config.width),
            record_every=config.record_every,
            key=key_run,
        )
        ends = curvature.certify(problem.risk, history.params, dense=False, key=key_end)
        rows.append({"random": index >= config.kicked, **_summary(history, ends)})
        if index == 0:
            curves = {"step": history.steps, "loss": history.loss, "end": history.params}
        progress(index + 1, runs + 1)
    return rows, curves


def _from(
    config: Descents, problem: Problem, index: int, *, key: PRNGKeyArray
) -> tuple[Float[Array, "m d"], float | None]:
    """The start of the descent of this index, and its learning rate."""
    shape = problem.params.W.shape
    if index < config.kicked:
        return jnp.zeros(shape), None
    key_W, key_ends = jr.split(key)
    W = jr.normal(key_W, shape)
    W = config.random_norm * W / escape.norm_2p(W, 4)
    ends = curvature.extreme_eigenvalues(problem.risk, W, dense=False, key=key_ends)
    return W, config.random_rate / ends.largest


def _summary(history: PerturbedHistory, ends: curvature.Certificate) -> dict[str, Any]:
    return {
        "loss": ends.loss,
        "steps": history.final_step,
        "kicks": len(history.perturbed_at),
        "arrived": history.outcome == "stopped",
        "norm": float(escape.norm_2p(history.params, 4)),
        "gradient": ends.scaled_gradient,
        "curvature": ends.scaled_curvature,
        "curvature_error": ends.curvature.smallest_error * (ends.width or 1) ** 0.5,
    }


def _start(config: Descents, problem: Problem) -> dict[str, Any]:
    """The course of plain descent from W = 0, and the curvature there."""
    W = jnp.zeros(problem.params.W.shape)
    ends = curvature.certify(problem.risk, W, dense=False, key=jr.key(0))
    history = fit(
        *(quadratic_risk, W, problem.risk),
        optimizer=_descent(0.4 * config.width**0.5),
        steps=_PLAIN_STEPS,
        record_every=config.record_every,
    )
    return {
        "plain_step": history.steps,
        "plain_loss": history.loss,
        "start_curvature": ends.scaled_curvature,
        "radius": bai_lee2020.localization_radius(problem.risk),
    }


@functools.lru_cache  # the trainer compiles for the object
def _descent(rate: float) -> optax.GradientTransformation:
    return optax.sgd(rate, momentum=0.9)


def _by_hand(problem: Problem, row: dict[str, Any], end: Float[Array, "m d"]) -> dict[str, Any]:
    """The best multiple of the movement made by hand, and its certificate of the end."""
    risk = problem.risk
    W = jnp.asarray(bai_lee2020.two_xor(problem.net, problem.params).dW)
    values = np.asarray(_multiples(risk, W, jnp.asarray(_SCALES)))
    best = float(_SCALES[np.argmin(values)])
    # Beyond, forming the spectrum takes minutes, and Lanczos has agreed with it to many digits.
    is_small = end.size <= _DENSE
    dense = curvature.certify(risk, end, dense=is_small, key=jr.key(0))
    bounds = [
        bai_lee2020.optimality_bound(risk, end, c * W, smallest_eigenvalue=dense.curvature.smallest)
        for c in (best, *_SCALES[::50])
    ]
    return {
        "by_hand": values.min(),
        "by_hand_scale": best,
        "bound": bounds[0],
        "least_bound": min(bounds),
        "slack": bai_lee2020.curvature_bound(risk, end, best * W).slack,
        "dense_curvature": dense.scaled_curvature if is_small else np.nan,
        "lanczos_curvature": row["curvature"],
    }


@jax.jit
def _multiples(risk: QuadraticRisk, W, scales: Float[Array, " k"]) -> Float[Array, " k"]:
    """The risk of every multiple: outputs are of degree 2 in the movement, the penalty of 8."""
    f, penalty = risk.outputs(W), risk.strength * escape.regularizer(W)

    def at(c: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.mean(risk.loss(c**2 * f, risk.y)) + c**8 * penalty

    return jax.vmap(at)(scales)
