# SPDX-License-Identifier: Apache-2.0
"""How lazily a model is training, measured while it trains: one call per epoch."""

import dataclasses
import os
import time
import warnings
from typing import Any

import numpy as np

from unlazy.core.checks import as_number, check_count, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.core.panels import Figure, SubFigure
from unlazy.laziness.diagnosis import diagnose
from unlazy.laziness.measurements.kernel_drift import total
from unlazy.laziness.measurements.targets import LossName
from unlazy.laziness.model_report import Report
from unlazy.laziness.probing.folder import Point
from unlazy.laziness.probing.history import ProbeHistory
from unlazy.laziness.probing.notebook import Notebook
from unlazy.laziness.probing.records import ProbeRecord, broken_record, record_of
from unlazy.laziness.probing.setting import Look, Watched


class Probe:
    r"""Watch how lazily a model trains, from within any training loop.

        probe = ul.Probe(f, params, x, y)
        for epoch in range(1, epochs + 1):
            params, state = train_one_epoch(params, state)
            print(probe(epoch, params))
        print(probe)
        probe.plot().savefig("laziness.png")

    A call compares the model with the start, on a few rows that are chosen once:

    $$\frac{\|\theta - \theta_0\|}{\|\theta_0\|}, \qquad \frac{\|K - K_0\|}{\|K_0\|}, \qquad
    1 - \frac{\langle HKH, HK_0H\rangle}{\|HKH\|\,\|HK_0H\|}, \qquad
    e_k = \frac{\|D - T_1 - \dots - T_k\|}{\|D\|}$$

    with K the tangent kernel along random directions of the outputs, H the projection that takes
    the mean over the rows out, D the change of the outputs and $T_k$ the Taylor terms at the start.
    It also records how far the kernel turned since the last call, its alignment with the labels,
    the share of ReLUs that switched, and loss and accuracy of the model and of its linear model.
    Every number is what `diagnose` says of the same rows and directions.

    A call takes about as long as five training steps on as many rows. What `f` reads from its
    surroundings is read when the probe is made, and compiled once. The probe keeps copies of the
    parameters at the start and at the last call, so that a loop may donate their memory.

    With `folder`, every record is on the disk before the call returns. A probe of the same model
    and data that is made with the same folder goes on from there: its start is the one that was
    stored, whatever `params_start` is. A call at a step that has a record replaces it, and all
    later ones, as when a training was taken up from an earlier checkpoint.

    Source: arXiv:1812.07956 for laziness, arXiv:2010.15110 for kernels along a training; BL-8,
    arXiv:1910.01619, for the terms.

    Args:
        f: the model: a function `f(params, x)` for a batch, or a `torch.nn.Module`, of which a copy
            in evaluation mode is examined. `laziness.from_equinox`, `from_linen` and `from_nnx`
            make such functions.
        params_start: the parameters at the start; for a module its state, or None for the state
            that it is in.
        x: samples along the first axis, 2 at least.
        y: labels, as `diagnose` takes them; None leaves out what needs them.
        trained: which parameters count, as for `nets.partition`; None for all.
        rows: how many samples are looked at, drawn once.
        directions: how many random directions of the outputs the kernel is measured along, which
            is what a call costs most for. As many as there are outputs or more give the kernel
            summed over all outputs; of a single direction it turns further (on a CNN for digits
            by half more, with four by a tenth).
        order: the last Taylor term, 1 to 6.
        loss: as for `diagnose`.
        step: the number of the start.
        folder: where records are kept; None for none.
        keep_params: whether the parameters of every call are kept, in the folder, or in memory
            without one, for the velocity in `report`.
        memory: bytes for gradients; None for a part of what is free.
        seed: of rows and directions.

    Raises:
        ValueError: arguments do not fit each other, as for `diagnose`; the folder holds the records
            of another model or of other data.
        DataFileError: a file in the folder is damaged; it is named.

    Example:
        >>> import jax.numpy as jnp
        >>> x = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
        >>> probe = Probe(lambda w, x: (x @ w) ** 2, jnp.ones(3), x)
        >>> print(probe(1, 1.5 * jnp.ones(3)))
        step 1: moved 0.5, kernel 1.3 (turned 0), velocity 0, linear model misses 0.2
    """

    @entry
    def __init__(
        self,
        f: Any,
        params_start: Any,
        x: Any,
        y: Any = None,
        *,
        trained: Any = None,
        rows: int = 64,
        directions: int = 4,
        order: int = 1,
        loss: LossName = "auto",
        step: int | float = 0,
        folder: str | os.PathLike[str] | None = None,
        keep_params: bool = False,
        memory: int | float | None = None,
        seed: int = 0,
    ) -> None:
        check_count(rows, "rows", least=2)
        check_count(directions, "directions")
        check_count(order, "order", most=6)
        check_name(loss, ("auto", "cross-entropy", "squared"), "loss")
        if memory is not None:
            check_positive(memory, "memory")
        look = Look(rows, directions, order, loss, trained, memory, seed)
        self._notebook = Notebook(folder, keep_params=bool(keep_params))
        self._watched = Watched(f, params_start, x, y, look, self._notebook.stored())
        self._notebook.open(self._watched.about(), self._watched.arrays())
        self._last: Any = None  # parameters at the last call
        self._has_warned = False
        if not self._notebook.points:
            self._add(self._measured(_as_step(step), self._watched.start))

    @entry
    def __call__(self, step: int | float, params: Any = None) -> ProbeRecord:
        """Measure the model, keep the record and return it.

        Args:
            step: a number that grows with the training, such as that of the epoch.
            params: the parameters now, in the structure of the start; of PyTorch the module, its
                state, or None for the module that was given.

        Raises:
            ValueError: the parameters have another structure; the path is named.
        """
        step, begin = _as_step(step), time.perf_counter()
        params = self._watched.params(params)
        point = self._measured(step, params)
        if point.kernel is not None:
            self._last = params
        record = dataclasses.replace(point.record, seconds=time.perf_counter() - begin)
        self._add(point._replace(record=record), params)
        return record

    def _measured(self, step: int | float, params: Any) -> Point:
        watched = self._watched
        squares = watched.watch.squares(params)
        broken = next((p for p, s in squares.items() if not np.isfinite(s.change)), None)
        if broken is not None:
            note = f"nan or inf at {broken}"
            self._warn(f"The parameters are not finite at step {step:g}: {note}.")
            return Point(broken_record(step, self._notebook.points[0].record, note), None)
        now = watched.watch.see(params)
        before = self._notebook.kernel_before(step)
        before = total(watched.at_start.kernels) if before is None else before
        record = record_of(step, squares, now, watched.at_start, before, watched.targets)
        if record.note:
            self._warn(f"At step {step:g} {record.note}.")
            return Point(record, None)
        return Point(record, total(now.kernels))

    def _add(self, point: Point, params: Any = None) -> None:
        dropped = self._notebook.add(point, params)
        if dropped:
            warnings.warn(
                f"{len(dropped)} records of later steps, up to {dropped[-1]:g}, were dropped: the "
                f"training was taken up again at step {point.record.step:g}.",
                UnlazyWarning,
                stacklevel=user_level(),
            )

    def _warn(self, text: str) -> None:
        """Say once that a training diverges; the loop goes on."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{text} The records say nan from here on.", UnlazyWarning, stacklevel=user_level()
            )

    @property
    def rows(self) -> np.ndarray:
        """The numbers of the samples that are looked at."""
        return self._watched.sample.rows

    @property
    def history(self) -> ProbeHistory:
        """All records, with that of the start."""
        return ProbeHistory(tuple(point.record for point in self._notebook.points))

    def __str__(self) -> str:
        """What is measured on, and a table with one line per record."""
        return f"{self._watched.in_words()}\n{self.history}"

    def __repr__(self) -> str:
        """In one line."""
        steps = [point.record.step for point in self._notebook.points]
        return f"Probe({len(steps)} records, steps {steps[0]:g} to {steps[-1]:g})"

    @entry
    def plot(self, figure: Figure | SubFigure | None = None) -> Figure:
        """Draw the records over the steps.

        Args:
            figure: an empty Figure or SubFigure to draw on; None for a new one.

        Returns:
            That figure. A report is no single panel: `probe.history.plot(ax)` draws columns on one.
        """
        from unlazy.laziness.probing.figure import history_figure

        return history_figure(self.history, figure)

    @entry
    def report(self, **options: Any) -> Report:
        """The full report between the start and the last call.

        Parameters that were kept on the way give the velocity of the kernel.

        Args:
            options: arguments of `diagnose` by name, such as `test`, `seconds` or `optimizer`.

        Raises:
            ValueError: no parameters are known beside the start.
        """
        watched, notebook = self._watched, self._notebook
        kept = notebook.kept_params(watched.start)
        if self._last is None and not kept:
            raise ValueError(
                "`probe` must have been called before its report, got none since it was made. "
                "Records in a folder hold parameters with keep_params=True alone."
            )
        *between, (_, end) = kept or [(0, self._last)]
        return diagnose(
            watched.f, watched.start, end, watched.x, watched.y,
            **({"trained": watched.look.trained, "order": max(watched.look.order, 3),
                "loss": watched.look.loss, "snapshots": between} | options),
        )  # fmt: skip


def _as_step(step: Any) -> int | float:
    number = as_number(step, "step")
    return int(number) if number == int(number) else number
