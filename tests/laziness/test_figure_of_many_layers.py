# SPDX-License-Identifier: Apache-2.0
"""The figure of a report can be read for models of few and of many layers."""

import itertools

import numpy as np
import pytest

from unlazy.laziness import diagnose
from unlazy.laziness.measurements.bars import MOST_BARS


def report_on(depth: int):
    names = [f"encoder/block_{k // 3}/dense_layer_{k:02}" for k in range(depth)]
    rng = np.random.default_rng(0)
    start = {name: {"W": np.eye(4, dtype=np.float32)} for name in names}
    end = {
        name: {"W": layer["W"] + 0.02 * rng.standard_normal((4, 4)).astype(np.float32)}
        for name, layer in start.items()
    }

    def f(params, x):
        for name in names:
            x = x @ params[name]["W"]
        return x

    x = rng.standard_normal((6, 4)).astype(np.float32)
    return diagnose(f, start, end, x, np.arange(6) % 4, order=1)


@pytest.mark.parametrize("depth", [3, 8, 24])
def test_no_name_lies_on_another_and_no_legend_on_a_bar(depth):
    figure = report_on(depth).plot()
    figure.draw_without_rendering()
    for ax in figure.axes:
        if not ax.axison:
            continue
        boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
        if ax.patches:
            assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))
        legend = ax.get_legend()
        if legend is not None:
            box = legend.get_window_extent()
            assert not any(box.overlaps(bar.get_window_extent()) for bar in ax.patches)
        title = ax.title.get_window_extent()
        assert title.x0 >= 0
        assert title.x1 <= figure.bbox.x1


def test_of_many_layers_the_largest_are_drawn_and_the_others_mentioned():
    report = report_on(24)
    ax = report.movement.plot()
    drawn = [label.get_text() for label in ax.get_yticklabels()]
    assert drawn[0] == "all"
    largest = sorted(report.movement.layers, key=lambda layer: -layer.relative)[:MOST_BARS]
    assert sorted(drawn[1:]) == sorted(layer.name.removeprefix("encoder/") for layer in largest)
    assert ax.get_ylabel() == "the 16 largest of 24"
    assert report_on(8).movement.plot().get_ylabel() == ""
