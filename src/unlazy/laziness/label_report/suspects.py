# SPDX-License-Identifier: Apache-2.0
"""Rows whose label is not what all other rows predict for them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Shaped

from unlazy.laziness.label_columns import LabelColumns
from unlazy.laziness.label_report.samples import Samples
from unlazy.laziness.label_report.solves import Answers

MARGIN = 0.75  # by which another class leads, where +1 and -1 are the labels
DEVIATIONS = 4.0  # typical sizes of a left-out error, for numbers
_LEAST_ERROR = 0.1  # of the labels' deviation: below, the edge of clean data would look wrong
_NORMAL = 1.4826  # the median of absolute values to a standard deviation


class Suspect(NamedTuple):
    """A row whose label looks wrong: it is `label`, and all other rows say `prediction`."""

    row: int
    label: str | float
    prediction: str | float
    score: float


class Judged(NamedTuple):
    """For each labelled row: what the other rows predict, and how far its label is from that."""

    predictions: Shaped[np.ndarray, " m"]
    labels: Shaped[np.ndarray, " m"]
    scores: Float64[np.ndarray, " m"]
    threshold: float


def judge(targets: LabelColumns, samples: Samples, answers: Answers, y: np.ndarray) -> Judged:
    """Predictions, labels and scores; `y` are the standardised labels of the distinct rows."""
    scale = _scale(samples.y, y)
    left_out = (y - answers.surprises) * scale + samples.y.mean(axis=0)
    if targets.task == "classify":
        return _classes(targets, left_out[samples.group])
    sizes = np.sqrt(answers.costs)
    weights = sizes / np.maximum(np.linalg.norm(answers.surprises, axis=1), 1e-300)
    gaps = np.linalg.norm(targets.columns - left_out[samples.group], axis=1) / scale
    scores = gaps * weights[samples.group]
    typical = max(_NORMAL * float(np.median(scores)), _LEAST_ERROR * float(np.median(weights)))
    scores = scores / typical if typical > 0 else scores
    return Judged(left_out[samples.group][:, 0], targets.columns[:, 0], scores, DEVIATIONS)


def _scale(given: np.ndarray, standardised: np.ndarray) -> float:
    largest = np.unravel_index(np.argmax(np.abs(standardised)), standardised.shape)
    return float((given - given.mean(axis=0))[largest] / standardised[largest])


def _classes(targets: LabelColumns, left_out: Float64[np.ndarray, "m c"]) -> Judged:
    """The margin by which the best other class leads the given one."""
    signs = np.column_stack([left_out, -left_out]) if left_out.shape[1] == 1 else left_out
    rows = np.arange(len(signs))
    given = signs[rows, targets.codes].copy()
    best = np.argmax(signs, axis=1)
    others = signs.copy()
    others[rows, targets.codes] = -np.inf
    names = np.array(targets.classes)
    return Judged(names[best], names[targets.codes], others.max(axis=1) - given, MARGIN)


def ranked(scores: Float64[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """The rows by score, the highest first."""
    return np.argsort(-scores, kind="stable")
