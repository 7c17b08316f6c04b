# SPDX-License-Identifier: Apache-2.0
"""Trains the chunks of a grid, several at a time where the device is a processor of several cores.

XLA runs the small products of a step on one core; two chunks in two threads use two. What a chunk
computes does not depend on who else is at work, so results are the same for any number of threads.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from unlazy.core.compiling import compiled
from unlazy.core.turns import TURNS
from unlazy.train.grid.chunks import Chunk, Tiling
from unlazy.train.grid.divergence import diverged_epoch, without_diverged
from unlazy.train.grid.memory import Need
from unlazy.train.grid.pace import Pace
from unlazy.train.grid.program import Evaluation, Plan, Shared, State, advance, evaluate, start
from unlazy.train.grid.progress import Meter

_STRETCHES = 20  # how often a chunk reports progress

# Compiled ahead and called from threads, in which the user's scoped settings of JAX do not hold.
_start = jax.jit(start, static_argnums=0)
_advance = jax.jit(advance, static_argnums=0, donate_argnums=1)
_evaluate = jax.jit(evaluate, static_argnums=0)

# Bytes moved in all of training, some five seconds of it, from which on tuning pays: without it
# they would be seven or more, and it keeps all that shares the device waiting for two or three.
_MUCH_WORK = 2**44


class Programs(NamedTuple):
    """The compiled programs for one shape of chunk."""

    start: Callable[..., State]
    advance: Callable[..., tuple[State, Any]]
    evaluate: Callable[..., Evaluation]


class Trained(NamedTuple):
    """What a chunk gives; lanes that only fill its shape are cut off."""

    chunk: Chunk
    loss: Float[np.ndarray, "epochs r g"]
    values: Float[np.ndarray, "sets times r g"]
    diverged_epoch: Int[np.ndarray, "r g"]
    kept: dict[tuple[int, int], Any]  # trained parameters by (seed, setting)


KeepRule = Literal["best", "all", "none"]


def default_workers() -> int:
    """The cores that this process may use, or one where there is an accelerator."""
    if jax.devices()[0].platform != "cpu":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compile_programs(plan: Plan, shared: Shared, tiling: Tiling, need: Need) -> Programs:
    """The programs of `tiling`'s chunks, compiled side by side, on an accelerator as well."""
    rows = jax.ShapeDtypeStruct((tiling.rows,), jnp.int32)
    columns = jax.ShapeDtypeStruct((tiling.columns,), jnp.int32)
    epoch = jax.ShapeDtypeStruct((), jnp.int32)
    state = jax.eval_shape(partial(start, plan), shared, rows, columns)
    much = _bytes_moved(plan, shared, tiling, need) > _MUCH_WORK
    lowered = (
        (_start.lower(plan, shared, rows, columns), False),
        (_advance.lower(plan, state, shared, rows, columns, epoch, epoch), much),
        (_evaluate.lower(plan, state, shared, rows), False),
    )
    with ThreadPoolExecutor(len(lowered)) as pool:
        return Programs(*pool.map(lambda one: compiled(one[0], tuned=one[1]), lowered))


def _bytes_moved(plan: Plan, shared: Shared, tiling: Tiling, need: Need) -> int:
    """In all of training, if every value that is computed is written."""
    steps = shared.scale.shape[0] * (plan.samples // (plan.batch_size or plan.samples))
    return steps * tiling.seeds * tiling.settings * need.lane


def run_chunks(
    plan: Plan,
    shared: Shared,
    tiling: Tiling,
    need: Need,
    *,
    times: list[int],
    keep: KeepRule,
    workers: int,
    meter: Meter,
) -> list[Trained]:
    """Train every chunk to the end, evaluating after as many epochs as `times` say."""
    stop, failures = threading.Event(), []
    programs = compile_programs(plan, shared, tiling, need)
    meter.add(0)
    with ThreadPoolExecutor(workers) as pool:

        def train(chunk: Chunk) -> Trained:
            try:
                return _train(programs, shared, chunk, times, keep, meter, stop)
            except _StoppedError:
                raise
            except BaseException as error:
                failures.append(error)
                stop.set()  # else the others would train to their end before the error is seen
                raise

        try:
            return list(pool.map(train, tiling))
        except _StoppedError:  # of a chunk that comes before the one that failed
            raise failures[0] from None
        finally:
            stop.set()


def _train(
    programs: Programs,
    shared: Shared,
    chunk: Chunk,
    times: list[int],
    keep: KeepRule,
    meter: Meter,
    stop: threading.Event,
) -> Trained:
    with TURNS.running():
        state = programs.start(shared, chunk.rows, chunk.columns)
    epochs, reported, pace = shared.scale.shape[0], 0, Pace()
    ends = _stretches(epochs, times)
    values = np.full((len(shared.sets), len(times), chunk.seeds, chunk.settings), np.nan)
    sound = np.zeros(values.shape[1:], bool)
    for first, last in pace.spans(ends):
        if stop.is_set():
            raise _StoppedError
        span = np.int32(first), np.int32(last)
        with TURNS.running():
            with pace.timed(last - first):
                state, alive = programs.advance(state, shared, chunk.rows, chunk.columns, *span)
                is_alive = bool(alive)  # which waits for it
            if last in times:
                found, time = programs.evaluate(state, shared, chunk.rows), times.index(last)
                values[:, time] = [_valid(value, chunk) for value in found.values]
                sound[time] = _valid(found.sound, chunk)
        if not is_alive:  # nothing is left to train
            break
        if last in ends:
            meter.add(chunk.lanes * (last - reported))
            reported = last
    if reported < epochs:
        meter.add(chunk.lanes * (epochs - reported))
    loss, ends = _valid(state.loss, chunk).astype(np.float64), np.asarray(times)
    epoch = diverged_epoch(loss, sound, ends)
    loss, values = without_diverged(loss, values, epoch, ends)
    return Trained(chunk, loss, values, epoch, _kept(state.trained, chunk, keep, values[:, -1]))


class _StoppedError(Exception):
    """Another chunk failed; the result of this one is not wanted."""


def _stretches(epochs: int, times: list[int]) -> list[int]:
    """Ends of the stretches that end by a report of progress: all times, and some more."""
    ends = {round(epochs * (i + 1) / _STRETCHES) for i in range(_STRETCHES)}
    return sorted((ends | set(times)) - {0})


def _valid(array: Any, chunk: Chunk) -> np.ndarray:
    return np.asarray(array)[..., : chunk.seeds, : chunk.settings]


def _kept(
    trained: Any, chunk: Chunk, keep: KeepRule, final: Float[np.ndarray, "sets r g"]
) -> dict[tuple[int, int], Any]:
    """The parameters that are asked for, on the host; of the best, one for each set and seed."""
    if keep == "none":
        return {}
    if keep == "all":
        chosen = {(i, j) for i in range(chunk.seeds) for j in range(chunk.settings)}
    else:
        scores = np.where(np.isfinite(final), final, np.inf)
        chosen = {(i, int(np.argmin(row))) for each in scores for i, row in enumerate(each)}
    trained = jax.tree.map(np.asarray, trained)
    return {
        (int(chunk.rows[i]), int(chunk.columns[j])): jax.tree.map(
            lambda leaf, i=i, j=j: leaf[i, j].copy(), trained
        )
        for i, j in sorted(chosen)
    }
