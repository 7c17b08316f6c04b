# SPDX-License-Identifier: Apache-2.0
"""The configuration of the coupling figure, and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "bai_lee2020/coupling", 1


@dataclass(frozen=True)
class Parts:
    """The cell of the left panel for one seed: the size of each part at movements of m^-1/4."""

    widths: tuple[int, ...]
    inputs: int = 8
    n: int = 40
    draws: int = 6  # of the signs


@dataclass(frozen=True)
class Trained:
    """The cell of one network of the right panels: SGD on the randomised risk of 2-XOR."""

    width: int
    steps: int = 600
    inputs: int = 10
    n: int = 200
    n_test: int = 2000
    penalty: float = 1e-5
    rate: float = 0.4  # times sqrt(m); a fifth of it for the last 40% of the steps
    draws: int = 50  # pairs of signs to measure with


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    parts: Parts
    parts_seeds: int
    trained: tuple[Trained, ...]
    trained_seeds: int


def cells(config: Config) -> list[Cell]:
    listed = [
        Cell(NAME, VERSION, config.parts, seed, f"sizes of the parts, seed {seed}")
        for seed in range(config.parts_seeds)
    ]
    return listed + [
        Cell(NAME, VERSION, one, seed, f"training, m = {one.width}, seed {seed}")
        for one in config.trained
        for seed in range(config.trained_seeds)
    ]
