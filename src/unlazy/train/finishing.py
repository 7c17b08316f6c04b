# SPDX-License-Identifier: Apache-2.0
"""The common loop for methods that know themselves when they are done."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from unlazy.train.history import History
from unlazy.train.loop import Progress, Record, run_loop
from unlazy.train.stopping import StopRule


@runtime_checkable
class FinishingStepper(Protocol):
    """A `Stepper` whose state says when there is nothing left to do."""

    def step(self, state: Any, data: Any) -> tuple[Float[Array, ""], Any]:
        """The loss at `state`, and the next state; its parameters the same where it finishes."""
        ...

    def params(self, state: Any, data: Any) -> Any:
        """The parameters that belong to `state`."""
        ...

    def finished(self, state: Any) -> Bool[Array, ""]:
        """Whether the step that led to `state` found that it was not needed."""
        ...


class _State(NamedTuple):
    inner: Any
    loss: Float[Array, ""]  # at the end, once finished
    finished: Bool[Array, ""]
    taken: Int[Array, ""]


class _Snapshot(NamedTuple):
    """What the loop takes for parameters: they and all that is read off the end."""

    params: Any
    state: _State


@dataclass(frozen=True)
class _Finishing:
    stepper: FinishingStepper

    def step(self, state: _State, data: Any) -> tuple[Float[Array, ""], _State]:
        def advance() -> tuple[Float[Array, ""], _State]:
            loss, inner = self.stepper.step(state.inner, data)
            loss = loss.astype(state.loss.dtype)
            finished = self.stepper.finished(inner)
            return loss, _State(inner, loss, finished, state.taken + (~finished).astype(int))

        # The loop goes on to its last step; what is left after the end must cost nothing.
        return jax.lax.cond(state.finished, lambda: (state.loss, state), advance)

    def params(self, state: _State, data: Any) -> _Snapshot:
        return _Snapshot(self.stepper.params(state.inner, data), state)


@dataclass(frozen=True)
class _OfParams:
    """A record of the parameters; equal for equal functions, so that nothing compiles twice."""

    function: Record

    def __call__(self, snapshot: _Snapshot) -> Array:
        return self.function(snapshot.params)


class Finish(NamedTuple):
    """A history, and the stepper's own state at its end."""

    history: History
    state: Any


def run_to_finish(
    stepper: FinishingStepper,
    state: Any,
    data: Any,
    *,
    steps: int,
    record: Mapping[str, Record] | None = None,
    record_every: int = 1,
    stop: StopRule | None = None,
    progress: Progress | None = None,
) -> Finish:
    """`run_loop`, ended with outcome "stopped" where the stepper finishes."""
    loss, _ = jax.eval_shape(stepper.step, state, data)
    false, zero = jnp.zeros((), bool), jnp.zeros((), int)
    history = run_loop(
        _Finishing(stepper),
        _State(state, jnp.zeros((), loss.dtype), false, zero),
        data,
        steps=steps,
        record={name: _OfParams(function) for name, function in (record or {}).items()},
        record_every=record_every,
        stop=stop,
        progress=progress,
    )
    snapshot: _Snapshot = history.params
    return Finish(_trimmed(history, snapshot), snapshot.state.inner)


def _trimmed(history: History, snapshot: _Snapshot) -> History:
    end, finished = int(snapshot.state.taken), bool(snapshot.state.finished)
    if not finished or history.outcome == "diverged":
        return _with(history, snapshot.params, history.final_step, history.outcome, slice(None))
    # The last row is the end, under the number of the loop's own last step.
    rows = np.append(np.flatnonzero(history.steps[:-1] < end), len(history.steps) - 1)
    trimmed = _with(history, snapshot.params, end, "stopped", rows)
    trimmed.steps[-1] = end
    return trimmed


def _with(history: History, params: Any, end: int, outcome, rows) -> History:
    return History(
        params=params,
        final_step=end,
        outcome=outcome,
        steps=history.steps[rows].copy(),
        loss=history.loss[rows],
        records={name: values[rows] for name, values in history.records.items()},
    )
