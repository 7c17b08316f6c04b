# SPDX-License-Identifier: Apache-2.0
"""What a training run returns."""

from typing import Any, Literal

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int, Shaped

Outcome = Literal["completed", "stopped", "diverged"]


class History(eqx.Module):
    """The end of a training run and what was recorded on the way.

    Row j of `loss` and of every array in `records` belongs to the parameters *before* step number
    `steps[j]` was taken, so that the first row is the initialisation; the last row is the end. With
    mini-batches `loss` is that of the step's batch.
    """

    params: Any  # at step `final_step`
    final_step: int
    outcome: Outcome  # all steps taken; a stop rule fired; the loss was no longer finite
    steps: Int[np.ndarray, " t"]
    loss: Float[np.ndarray, " t"]
    records: dict[str, Shaped[np.ndarray, "t ..."]]
