# SPDX-License-Identifier: Apache-2.0
"""What Figures 1 and 2 share: six methods on one target, against the width and the samples."""

from unlazy.papers.allenzhu_li_liang2019.figures.comparison.claims import claims
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import (
    NAMES,
    VERSION,
    Config,
    Grid,
    Point,
    Size,
    cells,
    notes,
)
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.plot import plot
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.presets import presets
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.run import run

__all__ = [
    "NAMES",
    "VERSION",
    "Config",
    "Grid",
    "Point",
    "Size",
    "cells",
    "claims",
    "notes",
    "plot",
    "presets",
    "run",
]
