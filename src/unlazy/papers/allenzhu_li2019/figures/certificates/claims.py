# SPDX-License-Identifier: Apache-2.0
"""The claims of the certificate figure, by the theorems and earlier measurements."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float64

from unlazy.experiments import Claim, Results, largest
from unlazy.papers.allenzhu_li2019.figures.certificates.config import (
    EXTREMAL,
    Config,
    Panel,
    Remark,
    Sweep,
)

_RECORDED_LITERAL = {(14, 7, 3): 9.58, (14, 7, 34): 1.14, (16, 8, 12): 3.38}  # RN-46, one seed


def table(
    results: Results, config: Sweep | Remark, column: str
) -> Float64[np.ndarray, "seeds sizes"]:
    """A column of a cell's table, for all seeds."""
    rows = [result.table[column] for cell, result in results.items() if cell.config == config]
    return np.array(rows, np.float64)


def claims(config: Config, results: Results) -> list[Claim]:
    listed: list[Claim] = []
    for panel in config.literal:
        listed += _literal(config, panel, results)
    for panel in config.panels:
        listed += _panel(config, panel, results)
    listed.append(_remark(config, results))
    return listed


def _literal(config: Config, panel: Panel, results: Results) -> Iterator[Claim]:
    for column, n in enumerate(panel.sizes):
        sweeps = [panel.sweep(name) for name in config.literal_kernels]
        bad = min(table(results, sweep, "fraction_bad")[:, column].min() for sweep in sweeps)
        least = min(table(results, sweep, "min_ratio")[:, column].min() for sweep in sweeps)
        record = _RECORDED_LITERAL.get((panel.d, panel.k, n))
        said = f"With n = {n} samples kernels fail on 99% of the {panel.targets} targets "
        said += f"(d = {panel.d}, k = {panel.k}): least share of bad ones"
        note = f"least risk {least:.3g} alpha^2" + (f"; recorded: {record}" if record else "")
        id = f"RN-46/d{panel.d}-k{panel.k}-n{n}"
        yield Claim(id, said, float(bad), ">=", 0.99, note=note)


def _panel(config: Config, panel: Panel, results: Results) -> Iterator[Claim]:
    name, sizes = f"d{panel.d}-k{panel.k}", np.array(panel.sizes, np.float64)
    learners = config.learners[:-1]  # without the bound for every dot-product kernel
    good = np.array([table(results, panel.sweep(one), "good") for one in learners])
    said = f"No learner learns more than 16 n / 15 of the targets, {name}: most, as a share of that"
    yield Claim(f"RN-23/{name}", said, float(np.max(good / (16 * sizes / 15))), "<=", 1.0)
    few = [i for i, n in enumerate(panel.sizes) if n <= panel.targets / 2]
    bad = [table(results, panel.sweep(one), "fraction_bad")[:, few] for one in config.kernels]
    said = f"With half as many samples as targets no kernel learns any of them, {name}: least "
    said += "share of bad targets"
    yield Claim(f"RN-47/{name}-half", said, float(np.min(bad)), ">=", 1.0)
    yield _gap(config, panel, results)
    excess = float(np.min([table(results, panel.sweep(one), "excess") for one in learners]))
    said = f"No risk is below its bound by the restricted projector, {name}: least difference"
    yield Claim(f"RN-22/{name}", said, excess, ">=", -1e-9)
    yield _extremal(panel, results)
    if "arcsin" in config.kernels and panel.k % 2 == 0:
        least = float(table(results, panel.sweep("arcsin"), "min_ratio").min())
        said = f"An odd kernel never learns an even parity, {name}: least risk / alpha^2"
        yield Claim(f"RN-47/{name}-arcsin", said, least, ">=", 1 - 1e-9)


def _gap(config: Config, panel: Panel, results: Results) -> Claim:
    """RN-49; kernels without a part of this degree, such as odd ones, have no share at all."""
    seen = [
        table(results, panel.sweep(one), "gap")
        for one in config.kernels
        if table(results, panel.sweep(one), "captured").max() > 0
    ]
    said = "The restricted projector is the same for every dot-product kernel, and known from the "
    said += "sample: largest difference"
    most = 1e-6  # singular values of the smooth kernels go down to 1e-6 of the largest
    note = "recorded: 2.5e-14 at d = 10, k = 3, n = 60"
    return Claim(f"RN-49/d{panel.d}-k{panel.k}", said, largest(seen), "<=", most, note=note)


def _extremal(panel: Panel, results: Results) -> Claim:
    good = table(results, panel.sweep(EXTREMAL), "good")
    expected = np.clip(np.array(panel.sizes, np.float64) - panel.d, 0, panel.targets)
    said = "d coordinates and D - d parities as features learn exactly D - d targets, so that the "
    said += "count is tight: largest difference"
    difference = float(np.max(np.abs(good - expected)))
    return Claim(f"RN-48/d{panel.d}-k{panel.k}-extremal", said, difference, "<=", 0.0)


def _remark(config: Config, results: Results) -> Claim:
    cells = [Remark(name, config.remark_sizes) for name in config.literal_kernels]
    least = min(float(table(results, cell, "difference").min()) for cell in cells)
    said = "With other coordinates of any law, the risk is at least that of the averaged "
    said += "functions: least difference"
    return Claim("RN-50/remark", said, least, ">=", -1e-9)
