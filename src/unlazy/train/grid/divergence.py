# SPDX-License-Identifier: Apache-2.0
"""From which epoch on a lane has diverged, and what is left of it then."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int


def diverged_epoch(
    loss: Float[np.ndarray, "epochs r g"],
    sound: Bool[np.ndarray, "t r g"],
    times: Int[np.ndarray, " t"],
) -> Int[np.ndarray, "r g"]:
    """The first epoch, counted from 1, whose loss is not finite, or after which a lane is unsound.

    0 where there is none.
    """
    never = len(loss) + 1
    in_training = _first_bad(np.isfinite(loss), np.arange(1, never), never)
    epoch = np.minimum(in_training, _first_bad(sound, times, never))
    return np.where(epoch == never, 0, epoch)


def without_diverged(
    loss: Float[np.ndarray, "epochs r g"],
    values: Float[np.ndarray, "sets t r g"],
    epoch: Int[np.ndarray, "r g"],
    times: Int[np.ndarray, " t"],
) -> tuple[Float[np.ndarray, "epochs r g"], Float[np.ndarray, "sets t r g"]]:
    """From `epoch` on values that are infinite, and after it losses that are nan.

    Whether a lane went on after that depends on the others, and on the clock.
    """
    loss = np.where(_ended(epoch, np.arange(len(loss))), np.nan, loss)
    return loss, np.where(_ended(epoch, times), np.inf, values)


def _first_bad(good: Any, numbers: np.ndarray, never: int) -> np.ndarray:
    return np.where(good.all(axis=0), never, numbers[np.argmin(good, axis=0)])


def _ended(epoch: Int[np.ndarray, "r g"], times: Int[np.ndarray, " t"]) -> np.ndarray:
    return (epoch > 0) & (times[:, None, None] >= epoch)
