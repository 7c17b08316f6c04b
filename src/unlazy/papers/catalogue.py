# SPDX-License-Identifier: Apache-2.0
"""The figures of the papers, by name; a figure's module is imported when it is asked for.

Each module defines `EXPERIMENT`. To add one, write the package `papers/<paper>/figures/<figure>`
and name it here.
"""

import importlib

from unlazy.core.entries import entry
from unlazy.experiments import Experiment

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


def names() -> tuple[str, ...]:
    """The names of all figures, such as `arora2019/figure1`."""
    return _FIGURES


@entry
def get(name: str) -> Experiment:
    """The experiment behind a figure.

    Raises:
        UnknownNameError: If there is no such figure, suggesting the nearest.
    """
    if name not in _FIGURES:
        # Not above: it brings in JAX, which a list of the figures can do without.
        from unlazy.core.checks import check_name

        check_name(name, _FIGURES, "name")
    paper, figure = name.split("/")
    return importlib.import_module(f"unlazy.papers.{paper}.figures.{figure}").EXPERIMENT
