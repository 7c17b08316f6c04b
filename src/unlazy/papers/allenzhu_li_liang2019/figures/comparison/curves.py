# SPDX-License-Identifier: Apache-2.0
"""The chosen lanes of a comparison, read off the stored tables."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Results
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import Config, Size
from unlazy.papers.shared.grids.tuning import best_rows


class Curves:
    """Errors of every method at every size, one value a seed."""

    def __init__(self, config: Config, results: Results) -> None:
        self.config = config
        self._found = {cell.config: result for cell, result in results.items()}

    def at(
        self, method: str, size: Size, *, solver: str = "sgd", by: str = "test", of: str = "test"
    ) -> Float[np.ndarray, " seeds"]:
        """The error on the set `of` of each seed's best lane by the set `by`; inf without one."""
        table = self._found[self.config.point(method, size)].table
        rows = table["solver"] == solver
        table = {name: column[rows] for name, column in table.items()}
        best = best_rows(table, by)
        return np.array(
            [table[of][best[s]] if s in best else np.inf for s in range(self.config.seeds)]
        )

    def along(
        self, method: str, sizes: Iterable[Size], *, solver: str = "sgd", by: str = "test"
    ) -> Float[np.ndarray, "sizes seeds"]:
        """The test errors at several sizes."""
        return np.stack([self.at(method, size, solver=solver, by=by) for size in sizes])

    def extended(self) -> int:
        """How many cells had their grid extended."""
        return sum(bool(result.table["extension"].any()) for result in self._found.values())

    def energy(self) -> float:
        """The mean square of the test labels: the error of predicting zero."""
        return float(np.mean([np.mean(r.arrays["energy"]) for r in self._found.values()]))
