# SPDX-License-Identifier: Apache-2.0
"""What the paper says of Figure 4, and what was recorded of it, as numbers."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Claim, Results, least, with_record
from unlazy.papers.allenzhu_li2019.figures.figure4.config import Config, HandBuilt
from unlazy.papers.allenzhu_li2019.figures.figure4.frontier import frontier_error, frontier_norm
from unlazy.papers.shared.grids.tuning import merge

# Errors of the paper's hand-built networks, and their |W|_F / sqrt(d).
QUOTED = {0.12: 9.7, 0.037: 12.5, 0.011: 13.8}
_RECORDED_AT = (24, 1500, 100)  # inputs, samples, epochs
_FITTED = 0.5  # a training error below which a run has begun to fit
_EXACT = 1e-4  # what float32 leaves of an error of zero


class Runs:
    """The points of the figure: those of SGD, whose run did not diverge, and those built."""

    def __init__(self, config: Config, results: Results) -> None:
        tables = {cell.config: result.table for cell, result in results.items()}
        built = next(table for one, table in tables.items() if isinstance(one, HandBuilt))
        self.built = {name: column[np.argsort(built["norm"])] for name, column in built.items()}
        self.by_width = {
            one.width: {
                name: column[~tables[one]["diverged"]] for name, column in tables[one].items()
            }
            for one in config.trainings
        }
        self.all = merge(list(self.by_width.values()))


def claims(config: Config, results: Results) -> list[Claim]:
    runs = Runs(config, results)
    listed = [*_trained(config, runs), *_built(config, runs)]
    return with_record(listed, config.refuted)


def _trained(config: Config, runs: Runs) -> Iterator[Claim]:
    table, degree = runs.all, config.built.degree
    one, count = config.trainings[0], len(runs.all["test"])
    yield Claim(
        "RN-67/test",
        "No run of SGD learns the parity: smallest test error",
        least(table["test"]),
        ">=",
        config.least_test,
        note=f"{count} runs, d = {one.inputs}, N = {one.n}; predicting zero has error 1",
    )
    if (one.inputs, one.n, one.epochs) == _RECORDED_AT:
        yield Claim(
            "RN-67/recorded",
            "No run tests better than on record, from one seed and batches with replacement: "
            "smallest test error",
            least(table["test"]),
            ">=",
            1.03,
        )
    frontier = frontier_error(table["norm"], degree)
    for name, column, why in (
        ("RN-73/frontier", "test", "a theorem for the mean over the cube"),
        ("RN-67/frontier", "train", "no theorem, since few samples can be fitted otherwise"),
    ):
        yield Claim(
            name,
            f"Every run is above the frontier (1 - tau gamma)^2 of its norm, in {column} error: "
            "smallest difference",
            least(table[column] - frontier),
            ">=",
            0.0,
            note=why,
        )
    fitted = (table["train"] < _FITTED) & (table["train"] > _EXACT)
    if not fitted.any():
        return  # no norm to compare
    needed = frontier_norm(table["train"][fitted], degree)
    yield Claim(
        "RN-67/norm",
        f"SGD does not find small norms: least norm over the smallest for the same error, of runs "
        f"with training error below {_FITTED:g}",
        least(table["norm"][fitted] / needed),
        ">",
        1.5,
        note=f"{np.sum(fitted)} runs",
    )


def _built(config: Config, runs: Runs) -> Iterator[Claim]:
    built, degree = runs.built, config.built.degree
    frontier = frontier_error(built["norm"], degree)
    yield Claim(
        "RN-74/frontier",
        "The networks built by hand are above the frontier: smallest difference of errors",
        least(built["test"] - frontier),
        ">=",
        -_EXACT,
        note="(norm, error) "
        + ", ".join(
            f"({n:.3g}, {e:.2g})" for n, e in zip(built["norm"], built["test"], strict=True)
        ),
    )
    if built["test"].min() > min(QUOTED):
        return
    ours = norm_at(built, np.array(list(QUOTED)))
    ratios = ours / np.array(list(QUOTED.values()))
    yield Claim(
        "RN-74/quoted",
        "They need the norms that the paper quotes, at its errors: largest deviation",
        float(np.max(np.abs(ratios - 1))),
        "<=",
        0.1,
        note=f"paper {', '.join(map(str, QUOTED.values()))}; "
        f"ours {', '.join(f'{value:.3g}' for value in ours)}; "
        f"least {', '.join(f'{v:.3g}' for v in frontier_norm(np.array(list(QUOTED)), degree))}",
    )


def norm_at(
    built: dict[str, np.ndarray], errors: Float[np.ndarray, " e"]
) -> Float[np.ndarray, " e"]:
    """Between the built points, linearly in the error."""
    order = np.argsort(built["test"])
    return np.interp(errors, built["test"][order], built["norm"][order])
