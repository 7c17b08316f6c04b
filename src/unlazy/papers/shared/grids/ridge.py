# SPDX-License-Identifier: Apache-2.0
"""The minimisers that SGD on a linear model descends to, for many weight decays at once."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from unlazy import kernels
from unlazy.papers.shared.grids.learner import Split
from unlazy.papers.shared.grids.linear import Linear
from unlazy.papers.shared.grids.tuning import Table, merge


def ridge_path(
    model: Linear, labels: tuple[Float[np.ndarray, "_ *c"], ...], scales: Float[np.ndarray, " r"]
) -> tuple[Float[np.ndarray, " r"], list[Float[np.ndarray, " r"]]]:
    r"""Mean squared errors of kernel ridge regression on every set.

    $$\min_\theta \frac1N \sum_i \big(o(x_i) + \langle\phi(x_i), \theta\rangle - y_i\big)^2
    + \frac\omega2 \|\theta\|^2, \qquad
    f(x) = o(x) + k(x)^\top \big(K + \tfrac{N\omega}2 I\big)^{-1} (y - o)$$

    the point to which SGD with weight decay $\omega$ descends, if it has the time. Several outputs
    share the kernel, and their errors are added: for a linear model that couples them, this is
    another model, with the average of their kernels.

    Source: LG-51, arXiv:1811.04918 section 7, and RN-35, arXiv:1905.10337 section 8.

    Args:
        model: the training set first.
        labels: of every set.
        scales: the ridges $N\omega/2$, in units of the mean eigenvalue of the kernel.

    Returns:
        $\omega$, and the errors of every set.
    """
    K = model.K[0]
    ridges = scales * np.trace(K) / len(K)
    centred = [
        _columns(y) - _columns(offset) for y, offset in zip(labels, model.offset, strict=True)
    ]
    path = kernels.ridge_path(K, centred[0], ridges)
    errors = [path.errors(block, y) for block, y in zip(model.K, centred, strict=True)]
    return 2 * ridges / len(K), errors


def ridge_table(
    models: Sequence[Linear],
    splits: Sequence[Split],
    seeds: Sequence[int],
    scales: Float[np.ndarray, " r"],
) -> Table:
    """The errors of exact ridge regression, a row for every ridge and seed."""
    tables = []
    for model, split, seed in zip(models, splits, seeds, strict=True):
        omega, errors = ridge_path(model, tuple(np.asarray(part.y) for part in split), scales)
        rows = {"weight_decay": omega, "seed": np.full(len(omega), seed)}
        tables.append(rows | dict(zip(Split._fields, errors, strict=True)))
    return merge(tables)


def as_lanes(table: Table, solver: str) -> Table:
    """The rows of exact solutions, with the columns of trained lanes."""
    count = len(table["seed"])
    return {
        "solver": np.full(count, solver),
        "learning_rate": np.full(count, np.nan),
        **table,
        "diverged": np.zeros(count, bool),
        "diverged_epoch": np.zeros(count, np.int64),
        "extension": np.zeros(count, np.int64),
    }


def _columns(values: Float[np.ndarray, "n *c"]) -> Float[np.ndarray, "n c"]:
    return np.asarray(values, np.float64).reshape(len(values), -1)
