# SPDX-License-Identifier: Apache-2.0
"""The engine: cells, the store that keeps them, claims, figures and the runner."""

from unlazy.experiments.cell import Cell, CellResult, Progress, Results, Run
from unlazy.experiments.claims import Claim, largest, least, with_record
from unlazy.experiments.experiment import Experiment, Preset
from unlazy.experiments.figures import save_figure
from unlazy.experiments.programs import kept_programs
from unlazy.experiments.progress import PassingReporter, Reporter, reporter_for
from unlazy.experiments.runner import CellError, RunReport, run_experiment
from unlazy.experiments.sharing import shared_by_cells
from unlazy.experiments.store import DamagedCellError, Store

__all__ = [
    "Cell",
    "CellError",
    "CellResult",
    "Claim",
    "DamagedCellError",
    "Experiment",
    "PassingReporter",
    "Preset",
    "Progress",
    "Reporter",
    "Results",
    "Run",
    "RunReport",
    "Store",
    "kept_programs",
    "largest",
    "least",
    "reporter_for",
    "run_experiment",
    "save_figure",
    "shared_by_cells",
    "with_record",
]
