# SPDX-License-Identifier: Apache-2.0
"""What a probe looks at: the model, its start, and the rows and directions that are drawn once."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.core.summaries import counted
from unlazy.laziness.budgets import Budget, Sample, random_directions
from unlazy.laziness.measurements.targets import LossName, Targets, as_targets
from unlazy.laziness.probing.arrays import arrays_of, copied, filled, shapes_of
from unlazy.laziness.probing.notebook import Stored
from unlazy.laziness.subjects.choice import check_points, subject_of
from unlazy.laziness.subjects.jax_subject import JaxSubject
from unlazy.laziness.subjects.jax_watch import JaxWatch
from unlazy.laziness.subjects.pytorch.modules import is_torch_module
from unlazy.laziness.subjects.subject import Subject
from unlazy.laziness.subjects.watch import Watch

_OUTPUTS = "outputs at the start"  # beside the parameters in the file of the start
_FORMAT = 1


@dataclass(frozen=True)
class Look:
    """How a probe looks at a model."""

    rows: int
    directions: int
    order: int
    loss: LossName
    trained: Any
    memory: int | float | None
    seed: int


class Watched:
    """A model with the start of its training, ready to be looked at."""

    def __init__(self, f: Any, start: Any, x: Any, y: Any, look: Look, stored: Stored | None):
        """Check everything, and look at the start, which is the stored one if there is one."""
        x = x if hasattr(x, "shape") else np.asarray(x)  # a list
        self.x, self.y, self.look = x, y, look
        self._module = f if is_torch_module(f) else None
        self.f = f if self._module is None else _evaluated(f)
        self.start = self.params(start, "params_start")
        if stored is not None:
            _check_shapes(stored.about, shapes_of(self.start))
            self.start = filled(self.start, stored.start)
        memory = int(Budget.of(1.0, look.memory).memory)
        subject = subject_of(self.f, self.start, x, trained=look.trained, memory=memory)
        check_points(subject, self.start, self.start)
        self.sample = _sampled(subject, self.start, x, look)
        self.targets: Targets | None = None
        if y is not None:
            targets = as_targets(y, len(x), len(self.sample.directions), loss=look.loss)
            self.targets = targets.at(self.sample.rows)
        self._subject, rows = subject, x[self.sample.rows]
        if stored is not None:
            _check_about(stored.about, self.about())
        self.watch = _watch(subject, self.start, rows, self.sample.directions, look.order)
        self.at_start = self.watch.see(self.start)
        if stored is not None:
            _check_outputs(stored.start[_OUTPUTS], self.at_start.outputs)

    def params(self, given: Any, name: str = "params") -> Any:
        """A copy of the parameters given; for a module, None means its own."""
        if self._module is not None:
            from unlazy.laziness.subjects.pytorch.state import as_mapping

            return copied(as_mapping(self._module if given is None else given, name))
        if given is None:
            raise ValueError(
                f"`{name}` must be the parameters of `f`, got None. Only a torch.nn.Module holds "
                "its own."
            )
        return copied(given)

    def about(self) -> dict[str, Any]:
        """What identifies the model and the data, for JSON."""
        labels = None if self.targets is None else _digest(self.targets.columns)
        return {
            "format": _FORMAT,
            "params": shapes_of(self.start),
            "trained": sorted(self._subject.weights(self.start)),
            "x": _digest(arrays_of(self.x[self.sample.rows])[""]),
            "y": labels,
            "rows": len(self.sample.rows),
            "directions": self.sample.directions.shape[1],
            "order": self.look.order,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The start as a file keeps it."""
        return arrays_of(self.start) | {_OUTPUTS: self.at_start.outputs}

    def in_words(self) -> str:
        """The model and the data."""
        size = sum(value.size for value in self._subject.weights(self.start).values())
        return (
            f"Probe of a model with {counted(size, 'parameter')}, {self._subject.where}, on "
            f"{self.sample.kernels_in_words()}"
        )


def _evaluated(module: Any) -> Any:
    from unlazy.laziness.subjects.pytorch.watch import evaluated  # PyTorch is there by now

    return evaluated(module)


def _sampled(subject: Subject, start: Any, x: Any, look: Look) -> Sample:
    n, rng = len(x), np.random.default_rng(look.seed)
    rows = np.arange(n) if n <= look.rows else np.sort(rng.permutation(n)[: look.rows])
    c = subject.outputs(start, x[:2]).shape[1]
    return Sample(rows, rows, random_directions(c, min(look.directions, c), rng), n)


def _watch(subject: Subject, start: Any, x: Any, directions: np.ndarray, order: int) -> Watch:
    if isinstance(subject, JaxSubject):
        return JaxWatch(subject, start, x, directions, order)
    from unlazy.laziness.subjects.pytorch.watch import TorchSubject, TorchWatch

    assert isinstance(subject, TorchSubject)
    return TorchWatch(subject, start, x, directions, order)


def _digest(array: np.ndarray) -> str:
    head = f"{array.dtype} {array.shape} ".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


def _check_shapes(about: dict[str, Any], ours: dict[str, list[Any]]) -> None:
    """Raise unless the folder is about a model with these parameters."""
    theirs = about.get("params")
    theirs = theirs if isinstance(theirs, dict) else {}
    for path in [*ours, *theirs]:
        if ours.get(path) != theirs.get(path):
            raise ValueError(
                "`folder` must hold the records of this model, got those of another: "
                f"{_kind(theirs.get(path))} at {path}, not {_kind(ours.get(path))}. "
                "Use another folder."
            )


def _kind(found: list[Any] | None) -> str:
    return "nothing" if found is None else f"{found[0]}{found[1:]}"


def _check_about(about: dict[str, Any], ours: dict[str, Any]) -> None:
    """Raise unless the folder is about these data, looked at in this way."""
    for name, value in ours.items():
        if about.get(name) != value:
            shown = "" if name in ("params", "trained", "x", "y") else (
                f", {about.get(name)} and not {value}"
            )  # fmt: skip
            raise ValueError(
                f"`folder` must hold the records of a probe like this one, got one with another "
                f"`{name}`{shown}. Use another folder."
            )


def _check_outputs(theirs: np.ndarray, ours: np.ndarray) -> None:
    """Raise unless the model gives the outputs that it gave when the folder was begun."""
    scale = float(np.max(np.abs(theirs)))
    if theirs.shape != ours.shape or not np.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * scale):
        raise ValueError(
            "`f` must be the model of the records in `folder`, got other outputs at the start that "
            "is stored there. Use another folder."
        )
