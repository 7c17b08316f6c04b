# SPDX-License-Identifier: Apache-2.0
"""What the paper says of samples against the width, as numbers."""

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Claim, Results, with_record
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.config import VARIANTS, Config


class Losses:
    """The losses by variant, width, number of samples and seed."""

    def __init__(self, config: Config, results: Results) -> None:
        self.config = config
        self._found = {(cell.config, cell.seed): result for cell, result in results.items()}

    def of(self, variant: int, column: str) -> Float[np.ndarray, "seeds widths sizes"]:
        """A column of the tables."""
        return np.array(
            [
                [self._cell(variant, m, seed).table[column] for m in self.config.widths]
                for seed in range(self.config.seeds)
            ]
        )

    def needed(self, variant: int) -> Float[np.ndarray, " widths"]:
        """The samples at which the mean gap over seeds falls to the level, by width."""
        found = self.gaps(variant).mean(axis=0)
        return np.array([crossing(self.config.sizes, row, self.level) for row in found])

    def gaps(self, variant: int) -> Float[np.ndarray, "seeds widths sizes"]:
        """The generalisation gaps: test loss less training loss."""
        return self.of(variant, "test") - self.of(variant, "train")

    @property
    def level(self) -> float:
        """The gap that samples are counted to."""
        zero = [float(result.arrays["zero"]) for result in self._found.values()]
        return self.config.share * float(np.mean(zero))

    def _cell(self, variant: int, width: int, seed: int):
        return self._found[self.config.sweep(variant, width), seed]


def crossing(sizes: tuple[int, ...], gaps: Float[np.ndarray, " sizes"], level: float) -> float:
    """Where gaps first fall to the level, between sizes by lines in log N; inf if never."""
    below = np.flatnonzero(gaps <= level)
    if not len(below):
        return np.inf
    i = int(below[0])
    if i == 0:
        return float(sizes[0])
    x, y = np.log(sizes[i - 1 : i + 1]), gaps[i - 1 : i + 1]
    return float(np.exp(x[0] + (level - y[0]) * (x[1] - x[0]) / (y[1] - y[0])))


def exponent(widths: tuple[int, ...], needed: Float[np.ndarray, " widths"]) -> float:
    """The slope of needed samples in the width, in logarithms; nan where one is infinite."""
    if not np.all(np.isfinite(needed)):
        return float("nan")
    return float(np.polyfit(np.log(widths), np.log(needed), 1)[0])


def claims(config: Config, results: Results) -> list[Claim]:
    losses = Losses(config, results)
    listed = []
    for variant, name, most in ((2, "second", 0.25), (1, "first", 1.5)):
        needed = losses.needed(variant)
        words = "almost independent of" if variant == 2 else "at most m^(3/2) in"
        said = f"Variant {variant} needs a number of samples {words} the width: exponent"
        note = f"{', '.join(f'{n:.3g}' for n in needed)} samples at m = {config.widths}"
        measured = exponent(config.widths, needed)
        listed.append(Claim(f"LG-6/{name}", said, measured, "<=", most, note=note))
    said = (
        "The generalisation gap falls with the samples: largest gap at the most samples over that "
    )
    said += "at the fewest, of all widths and both variants"
    gaps = np.concatenate([losses.gaps(variant).mean(axis=0) for variant in VARIANTS])
    measured = float(np.max(gaps[:, -1] / gaps[:, 0]))
    listed.append(Claim("LG-6/falls", said, measured, "<", 0.5))
    said = (
        "The gap of variant 2 is as small in a wide network as in a narrow one: its mean over the "
    )
    said += "samples at the largest width over that at the smallest"
    means = {variant: losses.gaps(variant).mean(axis=(0, 2)) for variant in VARIANTS}
    note = f"variant 1: {means[1][-1] / means[1][0]:.3g}"
    measured = float(means[2][-1] / means[2][0])
    listed.append(Claim("LG-6/gap", said, measured, "<=", 1.5, note=note))
    return with_record(listed, config.refuted)
