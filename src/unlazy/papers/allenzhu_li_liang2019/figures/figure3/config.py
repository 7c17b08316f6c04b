# SPDX-License-Identifier: Apache-2.0
"""The configurations and cells of Figure 3."""

from dataclasses import dataclass, replace

from unlazy.experiments import Cell

NAME, VERSION = "allenzhu_li_liang2019/figure3", 1
PENALTIES = ("decay", "norm")


@dataclass(frozen=True)
class Training:
    """A cell: 3layer under one penalty at one width, for `seeds` seeds from the cell's own on.

    "decay" is weight decay on both layers; "norm" decays the second alone and adds
    `strength * m * |W|_{2,4}^4` to the loss for the first.
    """

    penalty: str
    width: int
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    strengths: tuple[float, ...]
    seeds: int
    n: int = 1000
    epochs: int = 100
    extend: int = 1
    batch_size: int = 50
    n_validation: int = 1000
    n_test: int = 2000
    target: str = "composed-sines"


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    trainings: tuple[Training, ...]  # each with the seeds of the whole figure
    alone: tuple[int, ...] = ()  # widths at which each seed is a cell
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset

    @property
    def seeds(self) -> int:
        return self.trainings[0].seeds

    def widths(self) -> list[int]:
        return list(dict.fromkeys(one.width for one in self.trainings))

    def cells_of(self, training: Training) -> list[tuple[Training, int]]:
        """The cells of a training, each with its first seed."""
        if training.width not in self.alone:
            return [(training, 0)]
        return [(replace(training, seeds=1), seed) for seed in range(self.seeds)]


def cells(config: Config) -> list[Cell]:
    listed = []
    for training in config.trainings:
        for one, seed in config.cells_of(training):
            seeds = f"seed {seed}" if one.seeds == 1 else f"{one.seeds} seeds"
            label = f"{one.penalty}, m = {one.width}, {seeds}"
            listed.append(Cell(NAME, VERSION, one, seed, label))
    return listed
