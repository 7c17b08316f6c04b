# SPDX-License-Identifier: Apache-2.0
"""The numbers of a panel are those that were given to matplotlib."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from unlazy.experiments.report.panels import MOST_POINTS, left_out, panels_of


@pytest.fixture
def ax():
    return Figure().subplots()


def panel_of(ax):
    [panel] = panels_of(ax.get_figure())
    json.dumps(panel, allow_nan=False)
    return panel


def test_a_curve_keeps_its_points_name_and_look(ax):
    ax.plot([1, 2, 3], [3, np.nan, 5], color="#0072B2", ls="--", marker="o", label=r"$\alpha$")
    [curve] = panel_of(ax)["curves"]
    assert curve["points"] == [[1.0, 3.0], [2.0, None], [3.0, 5.0]]
    assert (curve["name"], curve["color"], curve["marker"]) == ("α", "#0072b2", True)
    assert curve["line"]
    assert curve["dash"]


def test_markers_alone_are_no_line(ax):
    ax.plot([1, 2], [3, 4], ls="none", marker="s")
    [curve] = panel_of(ax)["curves"]
    assert (curve["line"], curve["marker"]) == (False, True)


def test_axes_keep_labels_scales_and_limits(ax):
    ax.plot([1, 10], [0.1, 1])
    ax.set(xscale="log", xlim=(0.5, 20), ylim=(2, 0), xlabel="step", ylabel=r"$\beta$", title="A")
    panel = panel_of(ax)
    assert panel["x"] == {"label": "step", "scale": "log", "domain": [0.5, 20.0], "ticks": None}
    assert panel["y"]["domain"] == [0.0, 2.0]
    assert (panel["y"]["label"], panel["y"]["scale"], panel["title"]) == ("β", "linear", "A")


def test_error_bars_belong_to_their_curve(ax):
    ax.errorbar([1, 2], [3, 4], yerr=[[0.5, 1], [1, 2]], label="mean", capsize=2)
    [curve] = panel_of(ax)["curves"]
    assert curve["name"] == "mean"
    assert curve["points"] == [[1.0, 3.0], [2.0, 4.0]]
    assert curve["bars"] == [[1.0, 2.5, 4.0], [2.0, 3.0, 6.0]]


def test_a_band_lies_between_its_curves(ax):
    x = np.array([1.0, 2.0, 4.0])
    ax.fill_between(x, x, x**2, color="black", alpha=0.2)
    [band] = panel_of(ax)["bands"]
    assert band["between"] == [[1.0, 1.0, 1.0], [2.0, 2.0, 4.0], [4.0, 4.0, 16.0]]
    assert (band["color"], band["opacity"]) == ("#000000", 0.2)


def test_lines_and_strips_across_the_panel_are_marks_of_their_own(ax):
    ax.plot([0, 1], [0, 1], label="curve")
    ax.axhline(0.5)
    ax.axvline(0.25, label="here")
    ax.axhspan(0.1, 0.2, color="gray")
    panel = panel_of(ax)
    curve, across, upright = panel["curves"]
    assert (across["horizontal"], across["name"]) == (0.5, "")
    assert (upright["vertical"], upright["name"]) == (0.25, "here")
    assert "points" not in across
    assert panel["bands"][0]["strip"] == [0.1, 0.2]
    assert curve["points"] == [[0.0, 0.0], [1.0, 1.0]]


def test_a_curve_without_a_name_is_shown_with_the_one_before_it(ax):
    for name in ("true", "random"):
        ax.plot([0, 1], [0, 1], label=name)
        ax.plot([0, 1], [1, 1], ls=":")
    assert [curve["name"] for curve in panel_of(ax)["curves"]] == [
        *("true", "true"),
        *("random", "random"),
    ]


def test_names_may_stand_in_the_legend_of_the_figure_alone(ax):
    ax.plot([0, 1], [0, 1], color="red", ls="--", marker="o")
    ax.plot([0, 1], [1, 0], color="blue")
    handles = [Line2D([], [], color="red", ls="--", marker="o", label="three layers")]
    ax.get_figure().legend(handles=handles)
    assert [curve["name"] for curve in panel_of(ax)["curves"]] == ["three layers"] * 2


def test_an_empty_line_of_the_legend_is_not_drawn(ax):
    ax.plot([0, 1], [0, 1], label="curve")
    ax.plot([], [], label="predicted")
    assert [curve["name"] for curve in panel_of(ax)["curves"]] == ["curve"]


def test_words_at_ticks_are_kept_and_numbers_left_to_the_page(ax):
    ax.plot([0, 1], [0, 1])
    ax.set_xticks([0, 1], ["linear", "quadratic"])
    ax.set_yticks([0, 1], ["0", "1"])
    panel = panel_of(ax)
    assert panel["x"]["ticks"] == [[0.0, "linear"], [1.0, "quadratic"]]
    assert panel["y"]["ticks"] is None


def test_words_at_points_are_kept_and_those_in_the_frame_left_out(ax):
    ax.plot([0, 1], [0, 1])
    ax.annotate("$m/8$", (0.5, 0.25), (3, 3), textcoords="offset points", ha="right")
    ax.annotate("corner", (0.1, 0.9), xycoords="axes fraction")
    ax.text(0.1, 0.2, "here")
    assert panel_of(ax)["texts"] == [
        {"x": 0.5, "y": 0.25, "text": "m/8", "align": "right"},
        {"x": 0.1, "y": 0.2, "text": "here", "align": "left"},
    ]


def test_a_long_curve_is_thinned_and_keeps_its_ends(ax):
    ax.plot(np.arange(10_000), np.arange(10_000) ** 2)
    points = panel_of(ax)["curves"][0]["points"]
    assert len(points) == MOST_POINTS
    assert points[0] == [0.0, 0.0]
    assert points[-1] == [9999.0, float(f"{9999.0**2:.6g}")]


def test_panels_in_a_row_share_the_label_of_the_first():
    fig = Figure()
    left, right = fig.subplots(1, 2)
    for ax in (left, right):
        ax.plot([0, 1], [0, 1])
    left.set_ylabel("loss")
    assert [panel["y"]["label"] for panel in panels_of(fig)] == ["loss", "loss"]


def test_panels_that_share_their_places_share_their_label():
    fig = Figure()
    top, bottom = fig.subplots(2, 1, sharex=True)
    for ax in (top, bottom):
        ax.plot([0, 1], [0, 1])
    bottom.set_xlabel("step")
    assert [panel["x"]["label"] for panel in panels_of(fig)] == ["step", "step"]
    apart = Figure()
    for ax, label in zip(apart.subplots(2, 1), ("", "step"), strict=True):
        ax.plot([0, 1], [0, 1])
        ax.set_xlabel(label)
    assert [panel["x"]["label"] for panel in panels_of(apart)] == ["", "step"]


def test_empty_and_hidden_panels_are_left_out():
    fig = Figure()
    shown, _empty, hidden = fig.subplots(1, 3)
    for ax in (shown, hidden):
        ax.plot([0, 1], [0, 1])
    hidden.set_visible(False)
    assert len(panels_of(fig)) == 1


def test_words_on_an_axis_are_ticks_at_the_places_that_they_were_given(ax):
    ax.plot(["relu", "tanh"], [1, 2])
    ax.annotate("best", ("tanh", 2))
    panel = panel_of(ax)
    assert panel["curves"][0]["points"] == [[0.0, 1.0], [1.0, 2.0]]
    assert panel["x"]["ticks"] == [[0.0, "relu"], [1.0, "tanh"]]
    assert (panel["texts"][0]["x"], panel["texts"][0]["y"]) == (1.0, 2.0)


def test_masked_and_infinite_points_are_gaps(ax):
    ax.plot([1, 2, 3], np.ma.masked_equal([1.0, 7.0, 3.0], 7.0))
    ax.plot([1, 2, 0], [np.inf, 1e300, 3])
    one, two = panel_of(ax)["curves"]
    assert one["points"] == [[1.0, 1.0], [2.0, None], [3.0, 3.0]]
    assert two["points"][0] == [1.0, None]


def test_a_thinned_curve_keeps_its_gaps(ax):
    y = np.arange(100_000.0)
    y[[777, 50_001, 50_002]] = np.nan
    ax.plot(np.arange(100_000), y)
    points = panel_of(ax)["curves"][0]["points"]
    assert [x for x, y in points if y is None] == [777, 50_001]
    assert len(points) <= MOST_POINTS + 2


def test_a_symmetric_logarithm_says_up_to_where_it_is_linear(ax):
    ax.plot([1, 2], [-1, 1])
    ax.set_yscale("symlog", linthresh=0.01)
    panel = panel_of(ax)
    assert (panel["y"]["scale"], panel["y"]["linear"]) == ("symlog", 0.01)
    assert panel["x"]["scale"] == "linear"


def test_a_band_has_the_name_of_the_curve_of_its_colour_that_lies_in_it(ax):
    x = np.arange(4.0)
    for height, color, dash in ((0, "red", "-"), (5, "red", "--"), (5, "blue", "-")):
        name = f"{color} {height} {dash}"
        ax.plot(x, height + x, color=color, ls=dash, label=name)
        ax.fill_between(x, height + x - 1, height + x + 1, color=color, alpha=0.2)
    ax.fill_between(x, 0, 1, color="green")
    ax.axhspan(0, 1, color="red")
    names = [band["name"] for band in panel_of(ax)["bands"]]
    assert names == ["red 0 -", "red 5 --", "blue 5 -", "", ""]


def test_steps_stay_steps(ax):
    ax.step([1, 2], [3, 4], where="post")
    ax.plot([1, 2], [3, 4])
    assert [curve["step"] for curve in panel_of(ax)["curves"]] == ["step-after", ""]


def dates(ax):
    ax.plot(np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), [1, 2])


SHOWN_AS_DRAWN = {
    "PathCollection": lambda ax: ax.scatter([1, 2], [3, 4]),
    "Rectangle": lambda ax: ax.bar([1, 2], [3, 4]),
    "AxesImage": lambda ax: ax.imshow(np.eye(2)),
    "QuadMesh": lambda ax: ax.pcolormesh(np.eye(2)),
    "PolyQuadMesh": lambda ax: ax.pcolor(np.eye(2)),
    "LineCollection": lambda ax: ax.hlines([1], 0, 1),
    "AxLine": lambda ax: ax.axline((0, 0), slope=1),
    "Axes": lambda ax: ax.inset_axes((0.5, 0.5, 0.4, 0.4)).plot([1, 2]),
    "FillBetweenPolyCollection": lambda ax: ax.fill_betweenx([1, 2, 3], [1, 2, 3], [2, 3, 4]),
    "error bars of a kind of their own": lambda ax: ax.errorbar([1], [2], xerr=[1]),
    "an axis of dates or other units": dates,
    "a scale of kind logit": lambda ax: ax.set_xscale("logit"),
}


@pytest.mark.parametrize("lost", SHOWN_AS_DRAWN)
def test_a_panel_with_more_than_is_taken_is_left_out_and_named(lost):
    fig = Figure()
    left, right = fig.subplots(1, 2)
    left.plot([0, 1], [0, 1])
    if lost != "an axis of dates or other units":
        right.plot([0.2, 0.8], [0, 1])
    right.set_title("right one")
    SHOWN_AS_DRAWN[lost](right)
    assert [len(panel["curves"]) for panel in panels_of(fig)] == [1]
    assert left_out(fig) == [f"right one ({lost})"]
    right.set_title("")
    assert left_out(fig) == [f"panel 2 ({lost})"]


def test_stepped_bands_are_left_out(ax):
    ax.fill_between([1, 2, 3], [1, 2, 3], [2, 3, 4], step="post")
    assert panels_of(ax.get_figure()) == []


def test_what_is_hidden_is_not_missed(ax):
    ax.plot([0, 1], [0, 1])
    ax.scatter([1, 2], [3, 4]).set_visible(False)
    ax.legend(["curve"])
    ax.set_title("title")
    assert left_out(ax.get_figure()) == []
    assert len(panel_of(ax)["curves"]) == 1
