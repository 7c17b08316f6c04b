# SPDX-License-Identifier: Apache-2.0
"""How Appendix G is drawn with the settings of the authors' code."""

from unlazy.core.drawing import COLORS, LINES, Axes, Figure, band, figure
from unlazy.experiments import Results
from unlazy.papers.nichani2022.figures.appendix_g.authors.claims import Path, curves, path
from unlazy.papers.nichani2022.figures.appendix_g.authors.config import AuthorsConfig

_MODELS = {0: "$f$", 1: "$f_L$", 2: "$f_L + f_Q$"}


def authors_plot(config: AuthorsConfig, results: Results) -> Figure:
    fig = figure(9.6, 3.4)
    strengths, training, testing = fig.subplots(1, 3)
    _plot_strengths(strengths, config, results)
    for order, name in _MODELS.items():
        own = path(results, order, order)
        _plot_path(training, own, "train", order, name)
        _plot_path(testing, own, "test", order, name)
    for order in (1, 2):
        along = path(results, 0, order)
        name = f"{_MODELS[order]} at the weights of $f$"
        _plot_path(testing, along, "test", order, name, ls=":")
    for ax, title in ((training, "training loss"), (testing, "test loss")):
        ax.set(xlabel="epoch", title=f"CNN on CIFAR-10: {title}", ylim=(0, 1.5))
        ax.set_xlim(left=0)
        ax.legend(loc="upper right", fontsize=7.5)
    return fig


def _plot_strengths(ax: Axes, config: AuthorsConfig, results: Results) -> None:
    found, one = curves(config.penalties, results), config.penalties
    for i, strength in enumerate(one.strengths):
        style = {"color": COLORS[i], "ls": LINES[i], "label": rf"$\lambda_1$ = {strength:g}"}
        band(ax, found.step, found.test[:, i], **style)
    ax.set(xlabel="step", ylim=(0, None), title=f"test loss, $R_3$ at {one.lam3:g}")
    ax.set_xlim(left=0)
    ax.legend(loc="upper right", fontsize=7.5)


def _plot_path(ax: Axes, found: Path, column: str, order: int, name: str, ls: str = "-") -> None:
    ax.plot(found.epoch, getattr(found, column), color=COLORS[order], ls=ls, label=name)
