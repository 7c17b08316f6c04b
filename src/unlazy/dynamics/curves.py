# SPDX-License-Identifier: Apache-2.0
"""The predictions of a kernel as curves: the loss over the steps, and the spectrum with labels."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from unlazy.core.checks import check_real, short
from unlazy.core.drawing import COLORS, Axes
from unlazy.core.panels import log_if_positive, name_curves, next_look, panel
from unlazy.dynamics.decays import Steps, as_whole_steps

_POINTS = 200  # of a curve
_MARKS = 60  # for measured losses
_DONE = 1e-3  # of the fall of the loss is left where a curve ends
_LONGEST = 2**40
_DEEPEST = 1e-8  # of the initial loss, the least that is shown


class Losses(NamedTuple):
    """Losses at steps."""

    steps: Float64[np.ndarray, " T"]
    values: Float64[np.ndarray, " T"]


def recorded(measured: Any) -> Losses | None:
    """The losses of a history, or of a pair of steps and losses."""
    if measured is None:
        return None
    pair = (getattr(measured, "steps", None), getattr(measured, "loss", None))
    if pair[0] is None or pair[1] is None:
        pair = measured
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        raise TypeError(
            "`measured` must be a history with `steps` and `loss`, or a pair of them, got "
            f"measured={short(measured)}."
        )
    for part in pair:
        check_real(part, "measured")
    steps, values = (np.asarray(part, np.float64) for part in pair)
    if steps.ndim != 1 or steps.shape != values.shape or not len(steps):
        raise ValueError(
            "`measured` must have a loss for each step, one at least, got shapes "
            f"{steps.shape} and {values.shape}."
        )
    return Losses(steps, values)


def horizon(loss: Callable[[Any], np.ndarray], *, is_stable: bool) -> int:
    """The step from which a predicted loss has all but ended to fall."""
    if not is_stable:
        return 100
    start, end = float(loss(0)), float(loss(math.inf))
    counts = 2 ** np.arange(round(math.log2(_LONGEST)) + 1)
    is_done = loss(counts) <= end + _DONE * (start - end)
    return int(counts[np.argmax(is_done)]) if is_done.any() else 1000


def drawn_steps(
    steps: Steps | None, measured: Losses | None, last: Callable[[], int]
) -> Float64[np.ndarray, " T"]:
    """The steps at which to draw: those given, or spread evenly over a logarithmic axis."""
    if steps is not None:
        given = as_whole_steps(steps, "steps")
        if not len(given) or np.any(np.isinf(given)):
            raise ValueError(f"`steps` must be finite, one at least, got steps={short(steps)}.")
        return given
    end = last() if measured is None else max(1, int(np.max(measured.steps)))
    return np.unique(np.round(np.geomspace(1, end, _POINTS)))


def first_measured(measured: Losses | None) -> int:
    """The whole step of the first measured loss; 0 without any."""
    step = 0.0 if measured is None else float(measured.steps[0])
    return round(step) if math.isfinite(step) and step > 0 else 0


def draw_losses(
    ax: Axes | None,
    predicted: Losses,
    starts: tuple[float, float],
    measured: Losses | None,
    *,
    relative: bool,
    label: str | None,
) -> Axes:
    """The predicted losses as a line, the measured ones as points, on logarithmic axes.

    `starts` are what is predicted at step 0 and at the first measured step.
    """
    start, first = starts
    with panel(ax) as ax:
        scale = start if relative and start > 0 else 1.0
        name = "predicted by the kernel" if label is None else label
        ax.plot(predicted.steps, predicted.values / scale, label=name, **next_look(ax))
        if measured is not None:
            # The unit of the measured losses is the one in which the first is as predicted.
            unit = float(measured.values[0]) / (first / scale if 0 < first < math.inf else 1.0)
            color = next_look(ax)["color"]
            shown = measured.values / (unit if relative and unit > 0 else 1.0)
            look = {"color": color, "ls": "none", "marker": "o", "ms": 3}
            line = ax.plot(measured.steps, shown, label="measured")[0]
            line.set(**look, markevery=_spread(len(shown)))
        log_if_positive(ax, "x", "y")
        if ax.get_yscale() == "log":
            ax.set_ylim(bottom=max(ax.get_ylim()[0], _DEEPEST * start / scale))
        ax.set(xlabel="step", ylabel="loss / loss at the start" if relative else "loss")
        name_curves(ax)
    return ax


def _spread(count: int) -> list[int]:
    """Of so many rows, those that do not crowd a logarithmic axis."""
    return np.unique(np.round(np.geomspace(1, count, _MARKS)).astype(int) - 1).tolist()


def _above(values: Float[np.ndarray, " r"], floor: float) -> Float[np.ndarray, " r"]:
    return np.where(values >= floor, values, np.nan)


def draw_spectrum(
    ax: Axes,
    eigenvalues: Float[np.ndarray, " r"],
    energies: Float[np.ndarray, " r"],
) -> Axes:
    """Eigenvalues beside the labels' share on each eigenvector, and on all that follow it."""
    index = np.arange(1, len(eigenvalues) + 1)
    largest = float(eigenvalues[0]) or 1.0
    # What is below the floor is rounding, or would stretch the axis: it is left out.
    share = _above(eigenvalues / largest, 1e-12)
    beyond = _above(1 - np.cumsum(energies), 1e-4)
    ax.plot(index, share, color="black", ls="-", label="eigenvalue / largest")
    ax.plot(index, beyond, color=COLORS[1], ls="--", label="share of the labels beyond")
    ax.plot(
        index,
        _above(energies, 1e-6),
        color=COLORS[0],
        ls="none",
        marker="o",
        ms=2.5,
        label="share on eigenvector",
    )
    ax.set(xscale="log", yscale="log", xlabel="eigenvector", title="spectrum and labels")
    ax.set_ylabel("share")
    ax.legend(loc="lower left")
    return ax
