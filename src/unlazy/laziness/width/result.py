# SPDX-License-Identifier: Apache-2.0
"""What the width check returns: movements, exponents, a table, a plot and a verdict."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from unlazy.core.drawing import LINES, Axes, hues, log_axes
from unlazy.core.entries import entry
from unlazy.core.json_numbers import json_number
from unlazy.core.panels import panel
from unlazy.laziness.tables import in_columns
from unlazy.laziness.width.exponents import rounded


class WidthCheck(eqx.Module):
    r"""How far each layer's features move in a few steps, against the width.

    With h the features of a layer at all samples and units, $\|h\| = \sqrt{\text{mean}(h^2)}$:
    `movement` is $\|h_t - h_0\|$, `start` is $\|h_0\|$, and `spread` is $\text{mean}|h_t|$. Times
    are the steps 0 to `steps`. Exponents are slopes of logarithms against the logarithm of the
    width at the last step.

    Source: the coordinate check of arXiv:2203.03466, appendix D.1, with movements.
    """

    layers: tuple[str, ...]  # in the order of use; the last is the model's output
    hidden: Bool[np.ndarray, " layers"]  # those that widen: the verdict is about them
    widths: Int[np.ndarray, " widths"]
    movement: Float[np.ndarray, "layers widths seeds times"]
    start: Float[np.ndarray, "layers widths seeds"]
    spread: Float[np.ndarray, "layers widths seeds times"]
    loss: Float[np.ndarray, "widths seeds times"]
    diverged: Bool[np.ndarray, "widths seeds"]  # left out of the fits
    exponents: Float[np.ndarray, " layers"]  # of the movement
    standard_errors: Float[np.ndarray, " layers"]
    relative_exponents: Float[np.ndarray, " layers"]  # of movement / start
    start_exponents: Float[np.ndarray, " layers"]
    verdicts: tuple[str, ...]  # one per layer
    verdict: str
    notes: tuple[str, ...]
    where: str  # "JAX" or "PyTorch"

    @property
    def relative(self) -> Float[np.ndarray, "layers widths seeds times"]:
        r"""$\|h_t - h_0\| / \|h_0\|$; nan where a layer starts at 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.movement / self.start[..., None]
        return np.where(self.start[..., None] > 0, ratio, np.nan)

    def __repr__(self) -> str:
        """The table: per layer the movement at each width, the exponent and the verdict."""
        steps, seeds = self.loss.shape[-1] - 1, self.loss.shape[1]
        head = (
            f"Width check: {steps} steps, {len(self.widths)} widths, {seeds} seeds, {self.where}. "
            "Movement of features, root mean square over units and samples:"
        )
        moved = self._mean(self.movement[..., -1])
        rows = [["layer", *map(str, self.widths), "exponent", "relative", "verdict"]]
        for k, layer in enumerate(self.layers):
            rows.append([layer, *(f"{value:.2e}" for value in moved[k]), *self._fitted(k)])
        lines = [
            head,
            *in_columns(rows, left=(0, len(rows[0]) - 1)),
            self.verdict,
            *(f"Note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def spread_table(self) -> str:
        """The mean absolute value of every layer's features, per step and width."""
        values = np.stack([self._mean(part) for part in np.moveaxis(self.spread, -1, 0)])
        rows = [["layer", "step", *map(str, self.widths)]]
        for k, layer in enumerate(self.layers):
            for t in range(values.shape[0]):
                name = layer if t == 0 else ""
                rows.append([name, str(t), *(f"{value:.3g}" for value in values[t, k])])
        return "\n".join(in_columns(rows))

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the movement of every layer against the width, with the fitted power laws.

        Args:
            ax: where to draw; None for a figure of its own, which is `plot().figure`.
        """
        with panel(ax, 5.6, 3.6) as ax:
            for k, color in enumerate(hues(len(self.layers))):
                self._draw(ax, k, color)
            log_axes(ax, self.widths.tolist())
            ax.set(xlabel="width", ylabel="movement of features")
            ax.set_title(f"after {self.loss.shape[-1] - 1} steps")
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title="layer: exponent")
        return ax

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON; numbers that JSON cannot hold are strings that `float` reads."""
        columns = ("exponents", "standard_errors", "relative_exponents", "start_exponents")
        arrays = ("movement", "start", "spread", "loss")
        return {
            "layers": list(self.layers),
            "hidden": self.hidden.tolist(),
            "widths": self.widths.tolist(),
            **{name: _numbers(getattr(self, name)) for name in (*columns, *arrays)},
            "diverged": self.diverged.tolist(),
            "verdicts": list(self.verdicts),
            "verdict": self.verdict,
            "notes": list(self.notes),
            "where": self.where,
        }

    def _mean(self, values: Float[np.ndarray, "l w s"]) -> Float[np.ndarray, "l w"]:
        """The mean over the seeds that did not diverge; nan where all did."""
        kept = np.where(self.diverged, 0.0, 1.0)
        count = kept.sum(axis=1)
        total = np.where(self.diverged, 0.0, values).sum(axis=2)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def _fitted(self, k: int) -> list[str]:
        error = self.standard_errors[k]
        around = "" if np.isnan(error) else f" +- {error:.2f}"
        exponent = f"{rounded(self.exponents[k])}{around}"
        return [exponent, rounded(self.relative_exponents[k]), self.verdicts[k]]

    def _draw(self, ax: Axes, k: int, color: str) -> None:
        moved = np.where(self.diverged, np.nan, self.movement[k, ..., -1])
        moved = np.where(moved > 0, moved, np.nan)
        ax.plot(self.widths, moved, color=color, marker="o", ls="none", ms=3, alpha=0.7)
        known = np.isfinite(moved)
        label = f"{self.layers[k]}: {rounded(self.exponents[k])}"
        line = LINES[k % len(LINES)]
        if np.isnan(self.exponents[k]):
            ax.plot([], [], color=color, ls=line, label=self.layers[k])
            return
        u = np.log(np.broadcast_to(self.widths[:, None], moved.shape)[known])
        middle = np.exp(np.log(moved[known]).mean())
        fit = middle * np.exp(self.exponents[k] * (np.log(self.widths) - u.mean()))
        ax.plot(self.widths, fit, color=color, ls=line, label=label)


def _numbers(values: Float[np.ndarray, "..."]) -> Any:
    """Nested lists of numbers as JSON can hold them."""
    if values.ndim == 1:
        return [json_number(float(value)) for value in values]
    return [_numbers(value) for value in values]
