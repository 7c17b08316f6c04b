# SPDX-License-Identifier: Apache-2.0
"""The configuration of the certificate figure, and its cells."""

import math
from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "allenzhu_li2019/certificates", 1
ALPHA = 0.3
_ANGULAR = ("arcsin", "conjugate-2", "tangent-2", "tangent-3")
KERNELS = ("gaussian", *_ANGULAR, "exponential", "cubic")
LITERAL = ("gaussian", "tangent-3", "exponential")  # the kernels of RN-46
FEATURES, EXTREMAL, ALL = "relu features", "parities", "every dot product"


@dataclass(frozen=True)
class Sweep:
    """The cell of one learner and one sample: how many targets are bad, per sample size."""

    d: int
    k: int
    learner: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Remark:
    """The cell of one kernel with coordinates off the cube: exact against averaged risks."""

    learner: str
    sizes: tuple[int, ...]
    d: int = 8
    k: int = 3
    extra: int = 3
    weights: tuple[float, ...] = (0.6, 0.3, 0.1)


@dataclass(frozen=True)
class Panel:
    """One dimension and degree, and the sample sizes."""

    d: int
    k: int
    sizes: tuple[int, ...]

    @property
    def targets(self) -> int:
        return math.comb(self.d, self.k)

    def sweep(self, learner: str) -> Sweep:
        return Sweep(self.d, self.k, learner, self.sizes)


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    panels: tuple[Panel, ...]
    literal: tuple[Panel, ...]  # in the regime of the theorem, in the claims only
    seeds: int
    kernels: tuple[str, ...] = KERNELS
    remark_sizes: tuple[int, ...] = (20, 56, 150)

    @property
    def learners(self) -> tuple[str, ...]:
        return (*self.kernels, FEATURES, EXTREMAL, ALL)

    @property
    def literal_kernels(self) -> tuple[str, ...]:
        return tuple(name for name in self.kernels if name in LITERAL)


def cells(config: Config) -> list[Cell]:
    listed: list[Sweep | Remark] = []
    for panel in config.panels:
        listed += map(panel.sweep, config.learners)
    for panel in config.literal:
        listed += map(panel.sweep, config.literal_kernels)
    listed += [Remark(name, config.remark_sizes) for name in config.literal_kernels]
    return [_cell(one, seed) for one in listed for seed in range(config.seeds)]


def _cell(config: Sweep | Remark, seed: int) -> Cell:
    kind = "remark, " if isinstance(config, Remark) else ""
    label = f"{kind}{config.learner}, d = {config.d}, k = {config.k}, seed {seed}"
    return Cell(experiment=NAME, version=VERSION, config=config, seed=seed, label=label)
