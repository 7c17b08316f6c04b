# SPDX-License-Identifier: Apache-2.0
"""An experiment: a figure as a list of cells, with its claims and how to draw it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unlazy.core.entries import entry
from unlazy.experiments.cell import Cell, Results, Run
from unlazy.experiments.claims import Claim

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Preset:
    """One size at which an experiment is run.

    Attributes:
        config: The configuration, a frozen dataclass.
        about: What is computed, such as "both data sets, n = m = 10^4".
        takes: For how long, such as "about 2 minutes on two cores".
    """

    config: Any
    about: str
    takes: str


def _no_notes(config: Any) -> list[str]:  # noqa: ARG001  # the signature that `notes` must have
    return []


@dataclass(frozen=True)
class Experiment:
    """A figure: what to compute, what the paper says of it, and how to draw it.

    Attributes:
        name: Paper and figure, such as `arora2019/figure1`.
        title: One line for a list.
        version: To be raised when the numbers change, so that stored cells are computed anew.
        presets: The sizes, by name: `smoke` takes seconds, `quick` minutes, `paper` has the
            paper's own sizes.
        cells: The cells of a configuration, each of this name and version.
        run: Computes one cell, `run(config, *, seed, progress)`, from the cell's own configuration.
        claims: The claims, from the configuration and the results of all its cells.
        plot: The figure, from the same. It is called with the common style in force, and computes
            nothing, since a figure is redrawn from stored tables.
        notes: Remarks to be shown before the run, such as "MNIST not found: using digits".
    """

    name: str
    title: str
    version: int
    presets: Mapping[str, Preset]
    cells: Callable[[Any], Sequence[Cell]]
    run: Run
    claims: Callable[[Any, Results], list[Claim]]
    plot: Callable[[Any, Results], "matplotlib.figure.Figure"]
    notes: Callable[[Any], list[str]] = _no_notes

    @entry
    def preset(self, name: str) -> Preset:
        """The preset of that name.

        Raises:
            UnknownNameError: If there is none, suggesting the nearest.
        """
        if name not in self.presets:
            # Not above: it brings in JAX, which a list of the figures can do without.
            from unlazy.core.checks import check_name

            check_name(name, self.presets, "preset")
        return self.presets[name]
