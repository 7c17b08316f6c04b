# SPDX-License-Identifier: Apache-2.0
"""The public entry: a whole grid of training runs, compiled once."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.loss_calls import Loss, check_loss_call
from unlazy.core.memory import default_memory
from unlazy.core.trained import Trained
from unlazy.train.grid.assemble import assemble
from unlazy.train.grid.checking import (
    check_batches,
    check_momentum,
    check_optimizer,
    check_sets,
    evaluation_times,
    numbers,
    products_of,
    rate_scale,
    seed_numbers,
)
from unlazy.train.grid.layout import Axes
from unlazy.train.grid.problem import Problem, fit_memory
from unlazy.train.grid.progress import Meter
from unlazy.train.grid.result import GridResult
from unlazy.train.grid.rules import OptaxRule, OptimizerFactory, TorchSGD
from unlazy.train.grid.runner import KeepRule, default_workers, run_chunks
from unlazy.train.loop import Progress

Numbers = Sequence[int | float] | Float[Array | np.ndarray, " values"]


@entry
def fit_grid(
    loss: Loss,
    params: Any,
    data: Any,
    *,
    learning_rates: Numbers,
    weight_decays: Numbers = (0.0,),
    seeds: Sequence[int] | Int[Array | np.ndarray, " s"] = (0,),
    epochs: int,
    batch_size: int | None = None,
    momentum: int | float = 0.9,
    drops: Mapping[int, int | float] | None = None,
    optimizer: OptimizerFactory | None = None,
    trained: Trained = None,
    params_axes: Axes = None,
    data_axes: Axes = None,
    evaluate: Mapping[str, Any] | None = None,
    metric: Loss | None = None,
    evaluate_every: int | None = None,
    keep: KeepRule = "best",
    memory: int | float | None = None,
    workers: int | None = None,
    precision: str | None = None,
    progress: Progress | None = None,
    key: PRNGKeyArray | None = None,
) -> GridResult:
    r"""Train a whole grid of learning rates, weight decays and seeds as lanes of one program.

    Without `optimizer` each lane is PyTorch's SGD with momentum $\mu$, learning rate $\eta$ and
    weight decay $\omega$ on every trained array:

    $$g = \nabla L(\theta) + \omega\theta, \qquad v \leftarrow \mu v + g, \qquad
    \theta \leftarrow \theta - \eta v$$

    All lanes of a seed share their initialisation and the order of their mini-batches, and a lane
    computes what a grid of that lane alone would. Training runs in the dtype of the parameters. A
    second call with an equal loss, metric and optimiser and a grid of as many values compiles
    nothing; functions are equal if they are the same one, or of an object that says so.

    Source: RN-32 and RN-34, for the experiments of arXiv:1905.10337 and arXiv:1811.04918.

    Args:
        loss: `loss(params, batch)`, a scalar; `batch` has the structure of `data`. Give a mean over
            the batch, or the learning rates depend on `batch_size`. Or `loss(params)` with
            data=None.
        params: any pytree of arrays, such as `net.init(key=key)` or an Equinox model.
        data: pytree of arrays with one row a sample, such as `(x, y)`.
        learning_rates: $\eta$, distinct and positive.
        weight_decays: $\omega$, distinct and not negative.
        seeds: one replicate each. A seed chooses the order of the mini-batches, and with
            `params_axes` or `data_axes` what else differs; it may occur twice, for two replicates
            with other labels but the same order.
        epochs: how often to go through the data.
        batch_size: samples a step, in a new order every epoch, which skips its last
            n mod batch_size; None means all samples in every step.
        momentum: $\mu$ of the built-in SGD.
        drops: `{epoch: factor}`: from that epoch on (counted from 0) the learning rate is
            multiplied by the factor, further ones on top. Each below `epochs`.
        optimizer: `optimizer(learning_rate, weight_decay)`, an optax optimiser made of two traced
            scalars, such as `lambda lr, wd: optax.adamw(lr, weight_decay=wd)`.
        trained: which parameters to train: None or "all", "hidden", "weights" or "last" for our
            learners, booleans of the structure of `params` or a function of a leaf's path.
        params_axes: "seed" if every array of `params` has a leading axis with one entry a seed, as
            from `jax.vmap(net.init)`; or a tree of None and "seed" that is a prefix of `params`.
        data_axes: the same for `data`, such as `(None, "seed")` for labels that differ from seed to
            seed, and for the sets in `evaluate`.
        evaluate: named sets to evaluate, such as `{"test": (x_test, y_test)}`; "train" is there in
            any case.
        metric: `metric(params, data)`, a scalar, the smaller the better; the loss if None.
        evaluate_every: epochs between two evaluations; None for one at the end.
        keep: whose parameters to return: of the "best" lane of every seed by every set, of "all"
            or of "none".
        memory: bytes for the lanes in training; by default half of the machine's memory, or four
            fifths of an accelerator's. Lanes that do not fit are trained after the others.
        workers: chunks of lanes trained at a time, each in a thread; by default as many as cores,
            or one on an accelerator.
        precision: of products, as for `jax.default_matmul_precision`: on a GPU, "highest" keeps
            float32 products from being rounded to TF32. None leaves JAX's setting.
        progress: called with (epochs done, epochs in all), summed over the lanes, at the start and
            about twenty times a chunk; `TimeLeft(print)` tells the time left.
        key: for the order of the mini-batches; needed when `batch_size` is given.

    Returns:
        The result: a table with a row a lane, curves, the best lane by any set, and whether it lies
        on the grid's edge. Lanes whose loss or parameters are no longer finite are marked diverged.

    Raises:
        ValueError: an empty grid, a `batch_size` above the number of samples, a `memory` that no
            lane fits into, ragged or non-finite data, a missing `key`, a loss that is no scalar, or
            a set in `evaluate` that the loss does not take.
        TypeError: `optimizer` is an optimiser instead of a function that makes one.

    Example:
        >>> import jax.numpy as jnp
        >>> loss = lambda w, batch: jnp.mean((batch[0] @ w - batch[1]) ** 2)
        >>> data = (jnp.eye(2), jnp.array([1.0, -2.0]))
        >>> results = fit_grid(
        ...     loss, jnp.zeros(2), data, learning_rates=[0.01, 0.1, 3.0], momentum=0.0, epochs=50
        ... )
        >>> best = results.best("train")
        >>> print(best.learning_rate, best.params.round(1), results.edge("train"))
        0.1 [ 1. -2.] {}
    """
    check_loss_call(loss, data)
    rates = numbers(learning_rates, "learning_rates", allow_zero=False)
    decays = numbers(weight_decays, "weight_decays", allow_zero=True)
    replicates = seed_numbers(seeds)
    check_count(epochs, "epochs")
    check_momentum(momentum)
    check_optimizer(optimizer)
    if key is not None:
        check_key(key)
    check_name(keep, ["best", "all", "none"], "keep")
    times, scale = evaluation_times(evaluate_every, epochs), rate_scale(drops or {}, epochs)
    workers = default_workers() if workers is None else workers
    check_count(workers, "workers")
    memory = default_memory() if memory is None else memory
    check_positive(memory, "memory")
    rule = TorchSGD(float(momentum)) if optimizer is None else OptaxRule(optimizer)
    problem = Problem(
        *(loss, metric or loss, rule, params, data, check_sets(evaluate)),
        *(trained, params_axes, data_axes),
    )
    plan, shared = problem.set_up(rates, decays, scale, replicates, key=key)
    check_batches(batch_size, plan.samples, key)
    plan = plan._replace(batch_size=batch_size)
    with products_of(precision):
        plan, tiling, need = fit_memory(plan, shared, memory, workers)
        meter = Meter(progress, epochs * len(replicates) * len(rates) * len(decays))
        chunks = run_chunks(
            *(plan, shared, tiling, need),
            times=times,
            keep=keep,
            workers=workers,
            meter=meter,
        )
    return assemble(
        plan, shared, chunks, rates=rates, decays=decays, seeds=replicates, times=times, keep=keep
    )
