# SPDX-License-Identifier: Apache-2.0
"""The drawing of the sample-complexity figure from the stored tables."""

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, band, figure, spanning
from unlazy.experiments import Results
from unlazy.papers.bai_lee2020.figures.exponents import fitted_exponent, power_law
from unlazy.papers.bai_lee2020.figures.sample_complexity.claims import LEVEL, price, scores
from unlazy.papers.bai_lee2020.figures.sample_complexity.config import Config, Task

_THIN = (0, (3, 1.5))
_METHODS = (
    ("ntk/ridge", "NTK, ridge", COLORS[0], "-", "o"),
    ("ntk/loss", r"NTK, loss of $f^Q$", COLORS[0], _THIN, ""),
    ("kq/ridge", r"$K_Q$, ridge", COLORS[1], "-", "s"),
    ("kq/loss", r"$K_Q$, loss of $f^Q$", COLORS[1], _THIN, ""),
    ("f_Q", r"$f^Q$", COLORS[2], "-", "^"),
    ("signed", "network, one draw of signs", COLORS[3], ":", ""),
)
_TARGETS = {
    "two-xor": "2-XOR on the cube",
    "product": r"$x_1 x_2$ on the sphere",
    "quartic": r"$x_1^4$ on the sphere",
}


def plot(config: Config, results: Results) -> Figure:
    panels = len(config.tasks) + bool(config.dimensions)
    columns = panels if panels < 4 else (panels + 1) // 2
    rows = -(-panels // columns)
    fig = figure(0.6 + 3.1 * columns, 0.8 + 2.6 * rows)
    axes = fig.subplots(rows, columns, squeeze=False, gridspec_kw={"wspace": 0.06}).ravel()
    for ax, (task, seeds) in zip(axes, config.tasks, strict=False):
        _plot_task(ax, results, task, seeds)
    if config.dimensions:
        _plot_prices(axes[panels - 1], config, results)
    for ax in axes[panels:]:
        ax.set_axis_off()
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def _plot_task(ax: Axes, results: Results, task: Task, seeds: int) -> None:
    for method, label, color, line, marker in _METHODS:
        found = scores(results, task, method)
        ends = np.stack([found.mean - found.spread, found.mean + found.spread])
        style = {"color": color, "ls": line, "marker": marker, "lw": 1.0 if line == _THIN else 1.5}
        shade = 0.15 if marker else 0.0
        band(ax, found.sizes, ends, middle=found.mean, shade=shade, **style, label=label)
    ax.set_xscale("log")
    ax.set_xticks(task.ns, [str(n) for n in task.ns])
    ax.minorticks_off()
    ax.set(xlabel="samples n", ylim=(0, None))
    ax.set_ylabel("test error" if task.classifies else "test mean square / variance")
    ax.set_title(f"{_TARGETS[task.target]}, d = {task.inputs} ({seeds} seeds)")


def _plot_prices(ax: Axes, config: Config, results: Results) -> None:
    for method, label, color, _, marker in _METHODS:
        if method not in ("ntk/ridge", "f_Q"):
            continue
        found = price(config, results, method)
        d, n = found.dimensions, found.samples
        bars = np.stack([n - np.fmin.reduce(found.seeds), np.fmax.reduce(found.seeds) - n])
        fit = f": ${found.slope.value:.2f} \\pm {found.slope.error:.2f}$" if len(d) > 2 else ""
        style = {"color": color, "marker": marker, "capsize": 2}
        ax.errorbar(d, n, yerr=np.maximum(bars, 0), ls="none", label=label + fit, **style)
        ax.plot(d, power_law(d, n, found.slope.value), color=color, ls="-", lw=1)
    last = price(config, results, "f_Q")
    d = last.dimensions
    shape = d * np.log(d)
    level = np.exp(np.mean(np.log(last.samples / shape)))
    label = rf"$d \log d$: ${fitted_exponent(d, shape).value:.2f}$" if len(d) > 2 else r"$d \log d$"
    ax.plot(d, level * shape, color="black", lw=0.9, ls=":", label=label)
    ax.set(xscale="log", yscale="log", xlabel="dimension d")
    ax.set_ylabel(f"samples to {LEVEL:.0%} error")
    ax.set_xticks(d, [f"{x:.0f}" for x in d])
    ax.set_yticks(ticks := [30, 100, 300, 1000, 3000], [str(t) for t in ticks])
    ax.minorticks_off()
    highest = np.fmax.reduce(price(config, results, "ntk/ridge").seeds, axis=None)
    ax.set_ylim(spanning([last.samples[0], highest], 0.5, 1.4, otherwise=(10.0, 3000.0)))
    ax.set_title(f"2-XOR, not tuned ({config.dimension_seeds} seeds)")
    handles, labels = ax.get_legend_handles_labels()
    order = [1, 2, 0]  # bars come after lines; the NTK lies on top
    sorted_ = ([some[i] for i in order] for some in (handles, labels))
    title = {"title": "fitted exponent", "title_fontsize": 8.5, "alignment": "left"}
    ax.legend(*sorted_, loc="upper left", **title)
