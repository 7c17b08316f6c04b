# SPDX-License-Identifier: Apache-2.0
"""The claims of Figure 4, with the runs and the frontier that they are about."""

import functools
import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Claim, Results, least, with_record
from unlazy.papers.allenzhu_li2019.figures.figure4.config import Config
from unlazy.papers.allenzhu_li2019.parity_networks import parity_network
from unlazy.papers.shared.grids.tuning import merge, picked, shown

# Errors of the paper's hand-built networks, and their |W|_F / sqrt(d).
QUOTED = {0.12: 9.7, 0.037: 12.5, 0.011: 13.8}
_RECORDED_AT = (24, 1500, 100)  # inputs, samples, epochs
_FITTED = 0.5  # a training error below which a run has begun to fit
_EXACT = 1e-4  # what float32 leaves of an error of zero


class Runs:
    """The points of the figure: the runs of SGD that did not diverge, and those built by hand."""

    def __init__(self, config: Config, results: Results) -> None:
        tables = {cell.config: result.table for cell, result in results.items()}
        built = tables[config.built]
        self.built = picked(built, np.argsort(built["norm"]))
        trained = {one.width: tables[one] for one in config.trainings}
        self.by_width = {
            width: picked(table, ~table["diverged"]) for width, table in trained.items()
        }
        self.all = merge(list(self.by_width.values()))


def frontier_error(norm: Float[np.ndarray, " r"], degree: int) -> Float[np.ndarray, " r"]:
    r"""The least mean square error at a norm $\|W\|_F / \sqrt d$, for every d.

    Source: RN-73, arXiv:1905.10337 section 8.2.
    """
    return np.maximum(1 - norm * _slope(degree), 0) ** 2


def frontier_norm(error: Float[np.ndarray, " r"], degree: int) -> Float[np.ndarray, " r"]:
    r"""The least $\|W\|_F / \sqrt d$ with a mean square error of at most 1."""
    return (1 - np.sqrt(error)) / _slope(degree)


@functools.cache
def _slope(degree: int) -> float:
    r"""$\gamma \sqrt d$."""
    return parity_network(degree, degree).gamma * math.sqrt(degree)


def claims(config: Config, results: Results) -> list[Claim]:
    runs = Runs(config, results)
    return with_record([*_trained(config, runs), *_built(config, runs)], config.refuted)


def _trained(config: Config, runs: Runs) -> Iterator[Claim]:
    table, degree, one = runs.all, config.built.degree, config.trainings[0]
    test, bound = least(table["test"]), config.least_test
    note = f"{len(table['test'])} runs, d = {one.inputs}, N = {one.n}; predicting zero has error 1"
    said = "No run of SGD learns the parity: smallest test error"
    yield Claim("RN-67/test", said, test, ">=", bound, note=note)
    if (one.inputs, one.n, one.epochs) == _RECORDED_AT:
        said = "No run tests better than on record, from one seed and batches with replacement: "
        said += "smallest test error"
        yield Claim("RN-67/recorded", said, test, ">=", 1.03)
    frontier = frontier_error(table["norm"], degree)
    for name, column, why in (
        ("RN-73/frontier", "test", "a theorem for the mean over the cube"),
        ("RN-67/frontier", "train", "no theorem, since few samples can be fitted otherwise"),
    ):
        said = f"Every run is above the frontier (1 - tau gamma)^2 of its norm, in {column} error: "
        said += "smallest difference"
        yield Claim(name, said, least(table[column] - frontier), ">=", 0.0, note=why)
    fitted = (table["train"] < _FITTED) & (table["train"] > _EXACT)
    if not fitted.any():
        return  # no norm to compare
    ratio = least(table["norm"][fitted] / frontier_norm(table["train"][fitted], degree))
    said = "SGD does not find small norms: least norm over the smallest for the same error, of "
    said += f"runs with training error below {_FITTED:g}"
    yield Claim("RN-67/norm", said, ratio, ">", 1.5, note=f"{np.sum(fitted)} runs")


def _built(config: Config, runs: Runs) -> Iterator[Claim]:
    built, degree = runs.built, config.built.degree
    points = zip(built["norm"], built["test"], strict=True)
    note = "(norm, error) " + ", ".join(f"({n:.3g}, {e:.2g})" for n, e in points)
    said = "The networks built by hand are above the frontier: smallest difference of errors"
    above = least(built["test"] - frontier_error(built["norm"], degree))
    yield Claim("RN-74/frontier", said, above, ">=", -_EXACT, note=note)
    if built["test"].min() > min(QUOTED):
        return
    errors, quoted = np.array(list(QUOTED)), np.array(list(QUOTED.values()))
    ours, best = norm_at(built, errors), frontier_norm(errors, degree)
    note = f"paper {shown(quoted)}; ours {shown(ours)}; least {shown(best)}"
    said = "They need the norms that the paper quotes, at its errors: largest deviation"
    deviation = float(np.max(np.abs(ours / quoted - 1)))
    yield Claim("RN-74/quoted", said, deviation, "<=", 0.1, note=note)


def norm_at(
    built: dict[str, np.ndarray], errors: Float[np.ndarray, " e"]
) -> Float[np.ndarray, " e"]:
    """The norm at an error, interpolated linearly between the points built by hand."""
    order = np.argsort(built["test"])
    return np.interp(errors, built["test"][order], built["norm"][order])
