# SPDX-License-Identifier: Apache-2.0
"""What of a panel the page could not draw from its numbers: it is then shown as it was drawn."""

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

_SCALES = ("linear", "log", "symlog")


def unseen(ax: "Axes") -> str:
    """What of these axes `panels_of` would lose, in a few words; empty if that is nothing.

    Example:
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().subplots()
        >>> _ = ax.scatter([1, 2], [3, 4])
        >>> unseen(ax)
        'PathCollection'
    """
    if ax.name != "rectilinear":
        return f"{ax.name} axes"
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() not in _SCALES:
            return f"a scale of kind {axis.get_scale()}"
        if not _is_of_numbers(axis):
            return "an axis of dates or other units"
    bars = _error_bars(ax)
    if bars is None:
        return "error bars of a kind of their own"
    for artist in ax.get_children():
        if artist.get_visible() and artist not in bars and not _is_shown(ax, artist):
            return type(artist).__name__
    return ""


def is_band(artist: "Artist", ax: "Axes") -> "TypeGuard[FillBetweenPolyCollection]":
    """Whether this is an area between two heights at each of some places."""
    from matplotlib.collections import FillBetweenPolyCollection

    # By `vars`, since the types of matplotlib do not know it.
    if not isinstance(artist, FillBetweenPolyCollection) or vars(artist)["t_direction"] != "x":
        return False
    shapes = [np.asarray(path.vertices) for path in artist.get_paths()]
    return _in_data(ax, artist) == (True, True) and all(_heights(shape) <= 2 for shape in shapes)


def is_strip(artist: "Artist", ax: "Axes") -> "TypeGuard[Rectangle]":
    """Whether this is a strip across the panel, from one height to another."""
    from matplotlib.patches import Rectangle

    return isinstance(artist, Rectangle) and _in_data(ax, artist) == (False, True)


def finite(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which points can be drawn."""
    return np.isfinite(x) & np.isfinite(y)


def _heights(vertices: np.ndarray) -> int:
    """The most heights at one place; steps have more than two."""
    points = np.unique(vertices, axis=0)
    return int(np.unique(points[:, 0], return_counts=True)[1].max(initial=0))


def _is_of_numbers(axis: Any) -> bool:
    from matplotlib.category import StrCategoryConverter

    converter = axis.get_converter()  # words are numbered, and stand at the ticks
    return converter is None or isinstance(converter, StrCategoryConverter)


def _error_bars(ax: "Axes") -> set["Artist"] | None:
    """All that belongs to error bars, which are shown; None if some are not."""
    from matplotlib.container import ErrorbarContainer

    found = [one for one in ax.containers if isinstance(one, ErrorbarContainer)]
    if any(one.has_xerr or not one.lines[0] for one in found):
        return None
    return {part for one in found for part in (*one.lines[1], *one.lines[2])}


def _is_shown(ax: "Axes", artist: "Artist") -> bool:
    from matplotlib.axis import Axis
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.spines import Spine
    from matplotlib.text import Text

    if artist is ax.patch or isinstance(artist, Axis | Legend | Spine | Text):
        return True  # the frame; words in it are left out, since they would hide others
    if isinstance(artist, Line2D):
        return _is_curve(ax, artist)
    return is_band(artist, ax) or is_strip(artist, ax)


def _is_curve(ax: "Axes", line: "Line2D") -> bool:
    """Whether a line is a curve, or straight across the panel."""
    from matplotlib.lines import AxLine

    x, y = (np.asarray(part, float) for part in line.get_data(orig=False))
    across = {(False, True): y, (True, False): x}
    in_data = _in_data(ax, line)
    if isinstance(line, AxLine):
        return False
    if in_data in across:
        return len(np.unique(across[in_data])) == 1
    return in_data == (True, True) or not finite(x, y).any()


def _in_data(ax: "Axes", artist: "Artist") -> tuple[bool, bool]:
    """Whether its places, and its heights, are those of the data."""
    # The misspelling is matplotlib's.
    x, y = artist.get_transform().contains_branch_seperately(ax.transData)
    return x, y
