# SPDX-License-Identifier: Apache-2.0
"""The drawing of the coupling figure from the stored tables."""

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, band, figure, spanning
from unlazy.experiments import CellResult, Results
from unlazy.papers.bai_lee2020.figures.coupling.claims import panels_of
from unlazy.papers.bai_lee2020.figures.coupling.config import Config
from unlazy.papers.bai_lee2020.figures.exponents import curve, power_law

_SIGNS, _PLAIN = "-", (0, (4, 2))
_PARTS = (
    ("f_L_plain", r"$f^L$", COLORS[0], _PLAIN, "^"),
    ("f_Q", r"$f^Q$", COLORS[2], _SIGNS, "s"),
    ("rest_plain", r"$\Delta^Q$", COLORS[1], _PLAIN, "^"),
    ("f_L_signs", r"$f^L$", COLORS[0], _SIGNS, "o"),
    ("rest_signs", r"$\Delta^Q$", COLORS[1], _SIGNS, "o"),
    ("rest_signs_mean", r"$E_s\Delta^Q$", COLORS[6], (0, (1, 1)), ""),
)


def plot(config: Config, results: Results) -> Figure:
    panels = panels_of(config, results)
    fig = figure(8.0, 4.2)
    grid = fig.add_gridspec(2, 2, width_ratios=(1.15, 1))
    _plot_parts(fig.add_subplot(grid[:, 0]), panels.parts)
    risks = fig.add_subplot(grid[0, 1])
    _plot_risks(risks, panels.trained)
    _plot_outputs(fig.add_subplot(grid[1, 1], sharex=risks), panels.trained)
    risks.tick_params(labelbottom=False)
    return fig


def _plot_parts(ax: Axes, parts: list[CellResult]) -> None:
    ends: list[tuple[float, str, str]] = []
    for name, label, color, line, marker in _PARTS:
        values = curve(parts, name)
        style = {"color": color, "ls": line, "marker": marker}
        band(ax, values.sizes, values.seeds, middle=values.rms, **style)
        fit = values.exponent
        text = f"{label}: ${fit.value:+.3f} \\pm {fit.error:.3f}$"
        ends.append((float(values.rms[-1]), text, color))
    for line, text in ((_PLAIN, "no signs"), (_SIGNS, "random signs"), ((0, (1, 1)), "their mean")):
        ax.plot([], [], color="gray", ls=line, label=text)
    ax.set(xlabel="width m", ylabel="rms over inputs and signs", yscale="log")
    ax.set_xscale("log", base=2)
    ax.set_ylim(bottom=ax.get_ylim()[0] / 12)
    _label_ends(ax, ends)
    ax.legend(loc="lower left")
    ax.set_title(r"movements of $m^{-1/4}$, fitted exponents" + f" ({len(parts)} seeds)")


def _label_ends(ax: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Write texts right of the axes, at the height of the curves but never on each other."""
    low, high = np.log(ax.get_ylim())
    heights: list[float] = []
    for value, text, color in sorted(ends):
        height = (np.log(value) - low) / (high - low)
        heights.append(max(height, heights[-1] + 0.055) if heights else height)
        ax.text(1.02, heights[-1], text, color=color, transform=ax.transAxes, va="center")


def _plot_risks(ax: Axes, trained: list[CellResult]) -> None:
    _with_bars(ax, trained, "risk_train", r"$L$, random signs", COLORS[0], "o", 0.97)
    _with_bars(ax, trained, "risk_Q_train", r"$L^Q$, quadratic model", COLORS[2], "s", 1.03)
    ax.set_ylabel("training risk")
    ax.set_xscale("log", base=2)
    ax.legend(loc="upper right")
    ax.set_title(f"SGD on 2-XOR ({len(trained)} seeds)")


def _plot_outputs(ax: Axes, trained: list[CellResult]) -> None:
    gap, f_Q = curve(trained, "gap_test"), curve(trained, "f_Q_test")
    fit = ""
    if len(gap.sizes) > 2:
        fit = f": exponent ${gap.exponent.value:+.3f} \\pm {gap.exponent.error:.3f}$"
    _with_bars(ax, trained, "f_Q_test", r"$f^Q$", COLORS[2], "s")
    _with_bars(ax, trained, "gap_test", r"$f - f^Q$" + fit, COLORS[0], "o")
    theory = power_law(gap.sizes, gap.rms, -0.25)
    ax.plot(gap.sizes, theory, color="black", lw=1.0, ls=":", zorder=3, label=r"$m^{-1/4}$")
    ax.set(xlabel="width m", ylabel="rms on new inputs", yscale="log")
    ax.set_xscale("log", base=2)
    ticks = [0.125, 0.25, 0.5, 1, 2]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_ylim(spanning([*gap.mean, *f_Q.mean], 1 / 3.2, 1.3, otherwise=(0.1, 2.0)))
    ax.legend(loc="lower left")


def _with_bars(ax, trained, name: str, label: str, color: str, marker: str, shift: float = 1.0):
    values = curve(trained, name)
    style = {"color": color, "marker": marker, "ls": "-", "capsize": 2}
    places = values.sizes * shift  # apart, where bars would lie on each other
    ax.errorbar(places, values.mean, yerr=values.spread, label=label, **style)
