# SPDX-License-Identifier: Apache-2.0
"""Where a `plot` method draws: on the caller's axes, or on a new figure; in our style either way.

The frame of given axes (its ticks, grid and fonts) is the caller's and stays as it is; curves,
colours, labels and legend are ours. A new figure is not in pyplot's list of open figures, hence
need not be closed. It is `ax.figure`, which `savefig` writes and a notebook shows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from unlazy.core.checks import short
from unlazy.core.drawing import COLORS, LINES, Axes, figure, round_ticks, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
else:  # matplotlib is imported only where something is drawn
    Figure = SubFigure = Any


_ROW = "_row of a range: "  # before the name of each bar of `draw_range`


@contextmanager
def panel(ax: Axes | None, width: float = 4.8, height: float = 3.3) -> Iterator[Axes]:
    """The axes to draw on, within our style: those given, or the only ones of a new figure.

    Args:
        ax: the caller's; None for a new figure.
        width: of a new figure, in inches.
        height: likewise.

    Raises:
        TypeError: `ax` is no Axes, or has another projection than two straight axes.

    Example:
        >>> with panel(None) as ax:
        ...     ax.figure.get_size_inches().tolist()
        [4.8, 3.3]
    """
    if ax is not None:
        _check_axes(ax)
    with style():
        yield figure(width, height).subplots() if ax is None else ax


@contextmanager
def canvas(fig: Figure | SubFigure | None, width: float, height: float) -> Iterator[Figure]:
    """The figure to draw several panels on, within our style: the one given, or a new one.

    A SubFigure counts as a Figure for type checkers: `savefig` is all that it lacks.

    Raises:
        TypeError: this is no Figure or SubFigure.
        ValueError: it has axes already, over which ours would lie.
    """
    if fig is not None:
        _check_figure(fig)
    with style():
        yield figure(width, height) if fig is None else cast(Figure, fig)


def next_look(ax: Axes) -> dict[str, Any]:
    """Colour and dashes of the next curve, after those that the axes have names for.

    Two results that are drawn on the same axes can so be told apart.
    """
    place = len(ax.get_legend_handles_labels()[1])
    return {"color": COLORS[place % len(COLORS)], "ls": LINES[place % len(LINES)]}


def name_curves(ax: Axes, **options: Any) -> None:
    """A legend, where there are names to show."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(**options)


def log_if_positive(ax: Axes, *axes: str) -> None:
    """Make these axes, "x" and "y", logarithmic if anything drawn as a curve is above zero there.

    Example:
        >>> with panel(None) as ax:
        ...     _ = ax.plot([0, 1], [0, 0])
        ...     log_if_positive(ax, "x", "y")
        >>> ax.get_xscale(), ax.get_yscale()
        ('log', 'linear')
    """
    for name in axes:
        drawn = [np.ravel(getattr(line, f"get_{name}data")()) for line in ax.get_lines()]
        values = np.concatenate([np.zeros(0), *(np.asarray(part, float) for part in drawn)])
        if np.any(np.isfinite(values) & (values > 0)):
            getattr(ax, f"set_{name}scale")("log")
            if name == "y":
                readable_ticks(ax)


def readable_ticks(ax: Axes) -> None:
    """Plain numbers along a logarithmic vertical axis of less than three decades, not powers."""
    from matplotlib.ticker import NullFormatter

    low, high = ax.get_ylim()
    ax.yaxis.set_minor_formatter(NullFormatter())
    if high < 10**2.5 * low and low >= 1e-4 and high <= 1e5:
        round_ticks(ax)
        ax.minorticks_off()


def draw_range(
    ax: Axes, ends: tuple[float, float], name: str, *, errors: tuple[float, float] = (0.0, 0.0)
) -> None:
    """A bar from one number to the other in a row of its own, named beside it, above earlier ones.

    An end that is infinite is not drawn.
    """
    # Labels with a leading underscore are in no legend; ticks may be those of the caller.
    labels = [str(line.get_label()) for line in ax.get_lines()]
    rows = [label.removeprefix(_ROW) for label in labels if label.startswith(_ROW)]
    row, color = len(rows), COLORS[len(rows) % len(COLORS)]
    ax.plot(ends, (row, row), color=color, ls="-", lw=4, alpha=0.35, solid_capstyle="butt",
        label=_ROW + name,
    )  # fmt: skip
    ax.errorbar(ends, (row, row), xerr=errors, color=color, marker="|", ms=14, ls="none", capsize=4)
    ax.set_yticks(range(row + 1), [*rows, name])
    ax.set_ylim(-0.7, row + 0.7)
    ax.grid(visible=False, axis="y")


def is_wide(values: Any) -> bool:
    """Whether a logarithmic axis suits: all finite values positive, a factor of 10 apart or more.

    Example:
        >>> is_wide([1.0, 100.0, float("inf")]), is_wide([0.0, 100.0])
        (True, False)
    """
    array = np.asarray(values, float)
    finite = array[np.isfinite(array)]
    return bool(finite.size and finite.min() > 0 and finite.max() >= 10 * finite.min())


def _check_axes(ax: Any) -> None:
    from matplotlib.axes import Axes as Kind

    if not isinstance(ax, Kind):
        hint = "Pass one entry of that array." if isinstance(ax, np.ndarray) else "Pass one of "
        hint += "" if isinstance(ax, np.ndarray) else "`plt.subplots()`, or None for a new figure."
        raise TypeError(f"`ax` must be a matplotlib Axes or None, got ax={short(ax)}. {hint}")
    if ax.name != "rectilinear":
        raise TypeError(
            f"`ax` must have two straight axes, got ax with the projection {ax.name!r}."
        )


def _check_figure(fig: Any) -> None:
    from matplotlib.figure import Figure, SubFigure

    if not isinstance(fig, Figure | SubFigure):
        raise TypeError(
            f"`figure` must be a matplotlib Figure or SubFigure or None, got figure={short(fig)}. "
            "Single panels, which take an `ax`, have methods of their own."
        )
    if fig.axes:
        raise ValueError(
            f"`figure` must be empty, got one with {len(fig.axes)} axes. Make room beside them by "
            "`fig.subfigures()`."
        )
