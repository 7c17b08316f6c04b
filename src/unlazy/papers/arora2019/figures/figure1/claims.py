# SPDX-License-Identifier: Apache-2.0
"""What the paper says of Figure 1, as numbers."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from unlazy.experiments import CellResult, Claim, Results
from unlazy.papers.arora2019.figures.figure1.config import LABELS, Config, Spectrum, Training


def claims(config: Config, results: Results) -> list[Claim]:
    panels = list(panels_of(config, results))
    flat = math.sqrt(2 / math.pi)
    flat_error = 4 * math.sqrt((1 - 2 / math.pi) / config.n)  # passes with probability 1 - 6e-5
    return [
        Claim(
            "AR-80/order",
            "True labels train fastest, random ones slower, the worst slowest: "
            "smallest ratio of final residuals, next to previous",
            min(_order(panel, _first) for panel in panels),
            ">",
            1.0,
            # The outputs at the start, soon fitted away, are then much of the first residual.
            expected="refuted" if config.worst_of_norm_one else "holds",
            note=f"over the label norms {min(_order(panel, _norm) for panel in panels):.3g}",
        ),
        Claim(
            "AR-80/decay",
            "The eigenvalues of H-infinity decay fast: exponent over indices 10 to n/2",
            max(_decay(panel["spectrum"].table["eigenvalue"]) for panel in panels),
            "<=",
            -0.5,
        ),
        Claim(
            "AR-80/top",
            "True labels lie on the top eigenvectors: least share of their energy on the first "
            "tenth, where a flat one would have 0.1",
            min(_top_share(panel["spectrum"].table["projection_true"]) for panel in panels),
            ">=",
            0.3,
        ),
        Claim(
            "AR-80/flat",
            "Random labels project evenly on all eigenvectors: mean |projection|, furthest from "
            "sqrt(2/pi)",
            max(
                (np.abs(panel["spectrum"].table["projection_random"]).mean() for panel in panels),
                key=lambda mean: abs(mean - flat),
            ),
            "in",
            (flat - flat_error, flat + flat_error),
        ),
        *(_overlay(config, panel) for panel in panels),
    ]


def _overlay(config: Config, panel: dict[str, Any]) -> Claim:
    name, true = panel["problem"].dataset, panel["true"]
    return Claim(
        f"AR-9/{name}",
        f"The loss of the true labels of {name} follows the prediction: largest deviation of the "
        "residual over the label norm",
        deviation(true),
        "<=",
        0.02,
        expected="refuted" if name in config.off_prediction else "holds",
        note=f"rho = {float(true.arrays['rho']):.2g}, lazy if far below 1",
    )


def panels_of(config: Config, results: Results) -> Iterator[dict[str, Any]]:
    """The problem and the four results of each data set."""
    found = {cell.config: result for cell, result in results.items()}
    for problem in config.problems():
        panel: dict[str, Any] = {"problem": problem, "spectrum": found[Spectrum(problem)]}
        for kind, labels in zip(LABELS, config.labels, strict=True):
            panel[kind] = found[Training(problem, labels, config.network)]
        yield panel


def deviation(result: CellResult) -> float:
    """Largest distance between the real and the predicted residual, over the label norm."""
    table = result.table
    gap = np.max(np.abs(table["residual"] - table["predicted"]))
    return float(gap / result.arrays["label_norm"])


def _order(panel: dict[str, Any], unit: Callable[[CellResult], float]) -> float:
    """The smallest ratio of two neighbours' final residuals, each in its own unit."""
    runs = [panel[kind] for kind in LABELS]
    true, random, worst = (run.table["residual"][-1] / unit(run) for run in runs)
    return float(min(random / true, worst / random))


def _first(run: CellResult) -> float:
    return run.table["residual"][0]


def _norm(run: CellResult) -> float:
    return float(run.arrays["label_norm"])


def _decay(eigenvalues: np.ndarray) -> float:
    index = np.arange(10, len(eigenvalues) // 2)
    return float(np.polyfit(np.log(index), np.log(eigenvalues[index - 1]), 1)[0])


def _top_share(projections: np.ndarray) -> float:
    energy = projections**2
    return float(energy[: len(energy) // 10].sum() / energy.sum())
