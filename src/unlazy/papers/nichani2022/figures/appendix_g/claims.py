# SPDX-License-Identifier: Apache-2.0
"""What was recorded of the experiments of Appendix G, as numbers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from unlazy.experiments import CellResult, Claim, Results, with_record
from unlazy.papers.nichani2022.figures.appendix_g.authors.claims import authors_claims
from unlazy.papers.nichani2022.figures.appendix_g.authors.config import AuthorsConfig
from unlazy.papers.nichani2022.figures.appendix_g.config import Baselines, Config, Courses
from unlazy.papers.nichani2022.figures.trials import TOLERANCE, Problem, distance, spread
from unlazy.papers.shared.grids.tuning import shown

# Test losses of three seeds.
_RECORDED = {
    "neither": (0.524, 1.019, 0.687),
    "R3": (0.126, 0.324, 0.220),
    "R1": (0.532, 0.998, 0.611),
    "R1 and R3": (0.231, 0.503, 0.308),
    "f_L alone": (1.273, 1.594, 1.383),
    "f_Q alone": (1.602, 1.830, 1.638),
}
_REDUCED = Baselines(Problem(30, 164, 1000, n_unlabelled=600))
EARLY = 50  # the step at which the counter-example is read


def result_of(results: Results, config: Baselines | Courses) -> CellResult:
    return next(result for cell, result in results.items() if cell.config == config)


def ends(results: Results, config: Baselines, column: str) -> dict[str, Float[np.ndarray, " s"]]:
    """A column at the end of training, with an entry per trial, by setting."""
    table = result_of(results, config).table
    names = dict.fromkeys(table["setting"].tolist())
    return {name: table[column][table["setting"] == name] for name in names}


class Course(NamedTuple):
    """One column of a Taylor model in training, with a row per seed."""

    steps: Float[np.ndarray, " t"]
    seeds: Float[np.ndarray, "s t"]

    def at(self, step: int) -> Float[np.ndarray, " s"]:
        """The values at a recorded step; nan at a step that is not recorded."""
        found = np.flatnonzero(self.steps == step)
        return self.seeds[:, found[0]] if found.size else np.full(len(self.seeds), np.nan)


def course(results: Results, config: Courses, order: int, column: str) -> Course:
    table = result_of(results, config).table
    own = table["order"] == order
    steps = np.unique(table["step"][own])
    values = table[column][own].reshape(len(steps), config.seeds)
    return Course(steps.astype(float), values.T)


def claims(config: Config | AuthorsConfig, results: Results) -> list[Claim]:
    if isinstance(config, AuthorsConfig):
        return authors_claims(config, results)
    listed = [
        *_baselines(results, config.baselines),
        *_tracking(config, results),
        *_counter_example(results, config.counter_example),
    ]
    return with_record(listed, config.refuted)


def _baselines(results: Results, config: Baselines) -> Iterator[Claim]:
    test, r1 = (ends(results, config, name) for name in ("test", "r1"))
    train = ends(results, config, "train")
    said = "Every setting fits the training set: largest training loss"
    measured = float(max(np.max(values) for values in train.values()))
    yield Claim("NB-51/train", said, measured, "<=", 1e-2)
    said = "The penalty on R3 alone lowers R1 by a third: largest ratio to R1 without"
    note = f"{shown(r1['neither'])} without, {shown(r1['R3'])} with"
    yield Claim("NB-51/r1", said, float(np.max(r1["R3"] / r1["neither"])), "<", 2 / 3, note=note)
    said = "A penalty on R1 in addition does not help: least ratio of test losses to R3 alone"
    measured = float(np.min(test["R1 and R3"] / test["R3"]))
    note = f"{shown(test['R1 and R3'])} for {shown(test['R3'])}"
    yield Claim("NB-51/unneeded", said, measured, ">=", 1.0, note=note)
    said = "A penalty on R1 alone does not do what R3 does: least ratio of test losses to R3 alone"
    note = f"{shown(test['R1'])} for {shown(test['R3'])}"
    yield Claim("NB-51/r1-alone", said, float(np.min(test["R1"] / test["R3"])), ">", 1.5, note=note)
    for name in ("f_L alone", "f_Q alone"):
        said = f"{name} tests worse than both terms with R3: least ratio"
        measured = float(np.min(test[name] / test["R3"]))
        note = shown(test[name])
        yield Claim(f"NB-51/{name.replace(' ', '-')}", said, measured, ">", 2.0, note=note)
    if replace(config, trials=_REDUCED.trials) == _REDUCED:
        yield _recorded(test)


def _recorded(test: dict[str, Float[np.ndarray, " s"]]) -> Claim:
    records = {name: np.array(values) for name, values in _RECORDED.items()}
    return Claim(
        "NB-51/recorded",
        "Mean test losses are on record, from three seeds: largest distance, in standard errors",
        max(
            float(distance(test[name], record.mean(), spread(record), len(record)))
            for name, record in records.items()
        ),
        "<=",
        TOLERANCE,
        note=", ".join(f"{name}: {test[name].mean():.3f}" for name in records),
    )


def _tracking(config: Config, results: Results) -> Iterator[Claim]:
    for one in config.courses:
        gaps, tests = (
            [course(results, one, order, column).at(one.steps) for order in (1, 2)]
            for column in ("gap", "test")
        )
        said = f"At m = {one.width} the quadratic model ends nearer to the network than the linear "
        said += "one: largest ratio of rms test gaps"
        measured = float(np.max(gaps[1] / gaps[0]))
        note = f"linear {shown(gaps[0])}; quadratic {shown(gaps[1])}"
        yield Claim(f"NB-53/gap-{one.width}", said, measured, "<", 0.7, note=note)
        said = f"At m = {one.width} it tests better: largest ratio of test losses"
        measured = float(np.max(tests[1] / tests[0]))
        note = f"linear {shown(tests[0])}; quadratic {shown(tests[1])}"
        yield Claim(f"NB-53/test-{one.width}", said, measured, "<", 1.0, note=note)
    if len(config.courses) > 1:
        narrow, wide = (
            course(results, one, 2, "gap").at(one.steps)
            for one in (config.courses[0], config.courses[-1])
        )
        said = "The gap of the quadratic model closes with the width: largest gap at the greatest "
        said += "over the least at the smallest"
        yield Claim("NB-53/width", said, float(np.max(wide) / np.min(narrow)), "<", 0.5)


def _counter_example(results: Results, one: Courses) -> Iterator[Claim]:
    linear, quadratic = (course(results, one, order, "gap") for order in (1, 2))
    yield Claim(
        "NB-53/counter-example",
        f"The sigmoid network of Figure 1 is tracked better by its linear model at step {EARLY}: "
        "least ratio of gaps, quadratic over linear",
        float(np.min(quadratic.at(EARLY) / linear.at(EARLY))),
        ">",
        1.0,
        note=f"linear {shown(linear.at(EARLY))}; quadratic {shown(quadratic.at(EARLY))}",
    )
    said = f"By step {one.steps} the quadratic model is the nearer one again: largest ratio"
    measured = float(np.max(quadratic.at(one.steps) / linear.at(one.steps)))
    note = f"linear {shown(linear.at(one.steps))}; quadratic {shown(quadratic.at(one.steps))}"
    yield Claim("NB-53/counter-example-end", said, measured, "<", 1.0, note=note)
