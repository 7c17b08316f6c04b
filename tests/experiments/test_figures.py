# SPDX-License-Identifier: Apache-2.0
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from unlazy.core.drawing import hues, spanning, style
from unlazy.core.errors import StoreError
from unlazy.experiments import save_figure


def draw():
    with style():
        fig = Figure(figsize=(3, 2))
        ax = fig.add_subplot(xlabel="step", ylabel="loss")
        for k in range(3):
            ax.plot([0, 1], [k, 1], label=str(k))
        ax.legend()
    return fig


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    one = save_figure(draw(), tmp_path / "a", "figure")
    two = save_figure(draw(), tmp_path / "b", "figure")
    assert [path.name for path in one] == ["figure.png", "figure.svg"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["figure.png", "figure.svg"]


def test_the_png_has_200_dots_an_inch(tmp_path):
    png, _ = save_figure(draw(), tmp_path, "figure")
    assert int.from_bytes(png.read_bytes()[16:20], "big") == 600


def test_neither_the_users_style_nor_ours_leaks(tmp_path):
    plain = save_figure(draw(), tmp_path / "plain", "figure")
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30}):
        before = dict(mpl.rcParams)
        styled = save_figure(draw(), tmp_path / "styled", "figure")
        assert dict(mpl.rcParams) == before
    assert [path.read_bytes() for path in plain] == [path.read_bytes() for path in styled]


def test_curves_differ_in_line_style_as_well_as_in_colour():
    lines = draw().axes[0].lines
    assert len({line.get_color() for line in lines}) == 3
    assert len({line.get_linestyle() for line in lines}) == 3


def test_a_figure_that_cannot_be_saved_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        save_figure(draw(), tmp_path / "file" / "folder", "figure")


def test_limits_span_what_is_finite_and_fall_back_where_nothing_is():
    assert spanning([2.0, np.nan, 8.0], 0.5, 2.0, otherwise=(0.0, 1.0)) == (1.0, 16.0)
    assert spanning([np.nan, np.inf], 0.5, 2.0, otherwise=(0.0, 1.0)) == (0.0, 1.0)
    assert spanning([0.0], 0.5, 2.0, otherwise=(0.0, 1.0)) == (0.0, 1.0)  # no width


def test_a_logarithmic_axis_without_data_is_saved(tmp_path):
    with style():
        fig = Figure(figsize=(2, 2))
        ax = fig.subplots()
        ax.plot([1, 2], [np.nan, np.nan])
        ax.set(xscale="log", yscale="log")
        png, _ = save_figure(fig, tmp_path, "figure")
    assert png.stat().st_size > 1000


@pytest.mark.parametrize("count", [1, 7, 8, 20])
def test_every_curve_of_a_family_has_a_colour_of_its_own(count):
    assert len(set(hues(count))) == len(hues(count)) == count
