# SPDX-License-Identifier: Apache-2.0
"""The configuration of Figure 3, and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell
from unlazy.papers.allenzhu_li2019.figures.figure2.config import Grid
from unlazy.papers.allenzhu_li2019.figures.samples import Task

NAME, VERSION = "allenzhu_li2019/figure3", 1


@dataclass(frozen=True)
class Sweep:
    """The cell of one method at one width, for all sizes of the base signal and some seeds."""

    method: str
    task: Task
    width: int
    betas: tuple[float, ...]
    grid: Grid
    epochs: int
    seeds: int
    batch_size: int = 50


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    sweeps: tuple[Sweep, ...]  # their seeds are those of a cell
    seeds: int
    margin: float  # below which fraction of k alpha^2 the composite counts as learnt
    orders: bool = True  # whether it is large enough for claims
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset


def cells(config: Config) -> list[Cell]:
    listed = [(s, seed) for s in config.sweeps for seed in range(0, config.seeds, s.seeds)]
    return [
        Cell(NAME, VERSION, s, seed, f"{s.method}, m = {s.width}, N = {s.task.n}, from seed {seed}")
        for s, seed in listed
    ]
