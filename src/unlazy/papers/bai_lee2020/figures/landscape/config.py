# SPDX-License-Identifier: Apache-2.0
"""The configuration of the landscape figure, and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "bai_lee2020/landscape", 1


@dataclass(frozen=True)
class Descents:
    """The cell of one width and one draw of data and network: descents from W = 0 and others.

    Clean 2-XOR with logistic loss on the cube, and the penalty `strength` times ||W||_{2,4}^8.
    """

    width: int
    kicked: int = 5  # perturbed descents from W = 0, each with its own kicks
    random: int = 8  # and from random movements
    inputs: int = 8
    n: int = 160
    strength: float = 1e-5
    random_norm: float = 2.5  # ||W||_{2,4} of those
    random_rate: float = 0.05  # their learning rate, times the largest curvature at the start
    steps: int = 20_000  # at most
    record_every: int = 10


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    descents: tuple[Descents, ...]
    seeds: int
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset


def cells(config: Config) -> list[Cell]:
    return [
        Cell(NAME, VERSION, descents, seed, f"m = {descents.width}, draw {seed}")
        for descents in config.descents
        for seed in range(config.seeds)
    ]
