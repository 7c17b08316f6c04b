# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figure 1 compute."""

import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from unlazy import data
from unlazy.dynamics import KernelDynamics
from unlazy.experiments import CellResult, Progress, shared_by_cells
from unlazy.kernels import relu_gram
from unlazy.linalg import Eigen, eigh
from unlazy.papers.arora2019.figures.figure1.config import (
    LABELS,
    UNIT_WORST,
    Spectrum,
    Training,
)
from unlazy.papers.arora2019.figures.problems import Problem
from unlazy.papers.arora2019.worst_case_labels import worst_labels_from
from unlazy.papers.shared.settings import reproducible


def run(config: Spectrum | Training, *, seed: int, progress: Progress) -> CellResult:
    with reproducible():
        if isinstance(config, Spectrum):
            return _spectrum(config, seed=seed)
        return _training(config, seed=seed, progress=progress)


@shared_by_cells(latest=2)  # cells of two data sets may run at the same time
def _decompose(problem: Problem, seed: int) -> tuple[data.Task, Eigen]:
    task = problem.load(n_test=1, seed=seed)
    return task, eigh(relu_gram(task.x_train))


def _labels(kind: str, problem: Problem, *, seed: int) -> np.ndarray:
    task, eigen = _decompose(problem, seed)
    if kind == "true":
        return np.asarray(task.y_train)
    if kind == "random":
        return np.asarray(data.random_labels(problem.n, key=jr.fold_in(jr.key(seed), 2)))
    return worst_labels_from(eigen, 1.0 if kind == UNIT_WORST else math.sqrt(problem.n))


def _spectrum(config: Spectrum, *, seed: int) -> CellResult:
    _, eigen = _decompose(config.problem, seed)
    table = {"index": np.arange(1, config.problem.n + 1), "eigenvalue": eigen.values}
    measures = []
    for kind in LABELS:
        flow = KernelDynamics.from_eigen(eigen, _labels(kind, config.problem, seed=seed))
        table[f"projection_{kind}"] = flow.projections
        # The limit of the movement is the label energy, where the labels can be reached at all.
        reached = flow.loss(math.inf) <= 1e-12 * flow.loss(0)
        energy = flow.movement(math.inf) ** 2 if reached else math.inf
        measures.append(math.sqrt(2 * energy / config.problem.n))
    return CellResult(table, {"label_complexity": np.array(measures)})


def _training(config: Training, *, seed: int, progress: Progress) -> CellResult:
    task, eigen = _decompose(config.problem, seed)
    spec, x = config.network, task.x_train
    net, start = spec.build(x.shape[1], seed=seed)
    y = _labels(config.labels, config.problem, seed=seed)
    resid0 = y - np.asarray(net(start, x), np.float64)
    flow = KernelDynamics.from_eigen(eigen, resid0, learning_rate=spec.learning_rate)
    labels = jnp.asarray(y, x.dtype)
    history = spec.train(net, start, x, labels, flow.learning_rate, progress)
    moved = history.params.W - start.W
    flips = net.preactivations(history.params, x) >= 0
    flips ^= net.preactivations(start, x) >= 0
    table = {
        "step": history.steps,
        "residual": np.sqrt(2 * history.loss.astype(np.float64)),
        "predicted": flow.residual(history.steps),
    }
    summary = {
        "label_norm": np.linalg.norm(y),
        "learning_rate": np.float64(flow.learning_rate),
        "movement": np.linalg.norm(np.asarray(moved, np.float64)),  # no order of sums to depend on
        "movement_predicted": np.float64(flow.movement(history.final_step)),
        "flips": np.float64(jnp.mean(flips, dtype=float)),
        "diverged": np.bool_(history.outcome == "diverged"),
        # AR-14: how far a neuron must move, in units of its initial size; lazy if far below one.
        "rho": np.float64(flow.movement(math.inf) / (spec.init_scale * math.sqrt(spec.width))),
    }
    return CellResult(table, {name: np.asarray(value) for name, value in summary.items()})
