# SPDX-License-Identifier: Apache-2.0
"""The configuration of Figure 4, and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "allenzhu_li2019/figure4", 1


@dataclass(frozen=True)
class Training:
    """The cell of a grid of runs of SGD on a parity of some of the coordinates."""

    width: int
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    inputs: int = 40
    n: int = 5000
    epochs: int = 800
    batch_size: int = 50
    n_test: int = 10_000
    degree: int = 6


@dataclass(frozen=True)
class HandBuilt:
    """The cell of runs on the whole cube of the parity's own coordinates, to be padded by zeros."""

    decays: tuple[float, ...]
    steps: int
    width: int = 200
    rate: float = 2.0
    degree: int = 6


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    trainings: tuple[Training, ...]
    built: HandBuilt
    least_test: float  # what no run's test error goes below
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset


def cells(config: Config) -> list[Cell]:
    labels: dict[Training | HandBuilt, str] = {config.built: "built by hand"}
    for one in config.trainings:
        labels[one] = f"m = {one.width}, {len(one.rates) * len(one.decays)} runs"
    return [Cell(NAME, VERSION, one, label=label) for one, label in labels.items()]
