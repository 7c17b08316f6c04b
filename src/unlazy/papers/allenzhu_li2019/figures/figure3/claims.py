# SPDX-License-Identifier: Apache-2.0
"""The claims of Figure 3, and the errors that they are about."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Claim, Results, with_record
from unlazy.papers.allenzhu_li2019.figures.figure3.config import Config, Sweep
from unlazy.papers.shared.grids.tuning import best_values

Errors = Float[np.ndarray, "betas seeds"]


class Curves:
    r"""Best test errors of a sweep by beta and seed, in units of $k\alpha^2$."""

    def __init__(self, config: Config, sweep: Sweep, results: Results) -> None:
        self.sweep = sweep
        self._unit = sweep.task.target().base_risk
        self._cells = [
            result
            for cell, result in results.items()
            if cell.config == sweep and cell.seed < config.seeds
        ]

    def errors(self, *, by: str = "test") -> Errors:
        """Those of the network."""
        found = []
        for result in self._cells:
            table, seeds = result.table, np.unique(result.table["seed"]).tolist()
            found.append([best_values(table, seeds, by=by, beta=b) for b in self.sweep.betas])
        return np.concatenate(found, axis=1) / self._unit

    def kernel(self) -> Errors:
        """Those of the best kernel of infinite width."""
        return np.concatenate([r.arrays["kernel"] for r in self._cells], axis=1) / self._unit


def claims(config: Config, results: Results) -> list[Claim]:
    sweeps = config.sweeps if config.orders else ()
    every = [_sweep(config, Curves(config, sweep, results)) for sweep in sweeps]
    return with_record([claim for listed in every for claim in listed], config.refuted)


def _sweep(config: Config, curves: Curves) -> Iterator[Claim]:
    sweep, errors = curves.sweep, curves.errors()
    betas, alpha = np.array(sweep.betas), sweep.task.alpha
    below, above = betas < alpha - 1e-9, betas >= alpha - 1e-9
    note = "means by beta: " + ", ".join(
        f"{beta:g}: {mean:.3g}" for beta, mean in zip(betas, errors.mean(axis=1), strict=True)
    )
    name, means = f"RN-66/{sweep.method}", errors.mean(axis=1)
    said = f"{sweep.method} learns the composite where beta >= alpha: largest error over k alpha^2"
    worst = float(np.max(errors[above]))
    yield Claim(f"{name}-above", said, worst, "<", config.margin, note=note)
    said = f"{sweep.method} learns it where beta > 1.2 alpha: largest error over k alpha^2"
    worst = float(np.max(errors[betas > 1.2 * alpha]))
    yield Claim(f"{name}-clearly-above", said, worst, "<", config.margin)
    said = f"{sweep.method} does not where beta < alpha: smallest error over k alpha^2"
    note = "by its best lane; predicting zero would be at 1 + (beta/alpha)^2"
    yield Claim(f"{name}-below", said, float(np.min(errors[below])), ">", 0.9, note=note)
    said = "The error jumps at beta = alpha: that of the last beta below over that at alpha"
    note = f"between beta = {betas[below][-1]:g} and {betas[above][0]:g}"
    jump = float(means[below][-1] / means[above][0])
    yield Claim(f"{name}-jump", said, jump, ">", 3.0, note=note)
    drops = means[:-1] / means[1:]
    place = int(np.argmax(drops))
    said = "The largest drop from one beta to the next is near alpha: its middle, over alpha"
    low, high = betas[place], betas[place + 1]
    note = f"by a factor of {drops[place]:.3g} between beta = {low:g} and {high:g}"
    middle = float((low + high) / (2 * alpha))
    yield Claim(f"{name}-place", said, middle, "in", (2 / 3, 4 / 3), note=note)
    said = "The kernel of infinite width learns it for no beta: smallest error over k alpha^2"
    yield Claim(f"{name}-kernel", said, float(np.min(curves.kernel())), ">", 0.9)
