# SPDX-License-Identifier: Apache-2.0
"""What a figure shows, as numbers: its panels, curves, bands and marks, ready for JSON.

Figures are drawn by matplotlib, once. A page that lets a reader zoom and hover takes the same
numbers from the drawn figure, so that no figure is described twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.experiments.report.mathtext import plain
from unlazy.experiments.report.unseen import finite, is_band, is_strip, unseen

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MOST_POINTS = 1500  # of one curve; a screen shows no more
_DASHES = {"--": [6.0, 3.0], "-.": [6.0, 3.0, 1.5, 3.0], ":": [1.5, 2.5]}
_STEPS = {"steps": "step-before", "steps-pre": "step-before", "steps-post": "step-after"} | {
    "steps-mid": "step"
}

Panel = dict[str, Any]
Curve = dict[str, Any]


def panels_of(fig: "Figure") -> list[Panel]:
    """Each panel of a figure: title, axes, and everything that is drawn in data coordinates.

    Panels with more than that are left out; `left_out` names them.

    Example:
        >>> from matplotlib.figure import Figure
        >>> fig = Figure()
        >>> _ = fig.subplots().plot([1, 2], [3, 4], label="a line")
        >>> [curve] = panels_of(fig)[0]["curves"]
        >>> curve["name"], curve["points"]
        ('a line', [[1.0, 3.0], [2.0, 4.0]])
    """
    names = _names_in_legends(fig)
    return [_panel(ax, names) for ax in _drawn(fig) if not unseen(ax)]


def left_out(fig: "Figure") -> list[str]:
    """The panels that `panels_of` leaves out, in words, each with what it would lose."""
    found = [(number, ax, unseen(ax)) for number, ax in enumerate(_drawn(fig), 1)]
    return [f"{_title(ax) or f'panel {number}'} ({lost})" for number, ax, lost in found if lost]


def _drawn(fig: "Figure") -> list["Axes"]:
    return [ax for ax in fig.axes if ax.get_visible() and (ax.has_data() or ax.child_axes)]


def _title(ax: "Axes") -> str:
    titles = (ax.get_title(loc=place) for place in ("left", "center", "right"))
    return plain(" ".join(title for title in titles if title))


def _panel(ax: "Axes", names: dict[Any, str]) -> Panel:
    curves = _grouped(ax, names)
    return {
        "title": _title(ax),
        "x": _axis(ax, "x"),
        "y": _axis(ax, "y"),
        "curves": curves,
        "bands": [band | {"name": _owner(band, curves)} for band in _bands(ax)],
        "texts": list(_texts(ax)),
    }


def _axis(ax: "Axes", which: str) -> dict[str, Any]:
    from matplotlib.scale import SymmetricalLogTransform

    axis = ax.xaxis if which == "x" else ax.yaxis
    transform = axis.get_transform()
    symmetric = isinstance(transform, SymmetricalLogTransform)
    linear = {"linear": transform.linthresh} if symmetric else {}  # up to there it is linear
    low, high = sorted(float(limit) for limit in axis.get_view_interval())
    return {
        "label": plain(axis.get_label_text()) or _shared_label(ax, which),
        "scale": axis.get_scale(),
        "domain": [_number(low), _number(high)],
        "ticks": _named_ticks(axis),
        **linear,
    }


def _shared_label(ax: "Axes", which: str) -> str:
    """The label of a panel without one: that of its row, or of a panel that shares its places."""
    fig = ax.get_figure()
    for other in fig.axes if fig else ():
        axis = other.xaxis if which == "x" else other.yaxis
        if axis.get_label_text() and (
            ax.get_shared_x_axes().joined(ax, other) if which == "x" else _in_one_row(ax, other)
        ):
            return plain(axis.get_label_text())
    return ""


def _in_one_row(ax: "Axes", other: "Axes") -> bool:
    places = [one.get_subplotspec() for one in (ax, other)]
    return None not in places and len({tuple(one.rowspan) for one in places if one}) == 1


def _named_ticks(axis: Any) -> list[list[Any]] | None:
    """Ticks that were given words of their own, as pairs of place and word; None without any."""
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    formatter = axis.get_major_formatter()
    # `set_xticks(places, words)` makes a function of the words.
    if not isinstance(formatter, FixedFormatter | FuncFormatter | StrCategoryFormatter):
        return None
    places = axis.get_majorticklocs()
    words = [plain(word) for word in formatter.format_ticks(places)]
    if all(_is_number(word) for word in words if word):
        return None
    return [[_number(place), word] for place, word in zip(places, words, strict=True)]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _grouped(ax: "Axes", names: dict[Any, str]) -> list[Curve]:
    """The curves; one without a name belongs to the one drawn before it, and is shown with it.

    Straight lines across the panel are marks of their own.
    """
    curves, group = [], ""
    for curve in _curves(ax, names):
        if "points" in curve:
            group = curve["name"] or group
        curves.append(curve | {"name": curve["name"] or (group if "points" in curve else "")})
    return curves


def _curves(ax: "Axes", names: dict[Any, str]) -> Iterator[Curve]:
    from matplotlib.container import ErrorbarContainer

    bars = [one for one in ax.containers if isinstance(one, ErrorbarContainer)]
    inside: dict[Any, ErrorbarContainer] = {one.lines[0]: one for one in bars if one.lines[0]}
    caps = {cap for one in bars for cap in one.lines[1]}
    for line in ax.get_lines():
        if line in caps or not line.get_visible():
            continue
        container = inside.get(line)
        label = str((container or line).get_label())
        name = names.get(_look(line), "") if label.startswith("_") else plain(label)
        yield from _curve(ax, line, name, container)


def _curve(
    ax: "Axes", line: "Line2D", name: str, container: "ErrorbarContainer | None"
) -> Iterator[Curve]:
    from matplotlib.colors import to_hex

    # As they were drawn: words as the places that they were given.
    x, y = (np.atleast_1d(np.asarray(part, float)) for part in line.get_data(orig=False))
    in_data = line.get_transform().contains_branch_seperately(ax.transData)
    common = {
        "name": name,
        "color": to_hex(line.get_color()),
        "dash": _dash(line),
        "width": round(float(line.get_linewidth()), 2),
        "step": _STEPS.get(line.get_drawstyle(), ""),
        "line": line.get_linestyle() not in ("None", "none", " ", ""),
        "marker": line.get_marker() not in ("None", "none", None, " ", ""),
    }
    if in_data == (True, True) and finite(x, y).any():
        yield common | {"points": _points(x, y), "bars": _error_bars(container)}
    elif in_data == (False, True):
        yield common | {"horizontal": _number(y[0])}
    elif in_data == (True, False):
        yield common | {"vertical": _number(x[0])}


def _error_bars(container: "ErrorbarContainer | None") -> list[list[float | None]]:
    """The vertical bars: place, lower end, upper end."""
    if container is None or not container.has_yerr:
        return []
    segments = container.lines[2][-1].get_segments()
    return [[_number(s[0][0]), _number(s[0][1]), _number(s[-1][1])] for s in segments if len(s)]


def _bands(ax: "Axes") -> Iterator[dict[str, Any]]:
    """Areas between two curves, and strips across the panel."""
    for area in ax.collections:
        if is_band(area, ax) and area.get_visible():
            look = _filled(np.asarray(area.get_facecolor())[0])
            for path in area.get_paths():
                yield look | {"between": _between(np.asarray(path.vertices))}
    for patch in ax.patches:
        if is_strip(patch, ax) and patch.get_visible():
            ends = (patch.get_y(), patch.get_y() + patch.get_height())
            look = _filled(np.asarray(patch.get_facecolor()))
            yield look | {"strip": [_number(end) for end in ends]}


def _filled(face: np.ndarray) -> dict[str, Any]:
    from matplotlib.colors import to_hex

    return {"color": to_hex(tuple(face)), "opacity": round(float(face[-1]), 3)}


def _owner(band: Mapping[str, Any], curves: Sequence[Curve]) -> str:
    """The name of the curve that a band is shown and hidden with; empty if there is none.

    That is a curve of its colour, and of several the one that lies in it.
    """
    alike = [one for one in curves if "points" in one and one["color"] == band["color"]]
    if "between" not in band or not alike:
        return ""
    return max(alike, key=lambda curve: _share_within(curve, band))["name"]


def _share_within(curve: Curve, band: Mapping[str, Any]) -> float:
    """The share of the points of a curve that lie in a band."""
    whole = [place for place in band["between"] if None not in place]
    points = [point for point in curve["points"] if None not in point]
    if not whole or not points:
        return 0.0
    (places, low, high), (x, y) = np.transpose(whole), np.transpose(points)
    inside = (np.interp(x, places, low) <= y) & (y <= np.interp(x, places, high))
    return float(np.mean(inside & (places[0] <= x) & (x <= places[-1])))


def _between(vertices: np.ndarray) -> list[list[float | None]]:
    """The least and the largest height at each place of a polygon."""
    places = np.unique(vertices[:, 0])
    heights = [vertices[vertices[:, 0] == place, 1] for place in places]
    return [
        [_number(place), _number(each.min()), _number(each.max())]
        for place, each in zip(places, heights, strict=True)
    ]


def _texts(ax: "Axes") -> Iterator[dict[str, Any]]:
    """Words at a point of the data; those placed by the frame would hide others when zoomed."""
    from matplotlib.text import Annotation

    for text in ax.texts:
        place = text.xy if isinstance(text, Annotation) else text.get_position()
        in_data = (
            text.xycoords == "data"
            if isinstance(text, Annotation)
            else text.get_transform() == ax.transData
        )
        if in_data and text.get_text():
            x, y = ax.convert_xunits(place[0]), ax.convert_yunits(place[1])
            align = text.get_horizontalalignment()
            yield {"x": _number(x), "y": _number(y), "text": plain(text.get_text()), "align": align}


def _names_in_legends(fig: "Figure") -> dict[Any, str]:
    """The names that legends give to looks: figures may name curves there alone."""
    from matplotlib.lines import Line2D

    legends = [*fig.legends, *(ax.get_legend() for ax in fig.axes)]
    names: dict[Any, str] = {}
    for legend in filter(None, legends):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            if isinstance(handle, Line2D):
                names.setdefault(_look(handle), plain(text.get_text()))
    return names


def _look(line: "Line2D") -> tuple[Any, ...]:
    from matplotlib.colors import to_hex

    return to_hex(line.get_color()), str(line.get_linestyle()), str(line.get_marker())


def _dash(line: "Line2D") -> list[float]:
    return _DASHES.get(str(line.get_linestyle()), [])  # patterns of one's own are called "--"


def _points(x: np.ndarray, y: np.ndarray) -> list[list[float | None]]:
    """The points of a curve, thinned evenly where a screen could not show them all."""
    if len(x) > MOST_POINTS:
        even = np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(int)
        missing = ~finite(x, y)
        gaps = np.flatnonzero(missing & ~np.append(False, missing[:-1]))
        kept = np.union1d(even, gaps)  # without its gap, the curve would bridge it
        x, y = x[kept], y[kept]
    return [[_number(a), _number(b)] for a, b in zip(x, y, strict=True)]


def _number(value: Any) -> float | None:
    """Six digits, which no screen shows; None for what JSON cannot say."""
    return float(f"{float(value):.6g}") if np.isfinite(value) else None
