# SPDX-License-Identifier: Apache-2.0
"""An experiment: a figure as a list of cells, with its claims and how to draw it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unlazy.core.entries import entry
from unlazy.core.machine import on_host
from unlazy.experiments.cell import Cell, Results, Run
from unlazy.experiments.claims import Claim

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Preset:
    """One size at which an experiment is run."""

    config: Any  # a frozen dataclass
    about: str  # what is computed, such as "both data sets, n = m = 10^4"
    takes: str  # how long, such as "about 2 minutes on two cores"


def _no_notes(config: Any) -> list[str]:  # noqa: ARG001  # the signature that `notes` must have
    return []


@dataclass(frozen=True)
class Experiment:
    """A figure: what to compute, what the paper says of it, and how to draw it.

    `plot` is called in the common style, and computes nothing: figures are redrawn from stored
    tables.
    """

    name: str  # paper and figure, such as `arora2019/figure1`
    title: str  # one line for a list
    version: int  # raise it when the numbers change, so that stored cells are computed again
    presets: Mapping[str, Preset]  # `smoke` takes seconds, `quick` minutes, `paper` is full size
    cells: Callable[[Any], Sequence[Cell]]  # of a configuration, each of this name and version
    run: Run  # computes one cell from its own configuration
    claims: Callable[[Any, Results], list[Claim]]  # from the configuration and all results
    plot: Callable[[Any, Results], "matplotlib.figure.Figure"]
    notes: Callable[[Any], list[str]] = _no_notes  # such as "MNIST not found: using digits"
    on_processor: bool = False  # also where there is an accelerator: its cells are many and small

    def device(self) -> AbstractContextManager[None]:
        """A scope in which JAX computes the cells on the device that is meant for them."""
        return on_host() if self.on_processor else nullcontext()

    @entry
    def preset(self, name: str) -> Preset:
        """The preset of that name; an `UnknownNameError` suggests the nearest."""
        if name not in self.presets:
            # Imported here: it brings in JAX, which a list of the figures can do without.
            from unlazy.core.checks import check_name

            check_name(name, self.presets, "preset")
        return self.presets[name]
