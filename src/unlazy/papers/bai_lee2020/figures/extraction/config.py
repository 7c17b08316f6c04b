# SPDX-License-Identifier: Apache-2.0
"""The configuration of the extraction figure, and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "bai_lee2020/extraction", 1
ASYMMETRIC = (0, 1, 3)  # nodes for order 2


@dataclass(frozen=True)
class Extraction:
    """The cell of one form at one order, for one seed: the size of each term, one row per width."""

    form: str  # "sampled" or "block"
    order: int
    widths: tuple[int, ...]  # groups of copies, not neurons
    nodes: tuple[int, ...] = ()  # empty: Chebyshev's
    inputs: int = 6
    n: int = 30
    draws: int = 8  # of the multipliers


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    widths: tuple[int, ...]
    seeds: int
    orders: tuple[int, ...] = (2, 3, 4)  # of the panels
    further: tuple[int, ...] = (5,)  # of the block form, in the claims only
    # The orders whose first term still exceeds the k-th at the largest width.
    undominated: tuple[int, ...] = (4,)

    def sampled(self, order: int) -> Extraction:
        return Extraction("sampled", order, self.widths)

    def asymmetric(self) -> Extraction:
        return Extraction("sampled", 2, self.widths, ASYMMETRIC)

    def block(self, order: int) -> Extraction:
        return Extraction("block", order, self.widths)


def cells(config: Config) -> list[Cell]:
    listed = [*map(config.sampled, config.orders), config.asymmetric()]
    listed += map(config.block, (*config.orders, *config.further))
    return [_cell(one, seed) for one in listed for seed in range(config.seeds)]


def _cell(config: Extraction, seed: int) -> Cell:
    nodes = f", nodes {config.nodes}" if config.nodes else ""
    label = f"{config.form}, order {config.order}{nodes}, seed {seed}"
    return Cell(NAME, VERSION, config, seed, label)
