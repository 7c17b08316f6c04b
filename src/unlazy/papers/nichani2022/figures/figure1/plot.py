# SPDX-License-Identifier: Apache-2.0
"""How Figure 1 is drawn, from the stored tables."""

import numpy as np

from unlazy.core.drawing import COLORS, LINES, Axes, Figure, band, figure
from unlazy.experiments import Results
from unlazy.papers.nichani2022.figures.figure1.claims import curves
from unlazy.papers.nichani2022.figures.figure1.config import Config

_FLOOR = 1e-6  # of the logarithmic axes


def plot(config: Config, results: Results) -> Figure:
    found, one = curves(config, results), config.descents
    fig = figure(9.6, 3.2)
    r3, train, test = fig.subplots(1, 3)
    for ax, values, title in (
        (r3, found.r3, "regulariser $R_3$"),
        (train, found.train, "training loss"),
        (test, found.test, "test loss"),
    ):
        _bands(ax, found.step, values, found.strengths, log=ax is not test)
        ax.set(xlabel="step", xlim=(0, found.step[-1]), title=title)
    r3.set_ylim(_FLOOR, 3)
    train.set_ylim(_FLOOR, 10)
    _reference(test, one.problem.best_linear)
    handles, labels = test.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels), handlelength=2.6)
    p = one.problem
    fig.suptitle(
        f"$f_L + f_Q$ on {p.formula}: d = {p.inputs}, n = {p.n}, "
        f"m = {p.width}; mean and standard deviation of {one.trials} trials",
        fontsize=10,
    )
    return fig


def _bands(ax: Axes, step, values, strengths, *, log: bool) -> None:
    """The mean and one standard deviation about it, of the logarithms on a logarithmic axis."""
    with np.errstate(divide="ignore"):
        held = np.log(np.maximum(values, _FLOOR / 10)) if log else values
    back = np.exp if log else np.asarray
    mean, spread = held.mean(axis=0), held.std(axis=0)
    for i, strength in enumerate(strengths):
        style = {"color": COLORS[i], "ls": LINES[i], "label": rf"$\lambda_3$ = {strength:g}"}
        ends = back(np.stack([mean[i] - spread[i], mean[i] + spread[i]]))
        band(ax, step, ends, middle=back(mean[i]), **style)
    if log:
        ax.set_yscale("log")


def _reference(ax: Axes, best: float) -> None:
    ax.axhline(best, color="black", lw=0.8, ls=(0, (1, 1)))
    ax.annotate(
        "best linear function",
        (1, best),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8.5,
    )
    ax.set_ylim(0, 1.6 * best)
