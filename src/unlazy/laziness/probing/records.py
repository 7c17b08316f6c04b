# SPDX-License-Identifier: Apache-2.0
"""What a probe measured at one point of a training."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from unlazy.core.json_numbers import json_number
from unlazy.kernels.empirical.by_layer import layer_of
from unlazy.laziness.measurements.kernel_drift import Distance, alignment, distance, total
from unlazy.laziness.measurements.targets import Targets
from unlazy.laziness.measurements.taylor_shares import taylor_shares
from unlazy.laziness.subjects.watch import Sight, Squares


class ProbeRecord(eqx.Module):
    """How far a training has come from its start, measured on the rows of a probe.

    `print(record)` shows it in one line. What was not measured is nan: scores and alignment without
    labels, flips of a model without ReLUs, everything where the parameters are not finite.
    """

    step: int | float
    loss: float  # mean cross-entropy or half squared error
    accuracy: float  # nan for quantities
    linear_loss: float  # of the linear model f(start) + T1
    linear_accuracy: float
    errors: tuple[float, ...]  # norm(D - T1 - ... - Tk)/norm(D) for k = 1, 2, ...
    movement: float  # norm(params - start)/norm(start)
    kernel: Distance  # from the start
    velocity: float  # centred distance of the kernel from that of the record before
    alignment: float  # centred, with the labels
    flips: float  # share of ReLUs that are not as at the start
    layer_movement: dict[str, float]
    layer_kernel: dict[str, float]  # centred distances
    layer_flips: dict[str, float]  # by ReLU
    seconds: float  # that the measurement took
    note: str = ""  # why something is nan

    def __str__(self) -> str:
        """In one line."""
        parts = [
            f"loss {self.loss:.3g}",
            f"accuracy {self.accuracy:.1%}",
            f"moved {self.movement:.2g}",
            f"kernel {self.kernel.relative:.2g} (turned {clean(self.kernel.centred):.2g})",
            f"velocity {clean(self.velocity):.2g}",
            f"alignment {self.alignment:.2g}",
            f"flipped {self.flips:.1%}",
            f"linear model misses {self.errors[0]:.2g}",
        ]
        measured = ", ".join(part for part in parts if "nan" not in part)
        return f"step {self.step:g}: {self.note or measured}"

    def as_row(self) -> dict[str, int | float | str]:
        """All numbers by their names; those of layers are named such as "movement/Dense_0"."""
        row: dict[str, int | float | str] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            name = field.name.removeprefix("layer_")
            if isinstance(value, Distance):
                row |= {f"{name}_{part}": getattr(value, part) for part in _PARTS}
            elif isinstance(value, dict):
                row |= {f"{name}/{layer}": found for layer, found in value.items()}
            elif isinstance(value, tuple):
                row |= {f"error_{k}": found for k, found in enumerate(value, start=1)}
            else:
                row[name] = value
        return row

    def as_json(self) -> dict[str, Any]:
        """The record for JSON, from which `from_json` makes it again."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: _for_json(value) for name, value in fields.items()}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "ProbeRecord":
        """The record that `as_json` has written.

        Raises:
            KeyError, TypeError, ValueError: it is no such record.
        """
        fields: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            value = found[field.name]
            if field.name == "kernel":
                fields["kernel"] = Distance(**{part: float(value[part]) for part in _PARTS})
            elif field.name == "errors":
                fields["errors"] = tuple(map(float, value))
            elif isinstance(value, dict):
                fields[field.name] = {name: float(number) for name, number in value.items()}
            else:
                fields[field.name] = value if field.name in ("step", "note") else float(value)
        return cls(**fields)


def clean(value: Any) -> Any:
    """A number as people read it: what rounding leaves of a distance that is zero is zero."""
    return 0.0 if isinstance(value, float) and abs(value) < _ROUNDING else value


_ROUNDING = 1e-12
_PARTS = tuple(field.name for field in dataclasses.fields(Distance))


def _for_json(value: Any) -> Any:
    if isinstance(value, Distance):
        return {part: _for_json(getattr(value, part)) for part in _PARTS}
    if isinstance(value, dict):
        return {name: _for_json(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_for_json(part) for part in value]
    return json_number(value)


def record_of(
    step: int | float,
    squares: Mapping[str, Squares],
    now: Sight,
    start: Sight,
    before: np.ndarray,
    targets: Targets | None,
) -> ProbeRecord:
    """Compare what a watch sees now with what it saw at the start.

    Args:
        step: of the training.
        squares: of the parameters.
        now: the model now.
        start: the model at the start.
        before: the kernel at the record before.
        targets: the labels of the rows.
    """
    K0, K = total(start.kernels), total(now.kernels)
    with np.errstate(all="ignore"):  # a training that diverges has huge numbers, then nan
        layers = {name: distance(start.kernels[name], now.kernels[name]).centred
                  for name in start.kernels}  # fmt: skip
        # The same program gave both outputs: where nothing moved, they differ by nothing.
        terms = np.concatenate([start.outputs[None], now.terms[1:]])
        is_finite = bool(np.all(np.isfinite(now.outputs)))
        return ProbeRecord(
            step,
            *_scores(now.outputs, targets),
            *_scores(terms[0] + terms[1], targets),
            errors=taylor_shares(terms, now.outputs).errors[1:],
            movement=_ratio(squares.values()),
            kernel=distance(K0, K),
            velocity=distance(before, K).centred,
            alignment=math.nan if targets is None else alignment(K, targets.columns),
            flips=_mean(now.flipped, now.units) if is_finite else math.nan,
            layer_movement=_by_layer(squares),
            layer_kernel=layers,
            layer_flips=now.flipped,
            seconds=math.nan,
            note="" if is_finite else "the outputs are not finite",
        )


def broken_record(step: int | float, like: ProbeRecord, note: str) -> ProbeRecord:
    """The record of parameters that are not finite: nothing but nan, and why."""

    def nothing(value: Any) -> Any:
        if isinstance(value, Distance):
            return Distance(math.nan, math.nan, math.nan)
        if isinstance(value, dict):
            return dict.fromkeys(value, math.nan)
        return (math.nan,) * len(value) if isinstance(value, tuple) else math.nan

    fields = {f.name: nothing(getattr(like, f.name)) for f in dataclasses.fields(like)}
    return ProbeRecord(**(fields | {"step": step, "note": note}))


def _scores(outputs: np.ndarray, targets: Targets | None) -> tuple[float, float]:
    if targets is None or not np.all(np.isfinite(outputs)):
        return math.nan, math.nan
    return targets.loss(outputs), targets.accuracy(outputs)


def _mean(shares: Mapping[str, float], units: Mapping[str, int]) -> float:
    count = sum(units.values())
    return sum(shares[name] * units[name] for name in shares) / count if count else math.nan


def _by_layer(squares: Mapping[str, Squares]) -> dict[str, float]:
    layers: dict[str, list[Squares]] = {}
    for path, found in squares.items():
        layers.setdefault(layer_of(path), []).append(found)
    return {name: _ratio(found) for name, found in layers.items()}


def _ratio(squares: Any) -> float:
    found = list(squares)
    change, start = sum(s.change for s in found), sum(s.start for s in found)
    if start == 0:
        return math.inf if change > 0 else 0.0
    return math.sqrt(change / start)
