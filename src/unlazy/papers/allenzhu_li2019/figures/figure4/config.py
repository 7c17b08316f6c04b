# SPDX-License-Identifier: Apache-2.0
"""What Figure 4 is made of, and the cells that this gives."""

from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "allenzhu_li2019/figure4", 1


@dataclass(frozen=True)
class Training:
    """A cell: a grid of runs of SGD on a parity of some of the coordinates."""

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
    """A cell: runs on the whole cube of the parity's own coordinates, to be padded with zeros."""

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
    listed = [
        Cell(
            NAME,
            VERSION,
            one,
            label=f"m = {one.width}, {len(one.rates) * len(one.decays)} runs",
        )
        for one in config.trainings
    ]
    return [Cell(NAME, VERSION, config.built, label="built by hand"), *listed]
