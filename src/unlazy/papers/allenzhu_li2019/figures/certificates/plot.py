# SPDX-License-Identifier: Apache-2.0
"""The plot of the certificate figure, from the stored tables."""

from typing import Any

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, band, figure
from unlazy.experiments import Results
from unlazy.papers.allenzhu_li2019.figures.certificates.claims import table
from unlazy.papers.allenzhu_li2019.figures.certificates.config import (
    ALL,
    EXTREMAL,
    FEATURES,
    Config,
    Panel,
)

_LOOKS: dict[str, tuple[str, Any, str]] = {
    "gaussian": (COLORS[0], "-", "o"),
    "arcsin": (COLORS[1], "-", "s"),
    "conjugate-2": (COLORS[2], "-", "^"),
    "tangent-2": (COLORS[3], "-", "v"),
    "tangent-3": (COLORS[4], "-", "D"),
    "exponential": (COLORS[5], "-", "P"),
    "cubic": (COLORS[0], (0, (4, 1.5)), "x"),
    FEATURES: (COLORS[1], (0, (4, 1.5)), "+"),
    EXTREMAL: (COLORS[6], (0, (4, 1.5)), "*"),
    ALL: (COLORS[6], (0, (1, 1)), ""),
}


def plot(config: Config, results: Results) -> Figure:
    fig = figure(4.2 * len(config.panels) + 0.6, 6.4)
    axes = fig.subplots(2, len(config.panels), sharex="col", squeeze=False)
    for column, panel in enumerate(config.panels):
        top, bottom = axes[:, column]
        for learner in config.learners:
            _draw(top, panel, results, learner, "fraction_bad")
            _draw(bottom, panel, results, learner, "min_ratio")
        _counting(top, panel)
        bottom.axhline(1 / 16, color="gray", lw=0.9, ls="--")
        offset: dict[str, Any] = {"textcoords": "offset points"}
        bottom.annotate("learnt", (panel.sizes[0], 1 / 16), (0, -10), **offset)
        top.set_title(f"d = {panel.d}, k = {panel.k}: {panel.targets} targets")
        bottom.set(xscale="log", yscale="log", xlabel="samples or features n", ylim=(3e-3, 5))
        bottom.set_xticks(panel.sizes, labels=_spaced(panel.sizes))
        bottom.set_xticks([], minor=True)
        bottom.annotate("n = targets", (panel.targets, 3), (4, 0), **offset, fontsize=7.5)
        for ax in (top, bottom):
            ax.axvline(panel.targets, color="gray", lw=0.9, ls=":")
    axes[0, 0].set_ylabel("share of targets not learnt")
    axes[1, 0].set_ylabel(r"least risk of a target / $\alpha^2$")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncol=4)
    return fig


def _spaced(sizes: tuple[int, ...]) -> list[str]:
    """The sizes as labels; of those too close to each other on a logarithmic axis, the first."""
    labels, last = [], 0.0
    for size in sizes:
        labels.append(str(size) if size >= 1.3 * last else "")
        last = size if labels[-1] else last
    return labels


def _draw(ax: Axes, panel: Panel, results: Results, learner: str, column: str) -> None:
    """The mean over the seeds, and their range."""
    color, line, marker = _LOOKS[learner]
    values = table(results, panel.sweep(learner), column)
    style: Any = {"color": color, "ls": line, "marker": marker, "lw": 1.2}
    name = "every dot-product kernel (bound)" if learner == ALL else learner
    # Risks of exactly zero have no place on a logarithmic axis.
    shown = np.maximum(values, 1e-4) if column == "min_ratio" else values
    band(ax, panel.sizes, shown, label=name, **style)


def _counting(ax: Axes, panel: Panel) -> None:
    """What counting proves for every kernel and every feature map: 1 - 16 n / (15 targets)."""
    n = np.geomspace(panel.sizes[0], panel.sizes[-1], 400)
    certain = np.maximum(0.0, 1 - 16 * n / 15 / panel.targets)
    ax.fill_between(n, 0, certain, color="0.88", lw=0, label="not learnt, by counting alone")
    ax.set(ylim=(-0.04, 1.06))
