# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figure 2 compute."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from unlazy import data
from unlazy.core.float64 import float64
from unlazy.experiments import CellResult, Progress, shared_by_cells
from unlazy.kernels import relu_gram
from unlazy.labels import complexity as label_complexity
from unlazy.linalg import cholesky, eigh
from unlazy.losses import absolute_loss, zero_one_loss
from unlazy.papers.arora2019.figures.figure2.config import InfiniteWidth, Trained
from unlazy.papers.arora2019.figures.problems import ConvergedNetwork, Problem
from unlazy.papers.shared.settings import reproducible


def run(config: InfiniteWidth | Trained, *, seed: int, progress: Progress) -> CellResult:
    with reproducible():
        if isinstance(config, InfiniteWidth):
            return _infinite_width(config, seed=seed)
        return _trained(config, seed=seed, progress=progress)


@shared_by_cells(latest=2)  # cells of two data sets may run at the same time
def _load(problem: Problem, n_test: int, seed: int) -> data.Task:
    return problem.load(n_test=n_test, seed=seed)


def corrupted(task: data.Task, fraction: float, *, seed: int) -> tuple[jax.Array, jax.Array]:
    """Labels of training and test set; a larger fraction adds changes to those of a smaller one."""
    key_train, key_test = jr.split(jr.fold_in(jr.key(seed), 4))
    return (
        data.corrupt_labels(task.y_train, fraction, key=key_train),
        data.corrupt_labels(task.y_test, fraction, key=key_test),
    )


def _infinite_width(config: InfiniteWidth, *, seed: int) -> CellResult:
    task = _load(config.problem, config.n_test, seed)
    H = relu_gram(task.x_train)
    labels = [corrupted(task, fraction, seed=seed) for fraction in config.fractions]
    y = np.stack([train for train, _ in labels], axis=1).astype(np.float64)
    y_test = np.stack([test for _, test in labels], axis=1).astype(np.float64)
    factor = cholesky(H)
    if factor is None:
        raise ValueError("`problem` must have no duplicate images, but its kernel is singular.")
    with float64():
        outputs = np.asarray(relu_gram(task.x_test, task.x_train) @ factor.solve(y))
    energies = np.sum(np.asarray(factor.whiten(y)) ** 2, axis=0)
    table = {
        "fraction": np.array(config.fractions),
        "measure": np.sqrt(2 * energies / config.problem.n),
        "l1": absolute_loss(outputs, y_test).mean(axis=0),
        "error": zero_one_loss(outputs, y_test).mean(axis=0),
    }
    # The safe route, for the true labels: it would say if duplicates were in conflict.
    return CellResult(table, {"label_complexity": np.array(label_complexity(H, y[:, 0]))})


@shared_by_cells(latest=2)
def _largest_eigenvalue(problem: Problem, n_test: int, seed: int) -> float:
    return float(eigh(relu_gram(_load(problem, n_test, seed).x_train)).values[0])


def _trained(config: Trained, *, seed: int, progress: Progress) -> CellResult:
    task, spec = _load(config.problem, config.n_test, seed), config.network
    y, y_test = corrupted(task, config.fraction, seed=seed)
    net, start = spec.build(task.x_train.shape[1], seed=seed)
    learning_rate = spec.rate(lambda: _largest_eigenvalue(config.problem, config.n_test, seed))
    history = spec.train(net, start, task.x_train, y, learning_rate, progress)
    outputs = net(history.params, task.x_test)
    table = {
        "fraction": np.array([config.fraction]),
        "l1": np.array([jnp.mean(absolute_loss(outputs, y_test))], np.float64),
        "error": np.array([jnp.mean(zero_one_loss(outputs, y_test))], np.float64),
        "train_mse": np.array([2 * history.loss[-1] / config.problem.n], np.float64),
    }
    arrays = {"diverged": np.asarray(history.outcome == "diverged")}
    if isinstance(spec, ConvergedNetwork):  # the others take all of their steps
        arrays |= {"steps": np.asarray(history.final_step), "rate": np.asarray(learning_rate)}
    return CellResult(table, arrays)
