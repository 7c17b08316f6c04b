# SPDX-License-Identifier: Apache-2.0
"""What theory and earlier measurements say of the landscape, as numbers."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from unlazy.experiments import CellResult, Claim, Results, with_record
from unlazy.papers.bai_lee2020.figures.exponents import fitted_exponent
from unlazy.papers.bai_lee2020.figures.landscape.config import Config

WORSE = 1e-4  # what an end is above the best by, to count as another minimum

# By width: the end of perturbed descent, the best multiple of the movement made by hand, the bound.
_RECORDED = {
    4: (0.37538, 0.3854, 1.21),
    8: (0.32613, 0.3516, math.nan),
    16: (0.23873, 0.2760, 0.90),
    64: (0.18119, 0.2227, 0.73),
    256: (0.18713, 0.2350, 0.67),
}


class Width(NamedTuple):
    """The results of one width, one per draw of data and network."""

    width: int
    draws: list[CellResult]

    def of(self, name: str) -> Float[np.ndarray, " s"]:
        """One number of each cell, from its arrays."""
        return np.array([float(draw.arrays[name]) for draw in self.draws])

    def runs(self, name: str, *, random: bool) -> Shaped[np.ndarray, "s r"]:
        """A column of the tables, for the random starts or for those at 0."""
        return np.stack([d.table[name][d.table["random"] == random] for d in self.draws])

    @property
    def ends(self) -> Float[np.ndarray, " s"]:
        """The mean end of perturbed descent from 0."""
        return self.runs("loss", random=False).mean(axis=1)

    @property
    def above(self) -> Float[np.ndarray, "s r"]:
        """The ends of random starts less the best end of the cell."""
        best = np.array([draw.table["loss"].min() for draw in self.draws])
        return self.runs("loss", random=True) - best[:, None]

    @property
    def trapped(self) -> Bool[np.ndarray, "s r"]:
        """Whether each random start ends in another strict local minimum."""
        curved = self.runs("curvature", random=True) > 0
        return (self.above > WORSE) & curved & self.runs("arrived", random=True)


def widths_of(config: Config, results: Results) -> list[Width]:
    return [
        Width(d.width, [r for cell, r in results.items() if cell.config == d])
        for d in config.descents
    ]


def claims(config: Config, results: Results) -> list[Claim]:
    widths = widths_of(config, results)
    listed = [*_escape(widths), *_ends(widths), *_certificates(widths), *_random_starts(widths)]
    return with_record(listed, config.refuted)


def _escape(widths: list[Width]) -> Iterator[Claim]:
    last = [d.arrays["plain_loss"][-1] for w in widths for d in w.draws]
    said = "Plain descent from W = 0 stays at log 2: largest distance"
    measured = float(np.max(np.abs(np.array(last) - math.log(2))))
    yield Claim("BL-E5/plain", said, measured, "<=", 1e-12)
    said = "W = 0 is a strict saddle at every width: largest lmin sqrt(m)"
    measured = max(float(w.of("start_curvature").max()) for w in widths)
    note = "recorded at d = 10, m = 200: -.463"
    yield Claim("BL-E5/saddle", said, measured, "<", -0.1, note=note)
    said = "The kicks do not matter: largest spread of the ends over their seeds"
    measured = max(float(np.ptp(w.runs("loss", random=False), axis=1).max()) for w in widths)
    yield Claim("BL-E5/seeds", said, measured, "<=", 1e-5)


def _ends(widths: list[Width]) -> Iterator[Claim]:
    said = "Perturbed descent ends below the best multiple of W*: largest end less that"
    measured = max(float(np.max(w.ends - w.of("by_hand"))) for w in widths)
    yield Claim("BL-E5/by-hand", said, measured, "<", 0.0)
    for w in widths:
        for name, values, record in zip(
            ("end", "by-hand", "bound"),
            (w.ends, w.of("by_hand"), w.of("bound")),
            _RECORDED.get(w.width, (math.nan,) * 3),
            strict=True,
        ):
            if not math.isnan(record):
                yield Claim(
                    f"BL-E5/{name}-{w.width}",
                    f"At m = {w.width} the {_SAID[name]} is within 20% of {record}, from one draw",
                    float(values.mean()),
                    "in",
                    (0.8 * record, 1.2 * record),
                    note=f"{len(values)} draws from {values.min():.4f} to {values.max():.4f}",
                )


_SAID = {"end": "end of descent", "by-hand": "best multiple of W*", "bound": "bound BL-23"}


def _certificates(widths: list[Width]) -> Iterator[Claim]:
    lowest = [w.runs("curvature", random=False).min() for w in widths]
    said = "Every end from W = 0 has positive curvature: least lmin sqrt(m)"
    note = "recorded: .0417, .0186, .0187, .0114 at m = 4, 16, 64, 256"
    yield Claim("BL-E5/second-order", said, float(min(lowest)), ">", 0.0, note=note)
    errors = [np.abs(w.of("lanczos_curvature") / w.of("dense_curvature") - 1) for w in widths]
    said = "100 Lanczos steps agree with the dense spectrum to 5 digits: largest relative error"
    yield Claim("BL-E5/lanczos", said, float(np.nanmax(errors)), "<=", 1e-5)
    yield Claim(
        "BL-23/valid",
        "The bound lies above the risk, for every multiple of W*: least difference",
        min(float(np.min(w.of("least_bound") - w.ends)) for w in widths),
        ">=",
        0.0,
        note="best multiples: "
        + ", ".join(f"{w.of('least_bound').mean():.3f} at m = {w.width}" for w in widths),
    )
    means = np.array([w.of("bound").mean() for w in widths])
    said = "The bound falls with the width: largest ratio of neighbours"
    yield Claim("BL-23/falls", said, float(np.max(means[1:] / means[:-1])), "<", 1.0)
    if len(widths) > 3:
        sizes = np.array([float(w.width) for w in widths])
        fit = fitted_exponent(sizes, np.array([w.of("slack").mean() for w in widths]))
        said = "The slack T falls with the width, in the limit like 1/m: exponent"
        note = f"standard error {fit.error:.3f}; recorded: .78 at m = 4, .046 at m = 256"
        yield Claim("BL-22/falls", said, fit.value, "in", (-1.1, -0.5), note=note)
    yield Claim(
        "BL-T17",
        "Every end lies within the radius of localisation: largest ratio",
        max(float(np.max(d.table["norm"] / d.arrays["radius"])) for w in widths for d in w.draws),
        "<=",
        1.0,
    )


def _random_starts(widths: list[Width]) -> Iterator[Claim]:
    wide = [w for w in widths if w.width >= 16]
    said = "From m = 16 on, every random start reaches the same value: share that does not"
    measured = float(np.mean(np.concatenate([w.above.ravel() > WORSE for w in wide])))
    note = f"{sum(w.above.size for w in wide)} starts"
    yield Claim("BL-E5/random-wide", said, measured, "<=", 0.0, note=note)
    narrow = next(w for w in widths if w.width == 4)
    said = "At m = 4 some end in another strict local minimum: share"
    note = f"{narrow.trapped.sum()} of {narrow.trapped.size}; recorded: 1 of 8"
    yield Claim("BL-E5/random-narrow", said, float(narrow.trapped.mean()), ">", 0.0, note=note)
