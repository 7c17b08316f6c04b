# SPDX-License-Identifier: Apache-2.0
import io

import pytest
from rich.console import Console

from unlazy import papers
from unlazy.experiments import rendering


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_of_figures_fits_the_terminal_and_aligns_its_columns(width):
    stream = io.StringIO()
    figures = [papers.get(name) for name in papers.names()]
    rendering.show_figures(Console(file=stream, width=width), figures)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    assert [line for line in lines if line and line[0] != " "] == list(papers.names())
    smoke = [line for line in lines if line.split()[:1] == ["smoke"]]
    assert len(smoke) == len(figures)
    abouts = [figure.presets["smoke"].about for figure in figures]
    for line, about in zip(smoke, abouts, strict=True):
        assert line.startswith(f"    {'smoke':<12}{about[:20]}")


def test_every_preset_says_on_what_machine_it_takes_how_long():
    for name in papers.names():
        for preset in papers.get(name).presets.values():
            assert any(word in preset.takes for word in ("core", "GPU")), (name, preset.takes)
