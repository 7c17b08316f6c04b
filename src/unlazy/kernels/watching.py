# SPDX-License-Identifier: Apache-2.0
"""What is seen of the iterates of a long fit: residuals, errors on other samples, the best one."""

import hashlib
import math
import time
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float64

from unlazy.core.checks import as_array, check_inputs, check_labels
from unlazy.kernels.streaming import StreamedGram
from unlazy.linalg.stepwise import Iterate

METRICS = ("squared", "classes")
Pair = tuple[Array | np.ndarray, Array | np.ndarray]
"""Samples and their outputs, whose shapes are checked with a clear error."""


class Seen(NamedTuple):
    """What a watch has seen of each iterate."""

    residuals: Float64[np.ndarray, " k"]
    errors: Float64[np.ndarray, " k"]
    seconds: Float64[np.ndarray, " k"]


class Watch:
    """Keeps the best iterate, by the error on other samples, or else by the residual."""

    def __init__(self, validation: Pair | None, metric: str, patience: int) -> None:
        """Watch with these samples, if any."""
        self.validation, self.metric, self.patience = validation, metric, patience
        self.rows: list[tuple[float, float, float]] = []  # residual, error, seconds
        self.best: Float64[Array | np.ndarray, "n c"] | None = None
        self.best_step = 0
        self.began = time.perf_counter()

    def look(self, here: Iterate, gram: StreamedGram) -> None:
        """Note the iterate, and keep it if no other has predicted better."""
        residual, error = float(np.max(here.residuals())), math.nan
        if self.validation is not None:
            points, labels = self.validation
            outputs = np.asarray(gram.cross(points, here.value))
            error = _error(self.metric, outputs, np.asarray(labels))
        if (residual if self.validation is None else error) < self._least():
            self.best, self.best_step = here.value, here.steps
        now = time.perf_counter()
        self.rows.append((residual, error, now - self.began))
        self.began = now

    @property
    def is_tired(self) -> bool:
        """Whether the predictions have not become better for as long as patience lasts."""
        if self.validation is None or not self.rows:
            return False
        errors = [error for _, error, _ in self.rows]
        return len(errors) - int(np.argmin(errors)) > self.patience

    def _least(self) -> float:
        if self.validation is None:
            return min(self.least_residual, 1.0)  # that of the start at zero
        return min((error for _, error, _ in self.rows), default=math.inf)

    @property
    def least_residual(self) -> float:
        """Of all iterates."""
        return min((residual for residual, _, _ in self.rows), default=math.inf)

    def state(self, here: Iterate) -> dict[str, np.ndarray]:
        """All of it as arrays."""
        best = here.value if self.best is None else self.best
        return {
            **here.arrays(),
            "best": np.asarray(best),
            "best_step": np.array(self.best_step),
            "rows": np.array(self.rows).reshape(-1, 3),
            "watched": np.array(self._watched()),
        }

    def restored(self, state: dict[str, np.ndarray] | None, gram: StreamedGram) -> Iterate | None:
        """Take over what `state` gave, and return its iterate.

        What was seen with other samples, or by another metric, does not compare with what will be
        seen with these: then the iterate is the first one that is looked at.
        """
        if state is None:
            return None
        here = Iterate.from_arrays(state)
        if str(state["watched"]) == self._watched():
            if state["best_step"] > 0:
                self.best, self.best_step = state["best"], int(state["best_step"])
            self.rows = [(float(r), float(e), float(s)) for r, e, s in state["rows"]]
        elif here.steps:
            self.look(here, gram)
        return here

    def _watched(self) -> str:
        """What tells the samples and the metric from others."""
        if self.validation is None:
            return "residuals"
        parts = [np.ascontiguousarray(v) for v in self.validation]
        told = [f"{self.metric} {[(v.shape, v.dtype.name) for v in parts]}".encode(), *parts]
        digest = hashlib.sha256()
        for part in told:
            digest.update(part)
        return digest.hexdigest()

    def chosen(self, here: Iterate) -> tuple[Float64[Array | np.ndarray, "n c"], int]:
        """The coefficients that are kept, and how many iterations they took."""
        if self.best is None:  # no iterate is better than the start
            return np.zeros(here.value.shape), 0
        return self.best, self.best_step

    def seen(self) -> Seen:
        """All that was noted."""
        return Seen(*np.array(self.rows).reshape(-1, 3).T)


def check_signs(y: Float64[np.ndarray, "n c"], metric: str) -> None:
    """Raise where classes would be told by a sign that a single column of labels does not have."""
    low, high = np.min(y), np.max(y)
    if metric == "classes" and y.shape[1] == 1 and not low < 0 < high:
        raise ValueError(
            "`y` must have both signs in its single column for metric='classes', got labels from "
            f"{low:.3g} to {high:.3g}. Give labels -1 and 1, or a column per class."
        )


def checked_validation(validation: Pair | None, x: Any, y: Any) -> Pair | None:
    """The pair as arrays; raise unless its rows are of the shape of those of the fit."""
    if validation is None:
        return None
    if not (isinstance(validation, tuple) and len(validation) == 2):
        raise ValueError(
            "`validation` must be a pair of samples and their outputs, got "
            f"type={type(validation).__name__}."
        )
    points, labels = validation
    check_inputs(points, "validation[0]", allow_zero_rows=True)
    check_labels(labels, np.shape(points)[0], "validation[1]")
    for name, given, wanted in (
        ("validation[0]", np.shape(points)[1:], np.shape(x)[1:]),
        ("validation[1]", np.shape(labels)[1:], np.shape(y)[1:]),
    ):
        if given != wanted:
            raise ValueError(
                f"`{name}` must have rows of shape {wanted}, as in the fit, got {given}."
            )
    return as_array(points), np.asarray(labels, np.float64).reshape(len(labels), -1)


def _error(metric: str, outputs: np.ndarray, labels: np.ndarray) -> float:
    if metric == "squared":
        return float(np.mean((outputs - labels) ** 2))
    if outputs.shape[1] == 1:
        return float(np.mean((outputs > 0) != (labels > 0)))
    return float(np.mean(np.argmax(outputs, axis=1) != np.argmax(labels, axis=1)))
