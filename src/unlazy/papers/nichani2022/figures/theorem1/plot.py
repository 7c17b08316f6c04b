# SPDX-License-Identifier: Apache-2.0
"""How the experiment on Theorem 1 is drawn, from the stored table."""

import numpy as np

from unlazy.core.drawing import COLORS, LINES, Figure, band, figure
from unlazy.experiments import Results
from unlazy.papers.nichani2022.figures.theorem1.claims import curves, promised
from unlazy.papers.nichani2022.figures.theorem1.config import Config

_FLOOR = 1e-4  # of the logarithmic axes
_LABELS = ("no penalties", "R1 to R4")


def plot(config: Config, results: Results) -> Figure:
    found, one = curves(config, results), config.descents
    fig = figure(9.6, 3.2)
    axes = fig.subplots(1, 3)
    panels = (found.train, found.test, found.r3)
    titles = ("training loss", "population loss", "regulariser $R_3$")
    for ax, values, title in zip(axes, panels, titles, strict=True):
        # The mean and one standard deviation about it, of the logarithms.
        held = np.log(np.maximum(values, _FLOOR / 10))
        mean, spread = held.mean(axis=0), held.std(axis=0)
        for i, label in enumerate(_LABELS):
            ends = np.exp(np.stack([mean[i] - spread[i], mean[i] + spread[i]]))
            style = {"color": COLORS[i], "ls": LINES[i], "label": label}
            band(ax, found.step, ends, middle=np.exp(mean[i]), **style)
        ax.set(xlabel="step", xlim=(0, found.step[-1]), ylim=(_FLOOR, 3), title=title, yscale="log")
    axes[1].axhline(promised(config), color="black", lw=0.8, ls=(0, (1, 1)))
    axes[1].set_ylim(0.05, 1.5)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=2, handlelength=2.6)
    p = one.problem
    fig.suptitle(
        f"The network on $x_1 - 1 + (\\beta^\\top x)^2$, log-cosh loss: d = {p.inputs}, n = {p.n}, "
        f"m = {p.width}; dotted: $\\varepsilon + \\sqrt{{d/n}}$",
        fontsize=10,
    )
    return fig
