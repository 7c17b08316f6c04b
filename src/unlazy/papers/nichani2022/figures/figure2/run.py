# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figure 2 compute."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.float64 import float64
from unlazy.experiments import CellResult, Progress
from unlazy.nets import BiasedTwoLayer
from unlazy.nets.biased_two_layer import BiasedTwoLayerParams
from unlazy.papers.nichani2022.figures.figure2.config import LEVEL, AuthorsSweep, Sweep
from unlazy.papers.nichani2022.figures.standard_network import (
    StandardTask,
    authors_init,
    authors_target,
    standard_kernel,
    standard_task,
)
from unlazy.papers.shared.settings import reproducible
from unlazy.train import fit_grid

RIDGES = (1e-6, 3e-2)  # in units of the mean eigenvalue of the kernel


class Batch(NamedTuple):
    """Samples, labels and weights: 1/n for the first n, zero for the others."""

    x: Float[Array, "*l n d"]
    y: Float[Array, "*l n"]
    weight: Float[Array, "*l n"]


@dataclass(frozen=True)
class WeightedSquare:
    """The weighted sum of squared errors."""

    net: BiasedTwoLayer

    def __call__(self, params: BiasedTwoLayerParams, batch: Batch) -> Float[Array, ""]:
        return jnp.sum(batch.weight * (self.net(params, batch.x) - batch.y) ** 2)


def run(config: Sweep | AuthorsSweep, *, seed: int, progress: Progress) -> CellResult:
    with reproducible():
        if isinstance(config, AuthorsSweep):
            rows = _rows_until_reached(config, seed, progress)
        else:
            rows = _rows_of_all_sizes(config, seed, progress)
    names = ("method", "seed", "n", "train", "test")
    return CellResult(
        {
            name: np.array(column)
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }
    )


def _rows_of_all_sizes(config: Sweep, seed: int, progress: Progress) -> list[tuple]:
    drawn = [draw(config, seed + i) for i in range(config.seeds)]
    rows = _network_rows(config, drawn, config.sizes, progress)
    for i, one in enumerate(drawn):
        rows += [("kernel", i, n, 0.0, error) for n, error in kernel_errors(config, one)]
    return rows


def _rows_until_reached(config: AuthorsSweep, seed: int, progress: Progress) -> list[tuple]:
    """Some sizes at a time, until the median over the seeds is below the level at one of them."""
    drawn = [draw_as_authors(config, seed + i) for i in range(config.seeds)]
    rows, groups = [], range(0, config.most, config.together)
    for k, first in enumerate(groups):
        sizes = config.sizes[first : first + config.together]
        rows += _network_rows(
            config,
            drawn,
            sizes,
            lambda done, total, k=k: progress(k * total + done, (k + 1) * total),
        )
        if any(_median(rows, n) < LEVEL for n in sizes):
            break
    return rows


def _median(rows: list[tuple], n: int) -> float:
    return float(np.median([test for _, _, size, _, test in rows if size == n]))


def draw(config: Sweep, seed: int) -> StandardTask:
    """One seed, with as many samples as the largest size takes."""
    most = max(*config.sizes, *config.kernel_sizes)
    key = jr.fold_in(jr.key(52), seed)
    return standard_task(network(config), most, config.n_test, key=key)


def draw_as_authors(config: AuthorsSweep, seed: int) -> StandardTask:
    """One seed: Gaussian samples of the authors' target, and a network of their start."""
    key_target, key_x, key_test, key_net = jr.split(jr.fold_in(jr.key(2206), seed), 4)
    d, net = config.inputs, network(config)
    target = authors_target(d, key=key_target)
    x, new = jr.normal(key_x, (max(config.sizes), d)), jr.normal(key_test, (config.n_test, d))
    start = authors_init(net, key=key_net)
    return StandardTask(start, x, jnp.asarray(target(x)), new, jnp.asarray(target(new)))


def network(config: Sweep | AuthorsSweep) -> BiasedTwoLayer:
    return BiasedTwoLayer(config.inputs, config.width)


def _network_rows(
    config: Sweep | AuthorsSweep, drawn: list[StandardTask], sizes: list[int], progress: Progress
) -> list[tuple]:
    """All seeds and these sizes as lanes of one program; smaller samples are padded."""
    lanes = [(i, n) for i in range(len(drawn)) for n in sizes]
    longest = max(sizes)

    def stacked(parts: list) -> Batch | BiasedTwoLayerParams:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)

    train = [
        Batch(
            drawn[i].x[:longest],
            drawn[i].y[:longest],
            jnp.where(jnp.arange(longest) < n, 1 / n, 0.0),
        )
        for i, n in lanes
    ]
    weight = jnp.full(config.n_test, 1 / config.n_test)
    test = [Batch(drawn[i].x_test, drawn[i].y_test, weight) for i, _ in lanes]
    result = fit_grid(
        WeightedSquare(network(config)),
        stacked([drawn[i].params for i, _ in lanes]),
        stacked(train),
        learning_rates=[config.learning_rate],
        seeds=list(range(len(lanes))),
        epochs=config.steps,
        momentum=0.0,
        params_axes="seed",
        data_axes="seed",
        evaluate={"test": stacked(test)},
        keep="none",
        precision="highest",
        progress=progress,
    )
    ends = [np.asarray(result.final(name)[0, 0], np.float64) for name in ("train", "test")]
    return [
        ("network", *lane, *end) for lane, end in zip(lanes, zip(*ends, strict=True), strict=True)
    ]


def kernel_errors(config: Sweep, one: StandardTask) -> list[tuple[int, float]]:
    """Test losses of kernel ridge regression, with the ridge that is better on the test set."""
    K = standard_kernel(one.x, width=config.width)
    K_test = standard_kernel(one.x_test, one.x, width=config.width)
    with float64():
        y, y_test = (jnp.asarray(part, jnp.float64) for part in (one.y, one.y_test))
        found = []
        for n in config.kernel_sizes:
            errors = [_ridge_error(K[:n, :n], K_test[:, :n], y[:n], y_test, r) for r in RIDGES]
            found.append((n, min(float(error) for error in errors)))
    return found


@jax.jit
def _ridge_error(
    K: Float64[Array, "n n"],
    K_test: Float64[Array, "t n"],
    y: Float64[Array, " n"],
    y_test: Float64[Array, " t"],
    ridge: float | Array,
) -> Float64[Array, ""]:
    n = len(y)
    factor = jsl.cho_factor(K + ridge * jnp.trace(K) / n * jnp.eye(n, dtype=K.dtype))
    f = jnp.matmul(K_test, jsl.cho_solve(factor, y), precision=jax.lax.Precision.HIGHEST)
    return jnp.mean((f - y_test) ** 2)
