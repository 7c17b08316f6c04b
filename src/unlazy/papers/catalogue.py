# SPDX-License-Identifier: Apache-2.0
"""The figures of the papers, by name; a figure's module is imported when it is asked for.

Each module defines `EXPERIMENT`. To add one, write the package `papers/<paper>/figures/<figure>`
and name it here, with the presets that it has beside the usual three.
"""

import importlib
from typing import TYPE_CHECKING

from unlazy.core.entries import entry

if TYPE_CHECKING:
    from unlazy.experiments import Experiment  # brings in NumPy, which names can do without

_FIGURES = (
    "allenzhu_li2019/certificates",
    "allenzhu_li2019/figure2",
    "allenzhu_li2019/figure3",
    "allenzhu_li2019/figure4",
    "allenzhu_li2019/theorem1",
    "allenzhu_li_liang2019/figure1",
    "allenzhu_li_liang2019/figure2",
    "allenzhu_li_liang2019/figure3",
    "allenzhu_li_liang2019/width_and_samples",
    "arora2019/figure1",
    "arora2019/figure2",
    "bai_lee2020/coupling",
    "bai_lee2020/extraction",
    "bai_lee2020/landscape",
    "bai_lee2020/sample_complexity",
    "nichani2022/appendix_g",
    "nichani2022/figure1",
    "nichani2022/figure2",
    "nichani2022/theorem1",
)
_PRESETS = ("smoke", "quick", "paper")  # of every figure
_MORE_PRESETS = {
    "allenzhu_li2019/figure2": ("fan-in",),
    "allenzhu_li2019/figure4": ("panel-b",),
    "arora2019/figure1": ("lazy", "norm-one"),
    "arora2019/figure2": ("converged",),
    "nichani2022/appendix_g": ("authors",),
    "nichani2022/figure1": ("authors",),
    "nichani2022/figure2": ("authors",),
}


def names() -> tuple[str, ...]:
    """The names of all figures, such as `arora2019/figure1`."""
    return _FIGURES


def preset_names(figure: str) -> tuple[str, ...]:
    """The names of a figure's presets, for a shell that completes one: nothing is imported."""
    return (*_PRESETS, *_MORE_PRESETS.get(figure, ()))


@entry
def get(name: str) -> "Experiment":
    """The experiment behind a figure.

    Raises:
        UnknownNameError: If there is no such figure, suggesting the nearest.
    """
    if name not in _FIGURES:
        # Not above: it brings in JAX, which a list of the figures can do without.
        from unlazy.core.checks import check_name

        of_paper = [figure for figure in _FIGURES if figure.startswith(f"{name}/")]
        kind = "one of this paper's figures" if of_paper else "a known name"
        check_name(name, of_paper or _FIGURES, "name", kind)
    paper, figure = name.split("/")
    return importlib.import_module(f"unlazy.papers.{paper}.figures.{figure}").EXPERIMENT
