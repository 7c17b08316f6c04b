# SPDX-License-Identifier: Apache-2.0
"""A whole grid of training runs, compiled once.

A lane is one run: one seed, one learning rate, one weight decay. From the outside in:

- `fit_grid` checks its arguments and cuts the grid into chunks of lanes that fit the memory.
- `run_chunks` trains the chunks, several at a time where the device is a processor of several
  cores: XLA runs the small products of a step on one core, and two chunks in two threads use two.
  What a chunk computes does not depend on the others.
- `advance` is the compiled program: a loop over epochs of a `vmap` over seeds of a `scan` over
  mini-batches of a `vmap` over settings. Settings are mapped inside seeds, so that all settings
  of a seed see the same inputs and a product with them is one plain product.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_name, check_positive
from unlazy.core.compiling import compiled
from unlazy.core.current import program_of
from unlazy.core.entries import entry
from unlazy.core.loss_calls import Loss, check_loss_call
from unlazy.core.machine import default_memory
from unlazy.core.trained import Trained
from unlazy.train.grid import checks
from unlazy.train.grid.evaluation import Evaluation, KeepRule, Record, evaluate
from unlazy.train.grid.memory import Chunk, Need, Tiling, default_workers, fit_memory
from unlazy.train.grid.problem import Axes, Plan, Problem, Shared, first_lane, of_seeds, over_seeds
from unlazy.train.grid.progress import Meter
from unlazy.train.grid.result import GridResult, Preferred
from unlazy.train.grid.rules import OptaxRule, OptimizerFactory, TorchSGD, epoch_order
from unlazy.train.loop import Progress

Numbers = Sequence[int | float] | Float[Array | np.ndarray, " values"]

_STRETCHES = 20  # how often a chunk reports progress

# Bytes moved in all of training, some five seconds of it, from which on tuning pays: tuning takes
# two or three seconds, and without it training would take seven or more.
_MUCH_WORK = 2**44


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
    best: Preferred = "smallest",
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
            fifths of an accelerator's. Lanes that do not fit are trained after the others.
        workers: chunks of lanes trained at a time, each in a thread; by default one per core, or
            one on an accelerator.
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
    workers = default_workers() if workers is None else workers
    check_count(workers, "workers")
    memory = default_memory() if memory is None else memory
    check_positive(memory, "memory")
    rule = TorchSGD(float(momentum)) if optimizer is None else OptaxRule(optimizer)
    problem = Problem(
        *(loss, metric or loss, rule, params, data, checks.check_sets(evaluate)),
        *(trained, params_axes, data_axes),
    )
    plan, shared = problem.set_up(rates, decays, scale, replicates, key=key)
    checks.check_batches(batch_size, plan.samples, key)
    plan = plan._replace(batch_size=batch_size)
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
    programs, stop = compile_programs(plan, shared, tiling, need), threading.Event()
    meter.add(0)
    with ThreadPoolExecutor(workers) as pool:
        train = partial(_train, programs, shared, record, meter, stop)
        chunks = [pool.submit(train, chunk) for chunk in tiling]
        try:
            wait(chunks, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()  # after an error the others would train to their end before it is seen
    for chunk in chunks:
        chunk.result()  # raises the error


def _train(
    programs: "Programs",
    shared: Shared,
    record: Record,
    meter: Meter,
    stop: threading.Event,
    chunk: Chunk,
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
        is_alive = bool(alive)  # waits for the program
        if last in record.times:
            record.evaluated(chunk, last, *programs.evaluate(state.trained, shared, chunk.rows))
        if not is_alive:  # nothing is left to train
            break
        meter.add(chunk.lanes * (last - done))
        done = last
    if done < epochs:
        meter.add(chunk.lanes * (epochs - done))
    record.trained(chunk, state.loss, state.trained)


class Programs(NamedTuple):
    """The compiled programs for one shape of chunk."""

    start: Callable[..., "State"]
    advance: Callable[..., tuple["State", Any]]
    evaluate: Callable[..., Evaluation]


def compile_programs(plan: Plan, shared: Shared, tiling: Tiling, need: Need) -> Programs:
    """The programs of `tiling`'s chunks, compiled side by side, on an accelerator as well.

    They are called from threads, in which the user's scoped settings of JAX do not hold.
    """
    rows = jax.ShapeDtypeStruct((tiling.rows,), jnp.int32)
    columns = jax.ShapeDtypeStruct((tiling.columns,), jnp.int32)
    epoch = jax.ShapeDtypeStruct((), jnp.int32)
    state = jax.eval_shape(partial(start, plan), shared, rows, columns)
    arguments = state, shared, rows, columns, epoch
    plan = plan._replace(program=program_of(partial(_called, plan), *arguments))
    steps = shared.scale.shape[0] * (plan.samples // (plan.batch_size or plan.samples))
    much = steps * tiling.seeds * tiling.settings * need.lane > _MUCH_WORK
    lowered = (
        (_start.lower(plan, shared, rows, columns), False),
        (_advance.lower(plan, state, shared, rows, columns, epoch, epoch), much),
        (_evaluate.lower(plan, state.trained, shared, rows), False),
    )
    with ThreadPoolExecutor(len(lowered)) as pool:
        return Programs(*pool.map(lambda one: compiled(one[0], tuned=one[1]), lowered))


def _called(plan: Plan, state: Any, shared: Shared, rows: Any, columns: Any, epoch: Any) -> Any:
    """All three programs at once: their trace shows what the functions of the plan read."""
    return (
        start(plan, shared, rows, columns),
        advance(plan, state, shared, rows, columns, epoch, epoch),
        evaluate(plan, state.trained, shared, rows),
    )


class State(NamedTuple):
    """A chunk in training; its first two axes are seeds and settings."""

    trained: Any
    rule: Any
    loss: Float[Array, "epochs r g"]  # mean over the batches of the epoch; nan where none was


def start(plan: Plan, shared: Shared, rows: Int[Array, " r"], columns: Int[Array, " g"]) -> State:
    """Every lane of a seed at that seed's parameters."""

    def lane(trained: Any, lr: Array, wd: Array) -> tuple[Any, Any]:
        return trained, plan.rule.init(trained, lr, wd)

    def loss() -> Array:
        trained, frozen, leaves = first_lane(plan, shared)
        return plan.loss_of(trained, frozen, jax.tree.unflatten(plan.structure, leaves))

    over_settings = jax.vmap(lane, in_axes=(None, 0, 0))
    trained = jax.tree.map(lambda leaf: leaf[rows], shared.trained)
    trained, rule = jax.vmap(over_settings, in_axes=(0, None, None))(
        trained, shared.lr[columns], shared.wd[columns]
    )
    shape = (shared.scale.shape[0], rows.shape[0], columns.shape[0])
    return State(trained, rule, jnp.full(shape, jnp.nan, jax.eval_shape(loss).dtype))


def advance(
    plan: Plan,
    state: State,
    shared: Shared,
    rows: Int[Array, " r"],
    columns: Int[Array, " g"],
    first: Int[Array, ""],
    last: Int[Array, ""],
) -> tuple[State, Bool[Array, ""]]:
    """Train the epochs from `first` up to `last`, which is not among them.

    Both are traced: one program serves every stretch of the training. Also returns whether the loss
    of any lane was finite in the last of them.
    """
    lr, wd = shared.lr[columns], shared.wd[columns]
    frozen = of_seeds(shared.frozen, plan.layout.frozen_axes, rows)
    data, keys = of_seeds(shared.data, plan.data_axes, rows), shared.keys[rows]

    def epoch(number: Array, state: State) -> State:
        def of_seed(trained, rule, frozen, data, key):
            batches = _batches(plan, data, key, number)
            return _epoch(plan, trained, rule, frozen, batches, lr * shared.scale[number], wd)

        axes = (0, 0, list(plan.layout.frozen_axes), list(plan.data_axes), 0)
        trained, rule, loss = over_seeds(of_seed, axes, len(rows))(
            state.trained, state.rule, frozen, data, keys
        )
        return State(trained, rule, state.loss.at[number].set(loss))

    state = jax.lax.fori_loop(first, last, epoch, state)
    return state, jnp.any(jnp.isfinite(state.loss[last - 1]))


def _epoch(plan: Plan, trained: Any, rule: Any, frozen: list[Array], batches, lr, wd):
    """One epoch of all settings of a seed: a scan over its batches."""

    def lane(trained, rule, lr, wd, batch):
        def objective(trained: Any) -> Array:
            return plan.loss_of(trained, frozen, batch)

        loss, gradient = jax.value_and_grad(objective)(trained)
        return *plan.rule.update(trained, gradient, rule, lr, wd), loss

    def step(carry, leaves):
        if plan.own_batch:
            # A copy for each lane, on an accelerator: then a product leaves its result in the order
            # of lanes that the next one wants, which saves a tenth of a step, or a fifth, in
            # transpositions. Without the barrier XLA would see that the copies are one.
            copies = [jnp.broadcast_to(leaf, (len(lr), *leaf.shape)) for leaf in leaves]
            leaves = jax.lax.optimization_barrier(copies)
        batch = jax.tree.unflatten(plan.structure, leaves)
        axes = (0, 0, 0, 0, 0 if plan.own_batch else None)
        *carry, loss = jax.vmap(lane, in_axes=axes)(*carry, lr, wd, batch)
        return tuple(carry), loss

    count = batches[0].shape[0] if batches else 1  # a loss of the parameters alone has no batches
    (trained, rule), losses = jax.lax.scan(step, (trained, rule), batches, length=count)
    return trained, rule, jnp.mean(losses, axis=0)


def _batches(plan: Plan, data: list[Array], key: Array, epoch: Array) -> list[Array]:
    """The data of an epoch, in its order, with a leading axis of batches."""
    if plan.batch_size is None:
        return [leaf[None] for leaf in data]
    count = plan.samples // plan.batch_size
    # Permuted once an epoch and then sliced: a gather in every step costs more than the step.
    order = epoch_order(key, epoch, plan.samples)[: count * plan.batch_size]
    return [leaf[order].reshape(count, plan.batch_size, *leaf.shape[1:]) for leaf in data]


_start = jax.jit(start, static_argnums=0)
_advance = jax.jit(advance, static_argnums=0, donate_argnums=1)
_evaluate = jax.jit(evaluate, static_argnums=0)
