# SPDX-License-Identifier: Apache-2.0
"""Kernel ridge regression: where SGD on a linear model descends to, for many weight decays."""

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
    another model, with the average of their kernels. `scales` are the ridges $N\omega/2$, in units
    of the mean eigenvalue of the kernel. The results are $\omega$, and the errors of every set.

    Source: LG-51, arXiv:1811.04918 section 7, and RN-35, arXiv:1905.10337 section 8.
    """
    K = model.K[0]
    ridges = scales * np.trace(K) / len(K)
    resid = [np.asarray(y, np.float64) - o for y, o in zip(labels, model.offset, strict=True)]
    path = kernels.ridge_path(K, resid[0], ridges)
    errors = [path.errors(block, y) for block, y in zip(model.K, resid, strict=True)]
    return 2 * ridges / len(K), errors


def ridge_table(
    models: Sequence[Linear],
    splits: Sequence[Split],
    seeds: Sequence[int],
    scales: Float[np.ndarray, " r"],
) -> Table:
    """The errors of exact ridge regression, one row per ridge and seed."""
    paths = (
        ridge_path(model, tuple(np.asarray(part.y) for part in split), scales)
        for model, split in zip(models, splits, strict=True)
    )
    return merge([path_rows(seed, *path) for seed, path in zip(seeds, paths, strict=True)])


def path_rows(
    seed: int, weight_decay: Float[np.ndarray, " r"], errors: Sequence[Float[np.ndarray, " r"]]
) -> Table:
    """The errors of every set of a split along a path of weight decays, as rows."""
    rows = {"weight_decay": weight_decay, "seed": np.full(len(weight_decay), seed)}
    return rows | dict(zip(Split._fields, errors, strict=True))


def as_lanes(table: Table, solver: str) -> Table:
    """Add the columns of trained lanes to rows of exact solutions."""
    count = len(table["seed"])
    return {
        "solver": np.full(count, solver),
        "learning_rate": np.full(count, np.nan),
        **table,
        "diverged": np.zeros(count, bool),
        "diverged_epoch": np.full(count, np.nan),
        "extension": np.zeros(count, np.int64),
    }
