# SPDX-License-Identifier: Apache-2.0
"""The configuration of the figure of Theorem 1, and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "allenzhu_li2019/theorem1", 1


@dataclass(frozen=True)
class Training:
    """The cell of one pass of Algorithm 1 over fresh samples of the hard class."""

    alpha: float
    steps: int
    noise: float = 0.0  # size of the random signs that are added to the labels
    layer_wise: bool = False  # half of the steps for the first layer, half for the second
    inputs: int = 9
    outputs: int = 2
    width: int = 300
    rate: float = 0.1
    rows: int = 100  # of the table, after the start

    @property
    def opt(self) -> float:
        """OPT, the half risk of the target itself."""
        return self.outputs * self.noise**2 / 2

    @property
    def floor(self) -> float:
        r"""$k \alpha^4$, what the theorem promises up to constants."""
        return self.outputs * self.alpha**4


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    by_alpha: tuple[Training, ...]  # without noise, from the largest alpha on
    by_noise: tuple[Training, ...]
    layer_wise: Training
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset

    @property
    def trainings(self) -> tuple[Training, ...]:
        return (*self.by_alpha, *self.by_noise, self.layer_wise)


def cells(config: Config) -> list[Cell]:
    return [Cell(NAME, VERSION, one, label=_label(one)) for one in config.trainings]


def _label(one: Training) -> str:
    noise = f", noise {one.noise:g}" if one.noise else ""
    return f"alpha = {one.alpha:g}{noise}{', layer by layer' if one.layer_wise else ''}"
