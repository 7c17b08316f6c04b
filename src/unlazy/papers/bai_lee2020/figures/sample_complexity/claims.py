# SPDX-License-Identifier: Apache-2.0
"""What theory and earlier measurements say of the samples needed, as numbers."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Claim, Results
from unlazy.papers.bai_lee2020.figures.exponents import Curve, Exponent, fitted_exponent
from unlazy.papers.bai_lee2020.figures.sample_complexity.config import UNTUNED, Config, Task

LEVEL = 0.1  # the test error whose price in samples is counted
TOLERANCE = 4.0  # standard errors between a mean of ours and a recorded one
_LEAST_SPREAD = 0.01  # of a seed: a few of them may agree by chance, or all have no error

# Mean test errors and relative mean squares, by target, dimension and width.
_RECORDED: dict[tuple[str, int, int], dict[str, dict[int, float]]] = {
    ("two-xor", 20, 100): {
        "ntk/ridge": {100: 0.265, 150: 0.170, 200: 0.103, 300: 0.030},
        "ntk/loss": {100: 0.267, 150: 0.177, 200: 0.116, 300: 0.050},
        "f_Q": {100: 0.122, 150: 0.024, 200: 0.003, 300: 0.0},
    },
    ("product", 40, 60): {
        "ntk/ridge": {200: 0.885, 400: 0.696, 800: 0.466},
        "kq/ridge": {200: 0.870, 400: 0.751, 800: 0.590},
        "f_Q": {200: 0.798, 400: 0.496, 800: 0.186},
    },
    ("product", 20, 100): {
        "ntk/ridge": {50: 0.859, 100: 0.718, 200: 0.437, 400: 0.198},
        "kq/ridge": {50: 0.846, 100: 0.749, 200: 0.545, 400: 0.335},
        "f_Q": {50: 0.812, 100: 0.658, 200: 0.331, 400: 0.128},
    },
    ("quartic", 10, 150): {
        "ntk/ridge": {50: 0.730, 100: 0.481, 200: 0.326, 400: 0.233},
        "kq/ridge": {50: 0.799, 100: 0.554, 200: 0.364, 400: 0.234},
        "f_Q": {50: 0.670, 100: 0.429, 200: 0.244, 400: 0.117},
    },
}
_RECORDED_SEEDS = {"two-xor": 5, "product": 2, "quartic": 2}
_SLOPES = {"ntk/ridge": (1.90, (1.7, 2.1)), "f_Q": (1.35, (1.2, 1.5))}
SHOWN = {
    "ntk/ridge": "NTK, ridge",
    "ntk/loss": "NTK, loss of f^Q",
    "kq/ridge": "K_Q, ridge",
    "kq/loss": "K_Q, loss of f^Q",
    "f_Q": "f^Q",
    "signed": "network, one draw of signs",
}


def scores(results: Results, task: Task, method: str) -> Curve:
    """The test scores of one method on one task, against the number of samples."""
    tables = [result.table for cell, result in results.items() if cell.config == task]
    chosen = [table["method"] == method for table in tables]
    rows = [table["score"][own] for table, own in zip(tables, chosen, strict=True)]
    return Curve(tables[0]["n"][chosen[0]].astype(float), np.stack(rows))


class Price(NamedTuple):
    """The samples that bring a method to 10% error, in each dimension."""

    dimensions: Float[np.ndarray, " k"]
    samples: Float[np.ndarray, " k"]  # by the mean error over the seeds
    seeds: Float[np.ndarray, "s k"]

    @property
    def slope(self) -> Exponent:
        return fitted_exponent(self.dimensions, self.samples)


def price(config: Config, results: Results, method: str) -> Price:
    tasks = config.scans()
    found = [scores(results, task, method) for task in tasks]
    each = [[samples_to(LEVEL, s.sizes, row) for row in s.seeds] for s in found]
    return Price(
        dimensions=np.array([float(task.inputs) for task in tasks]),
        samples=np.array([samples_to(LEVEL, s.sizes, s.mean) for s in found]),
        seeds=np.array(each).T,
    )


def samples_to(level: float, ns: Float[np.ndarray, " k"], errors: Float[np.ndarray, " k"]) -> float:
    """The size at which the error last falls to the level, linear in log n; nan if it never does.

    Example:
        >>> samples_to(0.1, np.array([10.0, 40.0, 80.0]), np.array([0.2, 0.0, 0.0]))
        20.0
    """
    above = np.flatnonzero(errors > level)
    if not len(above) or above[-1] + 1 == len(ns):
        return math.nan
    i = above[-1]
    share = (errors[i] - level) / (errors[i] - errors[i + 1])
    return round(float(ns[i] * (ns[i + 1] / ns[i]) ** share), 9)


def claims(config: Config, results: Results) -> list[Claim]:
    listed: list[Claim] = []
    for task, _ in config.tasks:
        listed += [*_order(results, task), *_recorded(results, task)]
    if len(config.dimensions) > 2:
        listed += _slopes(config, results)
    return listed


def _name(task: Task) -> str:
    return f"{'BL-E2' if task.classifies else 'BL-E3'}/{task.target}-{task.inputs}"


def _order(results: Results, task: Task) -> Iterator[Claim]:
    name, f_Q = _name(task), scores(results, task, "f_Q")
    for method in ("ntk/ridge", "ntk/loss", "kq/ridge", "kq/loss"):
        other = scores(results, task, method)
        said = f"On {task.target}, d = {task.inputs}, f^Q has less error than {SHOWN[method]} at "
        said += "every n: largest ratio of the means"
        measured = float(np.max(f_Q.mean / other.mean))
        note = f"in {np.mean(f_Q.seeds < other.seeds):.0%} of the seeds and sizes"
        yield Claim(f"{name}-below-{method}", said, measured, "<", 1.0, note=note)
    signed = scores(results, task, "signed")
    yield Claim(
        f"{name}-signed",
        f"On {task.target}, d = {task.inputs}, one draw of the signs in place of f^Q costs "
        "accuracy at every n: least difference of the means",
        float(np.min(signed.mean - f_Q.mean)),
        ">",
        0.0,
        note=", ".join(
            f"n = {n:.0f}: {a:.3f} for {b:.3f}"
            for n, a, b in zip(f_Q.sizes, signed.mean, f_Q.mean, strict=True)
        ),
    )


def _recorded(results: Results, task: Task) -> Iterator[Claim]:
    name, table = _name(task), _RECORDED.get((task.target, task.inputs, task.width), {})
    for method, expected in table.items():
        found = scores(results, task, method)
        record = np.array([expected[int(n)] for n in found.sizes])
        seeds = 1 / len(found.seeds) + 1 / _RECORDED_SEEDS[task.target]
        errors = np.maximum(found.spread, _LEAST_SPREAD) * math.sqrt(seeds)
        yield Claim(
            f"{name}-{method}",
            f"On {task.target}, d = {task.inputs}, {SHOWN[method]} gives the recorded numbers: "
            "largest distance of the means, in standard errors",
            float(np.max(np.abs(found.mean - record) / errors)),
            "<=",
            TOLERANCE,
            note=", ".join(
                f"n = {n:.0f}: {m:.3f} +- {s:.3f} for {e:.3f}"
                for n, m, s, e in zip(found.sizes, found.mean, found.spread, record, strict=True)
            ),
        )


def _slopes(config: Config, results: Results) -> Iterator[Claim]:
    prices = {method: price(config, results, method) for method in UNTUNED}
    for method, (record, bounds) in _SLOPES.items():
        found = prices[method]
        yield Claim(
            f"BL-E2/slope-{method}",
            f"Samples to 10% error grow with d, for {SHOWN[method]}: exponent",
            found.slope.value,
            "in",
            bounds,
            note=f"standard error {found.slope.error:.3f}; recorded: {record}; "
            + ", ".join(
                f"{n:.0f} at d = {d:.0f}"
                for d, n in zip(found.dimensions, found.samples, strict=True)
            ),
        )
    f_Q = prices["f_Q"]
    d = f_Q.dimensions
    said = "f^Q needs a smaller power of d than the NTK: difference of the exponents"
    measured = prices["ntk/ridge"].slope.value - f_Q.slope.value
    yield Claim("BL-E2/slope-gap", said, measured, ">=", 0.3)
    said = "f^Q needs samples in proportion to d, as the bound n_Q ~ d without its logarithm: "
    said += "exponent at most 1.1"
    note = f"d log d has exponent {fitted_exponent(d, d * np.log(d)).value:.2f} here"
    yield Claim("BL-48/linear", said, f_Q.slope.value, "<=", 1.1, expected="refuted", note=note)
