# SPDX-License-Identifier: Apache-2.0
"""The settings of Figure 1 and its cell."""

from dataclasses import dataclass

from unlazy.experiments import Cell
from unlazy.papers.nichani2022.figures.trials import Problem

NAME, VERSION = "nichani2022/figure1", 1


@dataclass(frozen=True)
class Descents:
    """A cell: all strengths of R3 on some trials, as one program. Its seed is the first trial."""

    problem: Problem
    strengths: tuple[float, ...] = (0.0, 0.01, 0.1, 1.0, 10.0)
    trials: int = 5
    learning_rate: float = 10.0
    steps: int = 600
    noise: float = 0.01
    record_every: int = 20


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    descents: Descents
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset


def cells(config: Config) -> list[Cell]:
    one = config.descents
    label = f"{one.trials} trials, {len(one.strengths)} strengths"
    return [Cell(NAME, VERSION, one, label=label)]
