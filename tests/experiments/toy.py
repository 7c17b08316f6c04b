# SPDX-License-Identifier: Apache-2.0
"""A small experiment for the tests; `python toy.py OUT` runs it and prints a line a cell."""

import sys
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from unlazy.experiments import Cell, CellResult, Claim, Experiment, Preset, run_experiment
from unlazy.experiments.progress import LineReporter

NAME, VERSION = "toy/figure1", 3


@dataclass(frozen=True)
class ToyConfig:
    cells: int
    n: int
    threshold: float = 0.1


@dataclass(frozen=True)
class ToyCell:
    index: int
    n: int


def cells(config):
    return [
        Cell(NAME, VERSION, ToyCell(i, config.n), seed=i, label=f"cell {i}")
        for i in range(config.cells)
    ]


def run(config, *, seed, progress):
    # Elementwise work and a sort: unlike a BLAS product, the same bits whatever the threads do.
    x = np.random.default_rng([seed, config.index]).standard_normal(config.n)
    means = []
    for step in range(10):
        x = np.sin(x) + 0.1 * np.sort(x)
        means.append(x.mean())
        progress(step + 1, 10)
    table = {
        "step": np.arange(10),
        "mean": np.array(means),
        "sign": np.array(["plus" if mean > 0 else "minus" for mean in means]),
    }
    return CellResult(table, {"x": x[:1000]})


def claims(config, results):
    largest = max(float(np.abs(result.table["mean"]).max()) for result in results.values())
    return [Claim("TOY-1", "The mean stays small.", largest, "<", config.threshold)]


def plot(config, results):
    fig = Figure(figsize=(4, 3))
    ax = fig.add_subplot(title=f"{config.cells} cells", xlabel="step", ylabel="mean")
    for cell, result in results.items():
        ax.plot(result.table["step"], result.table["mean"], label=cell.label)
    return fig


def notes(config):
    return [] if config.n > 1000 else ["few points"]


EXPERIMENT = Experiment(
    name=NAME,
    title="A toy",
    version=VERSION,
    presets={
        "smoke": Preset(ToyConfig(cells=3, n=1000), about="3 cells", takes="no time"),
        "quick": Preset(ToyConfig(cells=12, n=100_000), about="12 cells", takes="a second"),
        "strict": Preset(ToyConfig(cells=3, n=1000, threshold=0.0), about="fails", takes="no time"),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
    notes=notes,
)

if __name__ == "__main__":
    report = run_experiment(EXPERIMENT, "quick", out=sys.argv[1], progress=LineReporter(sys.stderr))
    sys.stderr.write(f"computed {report.computed}\n")
