# SPDX-License-Identifier: Apache-2.0
"""The plot of Theorem 1, from the stored tables."""

from unlazy.core.drawing import COLORS, Axes, Figure, figure
from unlazy.experiments import Results
from unlazy.papers.allenzhu_li2019.figures.theorem1.claims import curve, late_risk
from unlazy.papers.allenzhu_li2019.figures.theorem1.config import Config, Training


def plot(config: Config, results: Results) -> Figure:
    fig = figure(9.6, 3.4)
    left, middle, right = fig.subplots(1, 3)
    for i, one in enumerate(config.by_alpha):
        color = COLORS[i % len(COLORS)]
        _draw(left, results, one, color, "-", f"$\\alpha$ = {one.alpha:g}")
        left.axhline(one.floor, color=color, lw=0.7, ls=":")
    _draw(left, results, config.layer_wise, "black", "--", "layer by layer")
    left.set(xlabel="samples", ylabel=r"risk $E\|H - \mathrm{out}\|^2$", xscale="log", yscale="log")
    left.legend(fontsize=7.5)
    alphas = [one.alpha for one in config.by_alpha]
    late = [late_risk(results, one) for one in config.by_alpha]
    middle.plot(alphas, late, color=COLORS[0], marker="o", label="SGD, second half")
    for power, style in ((4, ":"), (2, "--")):
        bound = [one.outputs * one.alpha**power for one in config.by_alpha]
        middle.plot(alphas, bound, color="gray", ls=style, label=f"$k\\alpha^{power}$")
    middle.set(xlabel=r"$\alpha$", xscale="log", yscale="log")
    middle.set_xticks(alphas, [f"{alpha:g}" for alpha in alphas])
    middle.minorticks_off()
    middle.legend(fontsize=7.5)
    opts = [one.opt for one in config.by_noise]
    noisy = [late_risk(results, one) for one in config.by_noise]
    right.plot(opts, noisy, color=COLORS[1], marker="s", label="SGD, second half")
    bound = [one.opt + one.floor for one in config.by_noise]
    right.plot(opts, bound, color="gray", ls=":", label=r"OPT + $k\alpha^4$")
    right.set(xlabel="OPT", xscale="log", yscale="log")
    right.legend(fontsize=7.5)
    return fig


def _draw(ax: Axes, results: Results, one: Training, color: str, style: str, label: str) -> None:
    step, risk = curve(results, one, "step"), curve(results, one, "risk")
    ax.plot(step[1:], risk[1:], color=color, ls=style, lw=1.1, label=label)
