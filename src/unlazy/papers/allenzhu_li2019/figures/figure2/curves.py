# SPDX-License-Identifier: Apache-2.0
"""The curves of Figure 2: the chosen lanes, read off the stored tables."""

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Results
from unlazy.papers.allenzhu_li2019.figures.figure2.config import TANGENT, Config, Panel, Training
from unlazy.papers.allenzhu_li2019.figures.linear_models import LIMITS
from unlazy.papers.shared.grids.tuning import Table, best_values, merge

Errors = Float[np.ndarray, " seeds"]


class Curves:
    r"""Errors of every method of a panel, one value per seed, in units of $k\alpha^2$."""

    def __init__(self, config: Config, panel: Panel, results: Results) -> None:
        self.config, self.panel = config, panel
        self._found = {(cell.config, cell.seed): result for cell, result in results.items()}
        self._limits = self._found[config.limits(panel), 0]
        self.unit = panel.task.target().base_risk

    def at(
        self, method: str, width: int, *, solver: str = "sgd", by: str = "test", of: str = "test"
    ) -> Errors:
        """The error on the set `of` of each seed's best lane by the set `by`; inf without one."""
        if solver == "coupled":
            cells = [(self.config.coupled(self.panel, method, width), 0)]
        else:
            cells = self.config.trainings(self.panel, method, width)
        return self._best(merge([self._found[cell].table for cell in cells]), solver, by, of)

    def limit(self, method: str, *, by: str = "test") -> Errors:
        """The test error of a kernel of infinite width."""
        return self._best(self._limits.table, method, by, "test")

    def along(self, method: str, *, solver: str = "sgd", by: str = "test") -> np.ndarray:
        """The test errors at all widths of a method, one row per width."""
        return np.stack([self.at(method, m, solver=solver, by=by) for m in self.widths(method)])

    def exact(self, method: str) -> np.ndarray:
        """The test errors of a kernel solved exactly, with coupled outputs where it has them."""
        return self.along(method, solver="coupled" if method in TANGENT else "ridge")

    def limits(self) -> dict[str, Errors]:
        """The test errors of all kernels of infinite width."""
        return {method: self.limit(method) for method in LIMITS}

    def widths(self, method: str) -> tuple[int, ...]:
        """The widths at which a method was run."""
        panel = self.panel
        return panel.widths if method in panel.networks else panel.kernel_widths

    @property
    def captured(self) -> Errors:
        """How much of the composite parity dot-product kernels on the sample could express."""
        return self._limits.arrays["captured"]

    @property
    def energy(self) -> float:
        """The error of predicting zero."""
        return float(np.mean(self._limits.arrays["energy"])) / self.unit

    def extended(self) -> int:
        """How many cells of the panel had their grid extended."""
        return sum(
            bool(result.table["extension"].any())
            for (point, _), result in self._found.items()
            if isinstance(point, Training) and point.task.n == self.panel.task.n
        )

    def _best(self, table: Table, solver: str, by: str, of: str) -> Errors:
        seeds = range(self.config.seeds)
        return best_values(table, seeds, by=by, of=of, solver=solver) / self.unit
