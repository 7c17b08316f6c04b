# SPDX-License-Identifier: Apache-2.0
"""A whole grid of training runs, compiled once.

A lane is one run: one seed, one learning rate, one weight decay. From the outside in:

- `fit_grid` checks its arguments and cuts the grid into chunks of lanes that fit the memory.
- `run_chunks` trains the chunks, several at a time where the device is a processor of several
  cores: XLA runs the small products of a step on one core, and two chunks in two threads use two.
  With a mesh, each of its devices trains a chunk. What a chunk computes does not depend on the
  others.
- `programs.py` has the compiled programs of a chunk, down to `vmap` and `scan`.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.loss_calls import Loss, check_loss_call
from unlazy.core.meshes import along, check_mesh, memory_per_device, place, to_host
from unlazy.core.trained import Trained
from unlazy.train.grid import checks
from unlazy.train.grid.devices import Wave, waves
from unlazy.train.grid.evaluation import KeepRule, Record
from unlazy.train.grid.memory import Chunk, Need, Tiling, fit_memory, workers_of
from unlazy.train.grid.problem import Axes, Plan, Problem, Shared
from unlazy.train.grid.programs import Programs, compile_programs
from unlazy.train.grid.progress import Meter
from unlazy.train.grid.result import GridResult, Preferred
from unlazy.train.grid.rules import OptaxRule, OptimizerFactory, TorchSGD
from unlazy.train.loop import Progress
from unlazy.train.precision import in_precision_of_params

Numbers = Sequence[int | float] | Float[Array | np.ndarray, " values"]

_STRETCHES = 20  # how often a chunk reports progress


@entry
@in_precision_of_params
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
    best: Preferred = "smallest",
    evaluate_every: int | None = None,
    keep: KeepRule = "best",
    memory: int | float | None = None,
    workers: int | None = None,
    mesh: Mesh | None = None,
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
    second call with an equal loss, metric and optimiser and a grid of the same size compiles
    nothing; functions are equal if they are the same object, or if `==` says so, and if they
    compute the same: what they read from outside may change between two calls.

    Source: RN-32 and RN-34, for the experiments of arXiv:1905.10337 and arXiv:1811.04918.

    Args:
        loss: `loss(params, batch)`, a scalar; `batch` has the structure of `data`. Give a mean over
            the batch, or the learning rates depend on `batch_size`. Or `loss(params)` with
            data=None.
        params: any pytree, such as `net.init(key=key)`, an Equinox model, the `variables` of a Flax
            linen model or the state of Flax nnx; running statistics stay as they are.
        data: pytree of arrays with one row per sample, such as `(x, y)`.
        learning_rates: $\eta$, distinct and positive.
        weight_decays: $\omega$, distinct and not negative.
        seeds: one replicate per seed. A seed determines the order of the mini-batches, and the
            entries along `params_axes` and `data_axes`; it may occur twice, for two replicates
            with other labels but the same order.
        epochs: how often to go through the data.
        batch_size: samples per step, in a new order every epoch, which skips its last
            n mod batch_size; None means all samples in every step.
        momentum: $\mu$ of the built-in SGD.
        drops: `{epoch: factor}`: from that epoch on (counted from 0) the learning rate is
            multiplied by the factor, on top of earlier ones. Each below `epochs`.
        optimizer: `optimizer(learning_rate, weight_decay)`, an optax optimiser made of two traced
            scalars, such as `lambda lr, wd: optax.adamw(lr, weight_decay=wd)`.
        trained: which parameters to train: None or "all", "hidden", "weights" or "last" for our
            learners, booleans of the structure of `params` or a function of a leaf's path.
        params_axes: "seed" if every array of `params` has a leading axis with one entry per seed,
            as from `jax.vmap(net.init)`; or a tree of None and "seed" that is a prefix of `params`.
        data_axes: the same for `data`, such as `(None, "seed")` for labels that differ from seed to
            seed, and for the sets in `evaluate`.
        evaluate: named sets, such as `{"test": (x_test, y_test)}`; "train" is always evaluated.
        metric: `metric(params, data)`, a scalar; the loss if None.
        best: which metric is the best, "smallest", or "largest" for one such as the accuracy. It
            decides about `keep="best"`, `results.best` and `results.edge`.
        evaluate_every: epochs between two evaluations; None for one at the end.
        keep: which parameters to return: those of the "best" lane of every seed by every set, of
            "all" lanes or of "none".
        memory: bytes for the lanes in training; by default half of the machine's memory, or four
            fifths of an accelerator's. Lanes that do not fit are trained after the others. With a
            mesh, the bytes on each device.
        workers: chunks of lanes trained at a time, each in a thread; by default one per core, or
            one on an accelerator or with a mesh.
        mesh: a `jax.sharding.Mesh`, such as `jax.make_mesh((jax.device_count(),), ("lanes",))`,
            over whose devices the lanes are spread, whatever its axes are; each device has a copy
            of the data. The mesh may reach over several processes: all of them make the same call
            and return the same result. None for JAX's default device.
        precision: of products, as for `jax.default_matmul_precision`: on a GPU, "highest" keeps
            float32 products from being rounded to TF32. None leaves JAX's setting.
        progress: called with (epochs done, epochs in all), summed over the lanes, at the start and
            about twenty times per chunk; `TimeLeft(print)` tells the time left.
        key: for the order of the mini-batches; needed when `batch_size` is given.

    Returns:
        The table of all lanes, their curves, the best lane by any set, and whether it lies on the
        grid's edge. Lanes whose loss or parameters are no longer finite are marked diverged;
        `diverged_epoch` is nan for the others.

    Raises:
        ValueError: an empty grid, a `batch_size` above the number of samples, a `memory` that no
            lane fits into, ragged or non-finite data, a missing `key`, a loss that is no scalar,
            a set in `evaluate` that the loss does not take, or best="largest" without a `metric`.
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
    rates = checks.numbers(learning_rates, "learning_rates", allow_zero=False)
    decays = checks.numbers(weight_decays, "weight_decays", allow_zero=True)
    replicates = checks.seed_numbers(seeds)
    check_count(epochs, "epochs")
    checks.check_momentum(momentum)
    checks.check_optimizer(optimizer)
    if key is not None:
        check_key(key)
    check_name(keep, ["best", "all", "none"], "keep")
    checks.check_best(best, metric)
    times = checks.evaluation_times(evaluate_every, epochs)
    scale = checks.rate_scale(drops or {}, epochs)
    mesh = check_mesh(mesh)
    workers = workers_of(workers, mesh)
    memory = memory_per_device(mesh) if memory is None else memory
    check_positive(memory, "memory")
    rule = TorchSGD(float(momentum)) if optimizer is None else OptaxRule(optimizer)
    problem = Problem(
        *(loss, metric or loss, rule, params, data, checks.check_sets(evaluate)),
        *(trained, params_axes, data_axes),
    )
    plan, shared = problem.set_up(rates, decays, scale, replicates, key=key)
    checks.check_batches(batch_size, plan.samples, key)
    plan = plan._replace(batch_size=batch_size, mesh=mesh)
    with checks.products_of(precision):
        plan, tiling, need = fit_memory(plan, shared, memory, workers)
        meter = Meter(progress, epochs * len(replicates) * len(rates) * len(decays))
        record = Record(plan, shared, times, keep, best)
        run_chunks(plan, shared, tiling, need, record, workers=workers, meter=meter)
    return record.result(rates, decays, replicates)


def run_chunks(
    plan: Plan,
    shared: Shared,
    tiling: Tiling,
    need: Need,
    record: Record,
    *,
    workers: int,
    meter: Meter,
) -> None:
    """Train every chunk to the end."""
    if plan.mesh is not None:
        shared = place(shared, along(plan.mesh, None))
    programs, stop = compile_programs(plan, shared, tiling, need), threading.Event()
    # All before the first is trained: processes must do what they do together in one order.
    together = list(tiling if plan.mesh is None else waves(tiling, plan.mesh))
    meter.add(0)
    with ThreadPoolExecutor(workers) as pool:
        train = partial(_train, programs, shared, record, meter, stop)
        chunks = [pool.submit(train, chunk) for chunk in together]
        try:
            wait(chunks, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()  # after an error the others would train to their end before it is seen
    for chunk in chunks:
        chunk.result()  # raises the error


def _train(
    programs: Programs,
    shared: Shared,
    record: Record,
    meter: Meter,
    stop: threading.Event,
    chunk: Chunk | Wave,
) -> None:
    """Train one chunk from start to end, evaluating it on the way; give up on `stop`."""
    state = programs.start(shared, chunk.rows, chunk.columns)
    epochs, done = shared.scale.shape[0], 0
    # Progress is reported after each of these.
    ends = {round(epochs * (i + 1) / _STRETCHES) for i in range(_STRETCHES)} | {*record.times}
    for last in sorted(ends - {0}):
        if stop.is_set():
            return
        span = np.int32(done), np.int32(last)
        state, alive = programs.advance(state, shared, chunk.rows, chunk.columns, *span)
        is_alive = np.any(to_host(alive))  # waits for the program
        if last in record.times:
            found = to_host(programs.evaluate(state.trained, shared, chunk.rows))
            for part, evaluation in chunk.parts(found):
                record.evaluated(part, last, *evaluation)
        if not is_alive:  # nothing is left to train
            break
        meter.add(chunk.lanes * (last - done))
        done = last
    if done < epochs:
        meter.add(chunk.lanes * (epochs - done))
    kept = None if record.keep == "none" else state.trained
    for part, (loss, trained) in chunk.parts(to_host((state.loss, kept))):
        record.trained(part, loss, trained)
