# SPDX-License-Identifier: Apache-2.0
"""The configuration of the figure on samples against the width, and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "allenzhu_li_liang2019/width_and_samples", 1
VARIANTS = (1, 2)


@dataclass(frozen=True)
class Sweep:
    """A cell: one variant at one width and one seed, for every number of samples.

    Every training takes the same steps, `rounds` times `inner_steps`, with a step size of
    `rate / width`. Each of `sizes` divides the last: all trainings are then one program.
    """

    variant: int
    width: int
    sizes: tuple[int, ...]
    rounds: int = 20
    inner_steps: int = 200
    rate: float = 0.64
    decay: float = 0.02
    n_test: int = 2000


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    widths: tuple[int, ...]
    sizes: tuple[int, ...]
    seeds: int
    rounds: int = 20
    inner_steps: int = 200
    share: float = 0.1  # of the zero predictor's loss: the gap that samples are counted to
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset

    def sweep(self, variant: int, width: int) -> Sweep:
        """The cell's configuration."""
        return Sweep(variant, width, self.sizes, self.rounds, self.inner_steps)


def cells(config: Config) -> list[Cell]:
    return [
        Cell(
            NAME,
            VERSION,
            config.sweep(variant, width),
            seed,
            f"variant {variant}, m = {width}, seed {seed}",
        )
        for variant in VARIANTS
        for width in config.widths
        for seed in range(config.seeds)
    ]
