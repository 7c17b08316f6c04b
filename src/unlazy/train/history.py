# SPDX-License-Identifier: Apache-2.0
"""What a training run returns."""

from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int, Shaped

from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
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

    @entry
    def plot(
        self,
        ax: Axes | None = None,
        *,
        names: Sequence[str] | None = None,
        label: str | None = None,
    ) -> Axes:
        """Draw the loss and what was recorded against the steps.

        The vertical axis is logarithmic if all that is drawn is positive and spans more than a
        factor of ten. Two runs may be drawn on the same `ax`, each with its `label`.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            names: which curves: "loss", and names of `records` that hold one number per row; None
                for all of them.
            label: put before the names in the legend.

        Example:
            >>> history = History(None, 2, "completed", np.arange(3), np.array([4.0, 2.0, 1.0]), {})
            >>> print(history.plot().get_lines()[0].get_ydata())
            [4. 2. 1.]
        """
        from unlazy.train.curves import draw_history

        return draw_history(self, ax, names, label)

    def _more(self) -> list[str]:
        """Lines of a history that holds more."""
        return []


def _shaped(values: np.ndarray) -> str:
    return f"{values.dtype}{list(values.shape)}"
