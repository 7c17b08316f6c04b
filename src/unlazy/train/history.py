# SPDX-License-Identifier: Apache-2.0
"""What a training run returns."""

from typing import Any, Literal

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int, Shaped

from unlazy.core.summaries import parameters_in_words

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

    def __repr__(self) -> str:
        """In a few lines: how the run ended, the losses, what was recorded, the model's size."""
        lines = [f"{self.outcome} at step {self.final_step}, {parameters_in_words(self.params)}"]
        if len(self.loss):
            lines.append(
                f"loss {self.loss[0]:.4g} at step {self.steps[0]}, {self.loss[-1]:.4g} at step "
                f"{self.steps[-1]}; {len(self.loss)} rows"
            )
        lines += [f"records[{name!r}] {_shaped(values)}" for name, values in self.records.items()]
        return f"{type(self).__name__}(" + "\n  ".join([*lines, *self._more()]) + ")"

    def _more(self) -> list[str]:
        """Lines of a history that holds more."""
        return []


def _shaped(values: np.ndarray) -> str:
    return f"{values.dtype}{list(values.shape)}"
