# SPDX-License-Identifier: Apache-2.0
"""The losses that a training recorded, and whether they are those that the report computes."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from unlazy.laziness.measurements.targets import Targets
from unlazy.train import History

_ALIKE = 0.25  # in the logarithm: rows in the training that the report has not seen
_FEWEST = 5  # samples from which on a factor of n is no factor of another convention


class Losses(NamedTuple):
    """Recorded losses, and the steps that had been taken."""

    steps: Float64[np.ndarray, " t"]
    losses: Float64[np.ndarray, " t"]


def as_losses(history: Any) -> Losses | None:
    """The recorded losses; steps are counted from 1 where they are not given."""
    if history is None:
        return None
    if isinstance(history, History):
        history = history.steps, history.loss
    if isinstance(history, tuple):
        if len(history) != 2:
            raise ValueError(
                "`history` must be losses, a pair (steps, losses) or a `train.History`, got "
                f"{len(history)} parts."
            )
        steps, losses = (_as_numbers(part) for part in history)
    else:
        losses = _as_numbers(history)
        steps = np.arange(1.0, len(losses) + 1)
    if len(steps) != len(losses) or not len(losses):
        raise ValueError(
            "`history` must be losses, or as many steps as losses, one at least, got "
            f"{len(steps)} steps and {len(losses)} losses."
        )
    if np.any(steps != np.round(steps)) or np.any(np.diff(steps) <= 0) or steps[0] < 0:
        raise ValueError("`history` must have whole steps from 0 on that increase.")
    if not np.all(np.isfinite(losses)):
        raise ValueError("`history` must have finite losses, got nan or inf.")
    return Losses(steps, losses)


def _as_numbers(values: Any) -> Float64[np.ndarray, " t"]:
    try:
        return np.asarray(values, np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "`history` must be losses, a pair (steps, losses) or a `train.History`, got "
            f"{type(values).__name__}."
        ) from error


def check_mean(found: Losses, targets: Targets, start: Float[np.ndarray, "q c"], n: int) -> str:
    """Raise where the losses are sums over the samples; else a remark, or nothing.

    A sum has gradients n times as large, so that the rate that belongs to it is n times too small
    for the mean: the prediction and the edge of stability would be wrong without a sign of it.

    Args:
        found: the recorded losses.
        targets: the labels of the rows of `start`.
        start: the outputs at the start.
        n: the number of samples given.
    """
    mean, first = targets.loss(start), float(found.losses[0])
    if min(mean, first) <= 0:
        return ""
    ratio, step = first / mean, int(found.steps[0])
    for factor in (n, 2 * n) if n >= _FEWEST and step == 0 else ():
        if abs(math.log(ratio / factor)) < _ALIKE:
            raise ValueError(
                f"`history` must have losses that are means over the samples, got {first:.4g} at "
                f"step 0, which is about {factor:,} times the {mean:.4g} of {_words(targets)}. "
                f"Divide the losses by {factor} and multiply `learning_rate` by {factor}, if it "
                "was the rate of descent on that sum."
            )
    if step > 0 and ratio < max(n / 2, _FEWEST):
        return ""  # training has changed the loss by then
    if abs(math.log(ratio)) < _ALIKE:
        return ""
    return (
        f"Mind the convention: the recorded loss begins at {first:.3g}, {ratio:.3g} times the "
        f"{mean:.3g} of {_words(targets)} at the start. `learning_rate` must belong to the latter."
    )


def _words(targets: Targets) -> str:
    if targets.squared:
        return "half the squared error, summed over outputs and averaged over the samples given"
    return "the cross-entropy, averaged over the samples given"
