# SPDX-License-Identifier: Apache-2.0
"""What the paper says of Figure 2, as numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unlazy.experiments import Claim, Results
from unlazy.papers.arora2019.figures.figure2.config import Config
from unlazy.papers.arora2019.figures.problems import ConvergedNetwork, Network, Problem
from unlazy.papers.shared.grids.tuning import merge


@dataclass(frozen=True)
class Panel:
    """The tables of one data set, with a row per fraction."""

    problem: Problem
    kernel: dict[str, np.ndarray]
    network: dict[str, np.ndarray]


def panels_of(config: Config, results: Results) -> Iterator[Panel]:
    found = {cell.config: result.table for cell, result in results.items()}
    for problem in config.problems():
        network = merge([found[trained] for trained in config.trained(problem)])
        yield Panel(problem, found[config.infinite(problem)], network)


def claims(config: Config, results: Results) -> list[Claim]:
    panels = list(panels_of(config, results))
    return [
        Claim(
            "AR-81/rise",
            "Measure, test l1 and test error of the kernel rise with the share of random labels: "
            "least rank correlation with it",
            min(
                rank_correlation(panel.kernel["fraction"], panel.kernel[name])
                for panel in panels
                for name in ("measure", "l1", "error")
            ),
            ">=",
            0.9,
            note="one swap of neighbours among five gives 0.9",
        ),
        Claim(
            "AR-81/networks",
            "The measure ranks the test errors of the trained networks: least rank correlation",
            min(
                rank_correlation(panel.kernel["measure"], panel.network["error"])
                for panel in panels
            ),
            ">=",
            0.9,
        ),
        Claim(
            "AR-81/order",
            "The test l1 loss lies above the test error, for kernel and network: least difference",
            min(
                float(np.min(table["l1"] - table["error"]))
                for panel in panels
                for table in (panel.kernel, panel.network)
            ),
            ">=",
            0.0,
        ),
        Claim(
            "AR-81/bound",
            "The measure lies above the test error of the kernel: least difference",
            min(float(np.min(p.kernel["measure"] - p.kernel["error"])) for p in panels),
            ">=",
            0.0,
        ),
        *_converged(config.network, panels),
    ]


def _converged(network: Network, panels: list[Panel]) -> list[Claim]:
    """Whether the networks fit their labels, where they are asked to."""
    if not isinstance(network, ConvergedNetwork):
        return []
    return [
        Claim(
            "AR-81/converged",
            "The networks are trained until convergence: largest training mean square",
            max(float(np.max(panel.network["train_mse"])) for panel in panels),
            "<=",
            network.training_mse,
        )
    ]


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's correlation: that of the ranks, where ties share a rank."""
    from scipy.stats import rankdata  # here, because importing it takes a second

    # One swap among five is 0.9 exactly, which rounding must not put below a threshold of 0.9.
    return round(float(np.corrcoef(rankdata(a), rankdata(b))[0, 1]), 12)
