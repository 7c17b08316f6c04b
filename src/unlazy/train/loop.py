# SPDX-License-Identifier: Apache-2.0
"""The one loop under every trainer: chunks of steps in `lax.scan`, recorded, stoppable."""

import math
import warnings
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from unlazy.core.checks import check_count
from unlazy.core.convolutions import looped
from unlazy.core.current import program_of
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.core.loss_calls import hashable
from unlazy.train.history import History, Outcome
from unlazy.train.stopping import StopRule

Progress = Callable[[int, int], None]  # steps done, steps in all
Record = Callable[[Any], Array]  # of the parameters
_CHUNKS = 50  # how often a run comes up for air: progress, stop rules and divergence are seen then


@runtime_checkable
class Stepper(Protocol):
    """One way of training. Hashable, because the compiled chunk is cached on it."""

    def step(self, state: Any, data: Any) -> tuple[Float[Array, ""], Any]:
        """The loss at `state`, and the state one step further."""
        ...

    def params(self, state: Any, data: Any) -> Any:
        """The parameters that belong to `state`."""
        ...


class _Carry(NamedTuple):
    state: Any
    step: Int[Array, ""]
    first_loss: Float[Array, ""]
    running: Bool[Array, ""]
    finite: Bool[Array, ""]


class _Row(NamedTuple):
    step: Int[Array, ""]
    loss: Float[Array, ""]
    valid: Bool[Array, ""]  # false once the run has ended
    records: dict[str, Array]


class _Plan(NamedTuple):
    """What is compiled into a chunk; hashable."""

    stepper: Stepper
    stop: StopRule | None
    record: tuple[tuple[str, Record], ...]
    record_every: int
    program: Hashable = None  # of a step, as the functions above are now
    rows: int = 0  # recorded rows in a chunk


def run_loop(
    stepper: Stepper,
    state: Any,
    data: Any,
    *,
    steps: int,
    record: Mapping[str, Record] | None = None,
    record_every: int = 1,
    stop: StopRule | None = None,
    progress: Progress | None = None,
) -> History:
    """Take `steps` steps from `state`; see `fit` for the arguments."""
    check_count(steps, "steps", least=0)
    check_count(record_every, "record_every")
    record_every = min(record_every, max(steps, 1))
    # A power of two, so that runs of similar length share one compiled chunk.
    rows = 2 ** max(0, math.ceil(math.log2(max(1, steps / record_every) / _CHUNKS)))
    measures = _Plan(stepper, stop, _named(record or {}), record_every)
    measures = measures._replace(program=program_of(partial(_called, measures), state, data))
    plan = measures._replace(rows=rows)
    carry = _start(measures, state, data)
    if not bool(jnp.isfinite(carry.first_loss)):
        raise ValueError(
            f"The loss must be finite at the start, got loss={carry.first_loss}. "
            "Look for nan, inf or huge values in `params` and `data`."
        )
    boundaries, chunks = [carry], []
    while int(carry.step) < steps and bool(carry.running):
        carry, recorded = _chunk(plan, carry, data, jnp.asarray(steps))
        chunks.append(jax.device_get(recorded))
        # Three, because a chunk that ends where the loss overflows leaves that to the next to see.
        boundaries = [*boundaries[-2:], carry]
        if progress is not None:
            progress(int(carry.step), steps)
    last = jax.device_get(_closing_row(measures, carry, data))
    if not np.isfinite(last.loss):
        carry = _last_finite(plan, boundaries, int(last.step), data, steps)
    return _history(plan, chunks, last, carry, data, steps)


def _called(plan: _Plan, state: Any, data: Any) -> tuple[Any, ...]:
    """All that a step calls, once: its trace shows what the functions of the plan read."""
    loss, following = plan.stepper.step(state, data)
    stopped = None if plan.stop is None else plan.stop(loss, loss)
    return loss, following, stopped, _measure(plan, state, data)


def _named(record: Mapping[str, Record]) -> tuple[tuple[str, Record], ...]:
    return tuple((name, hashable(record[name])) for name in sorted(record))


def _last_finite(
    plan: _Plan, boundaries: list[_Carry], diverged_at: int, data: Any, steps: int
) -> _Carry:
    """The state one step before the loss was no longer finite, computed once more.

    Keeping it on the way would cost every run a copy of the parameters at every step.
    """
    warnings.warn(
        f"The loss is no longer finite at step {diverged_at} of {steps}: training diverged. The "
        f"parameters returned are those of step {diverged_at - 1}. Lower the learning rate.",
        UnlazyWarning,
        stacklevel=user_level(),
    )
    start = next(carry for carry in reversed(boundaries) if int(carry.step) < diverged_at)
    return _chunk(plan, start, data, jnp.asarray(diverged_at - 1))[0]


@partial(jax.jit, static_argnums=0)
def _start(plan: _Plan, state: Any, data: Any) -> _Carry:
    loss, _ = plan.stepper.step(state, data)
    true = jnp.ones((), bool)
    return _Carry(state, jnp.zeros((), int), loss, true, true)


@partial(jax.jit, static_argnums=0)
def _chunk(plan: _Plan, carry: _Carry, data: Any, steps: Int[Array, ""]) -> tuple[_Carry, _Row]:
    def one_step(carry: _Carry, _: None) -> tuple[_Carry, Array]:
        loss, following = plan.stepper.step(carry.state, data)
        finite = carry.finite & (jnp.isfinite(loss) | (carry.step >= steps))
        stopped = jnp.zeros((), bool) if plan.stop is None else plan.stop(loss, carry.first_loss)
        go = carry.running & finite & ~stopped & (carry.step < steps)
        # Frozen by selection, not by a conditional: a run that has ended costs the rest of its
        # chunk, and nothing waits for the host.
        state = jax.tree.map(partial(jnp.where, go), following, carry.state)
        running = carry.running & finite & ~stopped
        return _Carry(state, carry.step + go.astype(int), carry.first_loss, running, finite), loss

    def one_row(carry: _Carry, _: None) -> tuple[_Carry, _Row]:
        valid = carry.running & (carry.step < steps)
        records = _measure(plan, carry.state, data)
        after, losses = jax.lax.scan(one_step, carry, None, length=plan.record_every)
        return after, _Row(carry.step, losses[0], valid, records)

    return jax.lax.scan(looped(one_row), carry, None, length=plan.rows)


def _measure(plan: _Plan, state: Any, data: Any) -> dict[str, Array]:
    if not plan.record:
        return {}
    params = plan.stepper.params(state, data)
    return {name: jnp.asarray(function(params)) for name, function in plan.record}


@partial(jax.jit, static_argnums=0)
def _closing_row(plan: _Plan, carry: _Carry, data: Any) -> _Row:
    loss, _ = plan.stepper.step(carry.state, data)
    return _Row(carry.step, loss, jnp.ones((), bool), _measure(plan, carry.state, data))


def _history(
    plan: _Plan,
    chunks: list[_Row],
    last: _Row,
    carry: _Carry,
    data: Any,
    steps: int,
) -> History:
    last = jax.tree.map(lambda leaf: np.asarray(leaf)[None], last)
    rows = jax.tree.map(lambda *leaves: np.concatenate(leaves), *chunks, last)
    # The end is in `last`; a row of the chunk that started there would be there twice.
    keep = rows.valid & (rows.step < last.step[0])
    keep[-1] = True
    rows = jax.tree.map(lambda leaf: leaf[keep], rows)
    end = int(last.step[0])
    diverged = not np.isfinite(last.loss[0])
    outcome: Outcome = "diverged" if diverged else "completed" if end == steps else "stopped"
    return History(
        params=plan.stepper.params(carry.state, data),
        final_step=int(carry.step),
        outcome=outcome,
        steps=rows.step.astype(np.int64),
        loss=rows.loss,
        records=rows.records,
    )
