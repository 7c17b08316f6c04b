# SPDX-License-Identifier: Apache-2.0
"""How the figure of Appendix G is drawn, from the stored tables."""

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, band, figure, hues
from unlazy.experiments import Results
from unlazy.papers.nichani2022.figures.appendix_g.authors.config import AuthorsConfig
from unlazy.papers.nichani2022.figures.appendix_g.authors.plot import authors_plot
from unlazy.papers.nichani2022.figures.appendix_g.claims import EARLY, course, ends
from unlazy.papers.nichani2022.figures.appendix_g.config import Config, Courses

_SHOWN = {
    "neither": "no penalty",
    "R3": "$R_3$",
    "R1": "$R_1$",
    "R1 and R3": "$R_1$ and $R_3$",
    "f_L alone": "$f_L$ alone",
    "f_Q alone": "$f_Q$ alone",
}
_MODELS = {1: ("linear model", "--", "s"), 2: ("quadratic model", "-", "o")}


def plot(config: Config | AuthorsConfig, results: Results) -> Figure:
    if isinstance(config, AuthorsConfig):
        return authors_plot(config, results)
    fig = figure(8.4, 6.0)
    (tests, penalties), (tracking, counter) = fig.subplots(2, 2)
    p = config.baselines.problem
    _plot_dots(tests, ends(results, config.baselines, "test"), COLORS[0], "o", "test loss")
    tests.set(ylim=(0, None), ylabel="test loss at the end")
    tests.set_title(f"$f_L + f_Q$, d = {p.inputs}, n = {p.n}, m = {p.width}")
    _plot_penalties(penalties, config, results)
    for one, color in zip(config.courses, hues(len(config.courses)), strict=True):
        _plot_courses(tracking, results, one, color, f", m = {one.width}")
    tracking.set_title("standard tanh network and its Taylor models")
    _plot_courses(counter, results, config.counter_example, COLORS[2], "")
    counter.axvline(EARLY, color="gray", lw=0.8, ls=(0, (1, 1)))
    counter.set_title(f"counter-example: sigmoid network, m = {config.counter_example.width}")
    for ax in (tracking, counter):
        ax.set(xlabel="step", ylabel="rms distance of test outputs", ylim=(0, None))
        ax.set_xlim(left=0)
        ax.legend(loc="best")
    tracking.set(yscale="log", ylim=(_least_gap(config, results) / 1000, 1))
    tracking.legend(loc="lower right", fontsize=7.5, ncols=2, columnspacing=1.0)
    return fig


def _least_gap(config: Config, results: Results) -> float:
    """The least gap that is drawn; a thousandth of it leaves room for the legend."""
    gaps = [course(results, one, 2, "gap").seeds[:, 1:] for one in config.courses]
    positive = np.concatenate([values[values > 0] for values in gaps])
    return float(positive.min()) if positive.size else 1e-3


def _plot_dots(ax: Axes, values, color, marker, label, shift=0.0) -> None:
    """One dot per trial, and the mean as a bar."""
    for place, own in enumerate(values.values()):
        at = place + shift + np.linspace(-0.12, 0.12, len(own))
        ax.plot(at, own, color=color, marker=marker, ls="none", label=None if place else label)
        ax.plot(
            [place + shift - 0.2, place + shift + 0.2], [own.mean()] * 2, color=color, lw=2, ls="-"
        )
    names = [_SHOWN[name] for name in values]
    ax.set_xticks(range(len(names)), names, rotation=25, ha="right", rotation_mode="anchor")
    ax.grid(visible=False, axis="x")


def _plot_penalties(ax: Axes, config: Config, results: Results) -> None:
    kept = ("neither", "R3", "R1", "R1 and R3")
    for column, color, marker, label, shift in (
        ("r1", COLORS[1], "D", "$R_1$, on unlabelled points", -0.22),
        ("r3", COLORS[4], "s", "$R_3$, on training points", 0.22),
    ):
        found = ends(results, config.baselines, column)
        _plot_dots(ax, {name: found[name] for name in kept}, color, marker, label, shift)
    ax.set(yscale="log", ylabel="at the end")
    ax.set_title("what the penalties leave")
    low, high = ax.get_ylim()
    ax.set_ylim(low / 200, high)  # room for the legend
    ax.legend(loc="lower left")


def _plot_courses(ax: Axes, results: Results, one: Courses, color: str, suffix: str) -> None:
    for order, (name, line, marker) in _MODELS.items():
        found = course(results, one, order, "gap")
        steps, values = found.steps[1:], found.seeds[:, 1:]  # at the start there is no gap
        every = max(1, len(steps) // 8)
        style = {"color": color, "ls": line, "marker": marker, "ms": 3.5, "markevery": every}
        band(ax, steps, values, **style, label=name + suffix)
