# SPDX-License-Identifier: Apache-2.0
"""The computation of the cells of the sample-complexity figure."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from unlazy import data, escape
from unlazy.experiments import CellResult, Progress
from unlazy.losses import pointwise
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers import bai_lee2020
from unlazy.papers.bai_lee2020.clean_risk import QuadraticRisk
from unlazy.papers.bai_lee2020.figures.sample_complexity.config import Task
from unlazy.papers.bai_lee2020.figures.sample_complexity.fits import (
    Gram,
    loss_outputs,
    quadratic_fits,
    ridge_outputs,
    start_of,
)
from unlazy.papers.shared.settings import reproducible

_KERNELS = {"ntk": bai_lee2020.relu3_tangent, "kq": bai_lee2020.relu3_quadratic}
_SALTS = {"two-xor": 2, "product": 3, "quartic": 4}


class Samples(NamedTuple):
    """Inputs and labels."""

    x: Float[Array, "n d"]
    y: Float[Array, " n"]


class Drawn(NamedTuple):
    """The random part of a cell."""

    train: Samples
    valid: Samples
    test: Samples
    net: TwoLayer
    params: TwoLayerParams
    start: Float[Array, "m d"]
    signs: Float[Array, " m"]


class Row(NamedTuple):
    """One line of the table."""

    method: str
    n: int
    score: float  # on the test set
    valid: float
    choice: float  # of the penalty or ridge


@reproducible(x64=True)  # whatever the user has set: the same cell, the same numbers
def run(config: Task, *, seed: int, progress: Progress) -> CellResult:
    drawn = draw(config, seed=seed)
    of_kernels = [method for method in config.methods if "/" in method]
    rows = list(_quadratic_rows(config, drawn))
    progress(1, 1 + len(of_kernels))
    for done, method in enumerate(of_kernels, start=2):
        rows += _kernel_rows(config, drawn, method)
        progress(done, 1 + len(of_kernels))
    return CellResult({name: np.array([getattr(r, name) for r in rows]) for name in Row._fields})


def target_of(task: Task) -> Callable[..., Any]:
    """The target, on the sphere scaled to standard deviation 1 (the quartic is not centred)."""
    d = task.inputs
    if task.target == "two-xor":
        return data.target("two-xor")
    if task.target == "product":
        return data.target("monomial", coordinates=(0, 1), coefficient=math.sqrt((d + 2) / d))
    fourth = 3 * d / (d + 2)
    eighth = 105 * d**3 / ((d + 2) * (d + 4) * (d + 6))
    scale = 1 / math.sqrt(eighth - fourth**2)
    return data.target("monomial", coordinates=(0, 0, 0, 0), coefficient=scale)


def draw(task: Task, *, seed: int) -> Drawn:
    key = jr.fold_in(jr.fold_in(jr.key(_SALTS[task.target]), task.inputs), seed)
    key_x, key_valid, key_test, key_net, key_start, key_signs = jr.split(key, 6)
    d, m, target = task.inputs, task.width, target_of(task)

    def samples(n: int, key) -> Samples:
        on_sphere = functools.partial(data.sphere, radius=math.sqrt(d))
        x = (data.cube if task.classifies else on_sphere)(n, d, key=key)
        return Samples(x, target(x))

    net = TwoLayer(d, m, activation="relu3", init="symmetric", init_scale=d**-0.5)
    return Drawn(
        train=samples(max(*task.ns, *task.kernel_ns, 1), key_x),
        valid=samples(task.n_valid, key_valid),
        test=samples(task.n_test, key_test),
        net=net,
        params=net.init(key=key_net),
        start=start_of(m, d, jr.normal(key_start, (m, d))),
        signs=escape.random_signs(m, key=key_signs),
    )


def score(task: Task, outputs: Float[Array, "*k t"], y: Float[Array, " t"]) -> np.ndarray:
    """The share of errors, or the mean square over the variance of the labels; less is better."""
    f, labels = np.asarray(outputs), np.asarray(y)
    if task.classifies:
        return np.asarray(np.mean(f * labels <= 0, axis=-1))
    return np.asarray(np.mean((f - labels) ** 2, axis=-1) / np.var(labels))


def chosen(task: Task, outputs: Float[Array, "k t"], y: Float[Array, " t"]) -> int:
    """The best on the validation set; among equal errors the one with the least loss."""
    labels = jnp.broadcast_to(y, outputs.shape)
    means = np.asarray(jnp.mean(pointwise(task.loss)(outputs, labels), axis=1))
    return int(np.lexsort((means, score(task, outputs, y)))[0])


def _kernel_rows(task: Task, drawn: Drawn, method: str) -> Iterator[Row]:
    name, kind = method.split("/")
    sizes, t = task.sizes(method), task.n_valid
    x, y = (part[: max(sizes)] for part in drawn.train)
    new = jnp.concatenate([drawn.valid.x, drawn.test.x])
    kernel = functools.partial(_KERNELS[name], init_scale=task.inputs**-0.5)
    gram, lanes = Gram(kernel(x), kernel(new, x), y), _lanes(sizes, task.ridges)
    if kind == "ridge":
        outputs = ridge_outputs(gram, *lanes)
    else:
        outputs = loss_outputs(gram, *lanes, pointwise(task.loss))
    for n, f in zip(sizes, outputs.reshape(len(sizes), len(task.ridges), -1), strict=True):
        yield _row(task, drawn, method, n, f[:, :t], f[:, t:], task.ridges)


def _quadratic_rows(task: Task, drawn: Drawn) -> Iterator[Row]:
    net, params, grid = drawn.net, drawn.params, task.penalties
    x, y = (part[: max(task.ns)] for part in drawn.train)
    risk = QuadraticRisk.of(net, params, x, y, loss=task.loss)
    fits = quadratic_fits(risk, drawn.start, *_lanes(task.ns, grid), task.steps)
    fits = fits.reshape(len(task.ns), len(grid), *drawn.start.shape)
    for n, Ws in zip(task.ns, fits, strict=True):
        on_valid = jnp.stack([escape.quadratic_output(net, params, W, drawn.valid.x) for W in Ws])
        on_test = jnp.stack([escape.quadratic_output(net, params, W, drawn.test.x) for W in Ws])
        row = _row(task, drawn, "f_Q", n, on_valid, on_test, grid)
        yield row
        if "signed" in task.methods:
            W = Ws[grid.index(row.choice)]
            f = escape.signed_output(net, params, W, drawn.test.x, drawn.signs)
            yield row._replace(method="signed", score=float(score(task, f, drawn.test.y)))


def _lanes(ns: tuple[int, ...], grid: tuple[float, ...]) -> tuple[Array, Array]:
    """All pairs of a sample size and a strength."""
    return jnp.repeat(jnp.asarray(ns), len(grid)), jnp.tile(jnp.asarray(grid), len(ns))


def _row(task: Task, drawn: Drawn, method: str, n: int, on_valid, on_test, grid) -> Row:
    best = chosen(task, on_valid, drawn.valid.y)
    valid = score(task, on_valid[best], drawn.valid.y)
    return Row(method, n, float(score(task, on_test[best], drawn.test.y)), float(valid), grid[best])
