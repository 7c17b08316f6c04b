# SPDX-License-Identifier: Apache-2.0
"""The drawing of the extraction figure from the stored tables."""

from typing import Any

from unlazy.core.drawing import COLORS, Figure, band, figure
from unlazy.experiments import Results
from unlazy.papers.bai_lee2020.figures.exponents import Curve, curve, power_law
from unlazy.papers.bai_lee2020.figures.extraction.claims import of, theory
from unlazy.papers.bai_lee2020.figures.extraction.config import Config

_LOWER = (COLORS[0], COLORS[5], COLORS[3])  # the terms below the k-th, in turn
_OWN, _NEXT = COLORS[6], COLORS[1]
_MARKERS, _DASHED = "ov^Ds", (0, (5, 1.5))


def plot(config: Config, results: Results) -> Figure:
    fig = figure(2.8 * len(config.orders), 6.6)
    axes = fig.subplots(2, len(config.orders), sharex=True, sharey="row", squeeze=False)
    for column, k in zip(axes.T, config.orders, strict=True):
        column[0].set_title(f"k = {k}")
        for j in range(1, k + 2):
            color = _OWN if j == k else _NEXT if j == k + 1 else _LOWER[j - 1]
            values = curve(of(results, config.sampled(k)), f"f{j}")
            line = "-" if j == k else _DASHED
            _draw(column[0], values, rf"$f^{{({j})}}$", theory(k, j), color, line, _MARKERS[j - 1])
        own, rest = (curve(of(results, config.block(k)), name) for name in (f"f{k}", "rest"))
        _draw(column[1], own, rf"$f^{{({k})}}$", 0.0, _OWN, "-", _MARKERS[k - 1])
        _draw(column[1], rest, rf"$f - f^{{({k})}}$", -1 / k, _NEXT, _DASHED, _MARKERS[k])
    asymmetric = curve(of(results, config.asymmetric()), "f3")
    _draw(axes[0, 0], asymmetric, r"$f^{(3)}_{0,1,3}$", -0.25, COLORS[4], (0, (1, 1)), "x")
    for ax in axes.flat:
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.04 if ax in axes[0] else -0.2),
            handlelength=2.4,
            labelspacing=0.3,
            title="fitted exponent (theory)",
        )
    axes[0, 0].set_ylabel(f"sampled: rms of each term ({config.seeds} seeds)")
    axes[1, 0].set_ylabel(f"all multiples at once: rms ({config.seeds} seeds)")
    for ax in axes[1]:
        ax.set_xlabel("groups of neurons m")
    return fig


def _draw(ax, values: Curve, label: str, slope: float, color: str, line: Any, marker: str):
    """Draw the sizes with their band and exponent, and a thin line of the theory's slope."""
    fit = values.exponent
    text = f"{label}: ${fit.value:+.3f} \\pm {fit.error:.3f}$ ({slope:+.3g})".replace("(+0)", "(0)")
    style: dict[str, Any] = {"color": color, "ls": line, "marker": marker, "label": text}
    band(ax, values.sizes, values.seeds, middle=values.rms, **style)
    ax.plot(values.sizes, power_law(values.sizes, values.rms, slope), color="gray", lw=0.7, ls="-")
