# SPDX-License-Identifier: Apache-2.0
"""The settings of Figure 2 and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "nichani2022/figure2", 1
LEVEL = 0.1  # the test loss whose price in samples is counted


@dataclass(frozen=True)
class Sweep:
    """A cell: one dimension, all sample sizes and seeds, network and kernel.

    The kernel sees the sizes of the network, and those around `kernel_ratios` times d^3 that are
    at most `kernel_most`.
    """

    inputs: int
    seeds: int
    ratios: tuple[float, ...] = (1.5, 2.0, 2.5, 3.0, 4.0)  # n / d^2
    kernel_ratios: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)  # n / d^3
    kernel_most: int = 4100
    width: int = 200
    # Above the 2 pi/m = 0.031 at which descent on the linear model diverges: the network survives
    # that, and learns by it. At 0.025 it needs more samples than are looked at here.
    learning_rate: float = 0.05
    steps: int = 3000
    n_test: int = 2000

    @property
    def methods(self) -> tuple[str, ...]:
        return "network", "kernel"

    @property
    def sizes(self) -> list[int]:
        return [round(ratio * self.inputs**2) for ratio in self.ratios]

    @property
    def kernel_sizes(self) -> list[int]:
        cubic = [round(ratio * self.inputs**3) for ratio in self.kernel_ratios]
        return sorted({*self.sizes, *(n for n in cubic if n <= self.kernel_most)})


@dataclass(frozen=True)
class AuthorsSweep:
    """A cell: one dimension as in the authors' code, with n = d^2, 2 d^2, ... up to the level.

    Gaussian inputs, a target that is not scaled to the dimension, and no kernel. The authors train
    one network per size; here a size counts as reached by the median over the seeds, and some
    sizes are trained together.

    Source: the published code of arXiv:2206.03688, github.com/eshnich/escape_NTK.
    """

    inputs: int
    seeds: int = 3
    most: int = 20  # n / d^2, at most
    together: int = 4
    width: int = 100
    learning_rate: float = 0.05
    steps: int = 30_000
    n_test: int = 10_000

    @property
    def methods(self) -> tuple[str, ...]:
        return ("network",)

    @property
    def sizes(self) -> list[int]:
        return [ratio * self.inputs**2 for ratio in range(1, self.most + 1)]


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    sweeps: tuple[Sweep, ...] | tuple[AuthorsSweep, ...]
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset


def cells(config: Config) -> list[Cell]:
    return [Cell(NAME, VERSION, one, label=f"d = {one.inputs}") for one in config.sweeps]
