# SPDX-License-Identifier: Apache-2.0
"""The common look of all figures: colours, lines, bands over seeds, limits and ticks of axes."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:  # matplotlib is imported only where something is drawn
    Axes = Figure = Any

# Okabe and Ito's palette, distinct in any colour vision; its yellow, invisible on paper, left out.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# One for each colour, so that curves stay apart when printed in grey.
LINES = ("-", "--", "-.", ":", (0, (6, 2)), (0, (4, 1, 1, 1, 1, 1)), (0, (1, 1)))

# Steps of round ticks within a decade, and up to how many ticks each is to give; densest first.
_STEPS = (
    ([tenths / 10 for tenths in range(10, 100)], 9),
    ([halves / 2 for halves in range(2, 20)], 9),
    ([1, 1.5, 2, 3, 5, 7], 9),
    ([1, 2, 5], 15),
    ([1], math.inf),
)


def hues(count: int) -> tuple[str, ...]:
    """Colours for a family of curves: the palette, or a scale from dark to bright if it is longer.

    Example:
        >>> hues(2) == COLORS[:2], len(set(hues(12)))
        (True, 12)
    """
    if count <= len(COLORS):
        return COLORS[:count]
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    scale = colormaps["viridis"]  # ordered: such families run over widths or dimensions
    return tuple(to_hex(scale(0.95 * place / (count - 1))) for place in range(count))


@contextmanager
def style() -> Iterator[None]:
    """Draw and save in the common style, and leave matplotlib's settings as they were.

    Example:
        >>> from matplotlib.figure import Figure
        >>> with style():
        ...     print(Figure(figsize=(4, 3)).get_layout_engine().__class__.__name__)
        ConstrainedLayoutEngine
    """
    import matplotlib as mpl
    from cycler import cycler

    settings: dict[Any, Any] = {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, hence is the same everywhere
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.labelsize": 9,
        "legend.fontsize": 8.5,
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5,
        "axes.prop_cycle": cycler(color=COLORS) + cycler(linestyle=LINES),
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.linewidth": 0.4,
        "grid.color": "#cccccc",
        "lines.linewidth": 1.5,
        "lines.markersize": 4,
        "legend.frameon": False,
        "figure.dpi": 100,
        "figure.constrained_layout.use": True,
        "savefig.dpi": 200,
        "savefig.facecolor": "white",
        "svg.hashsalt": "unlazy",  # otherwise the names inside an SVG are random
    }
    with mpl.rc_context():
        mpl.rcdefaults()  # the user's own style would change the bytes
        for name, value in settings.items():
            mpl.rcParams[name] = value
        yield


def figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, which notebooks show."""
    from unlazy.core.shown_figures import ShownFigure

    return ShownFigure(figsize=(width, height))


def band(
    ax: Axes,
    places: Any,
    seeds: Float[np.ndarray, "seeds places"],
    *,
    middle: Float[np.ndarray, " places"] | None = None,
    shade: float = 0.15,
    **style: Any,
) -> None:
    """Draw the mean over seeds, or `middle`, as a line, and the range of the seeds as a band."""
    ax.plot(places, seeds.mean(axis=0) if middle is None else middle, **style)
    low, high = seeds.min(axis=0), seeds.max(axis=0)
    ax.fill_between(places, low, high, color=style["color"], alpha=shade, lw=0)


def log_axes(ax: Axes, places: Sequence[int]) -> None:
    """Make both axes logarithmic, with ticks at the places and at round numbers."""
    ax.set(xscale="log", yscale="log")
    ax.set_xticks(places, [str(place) for place in places])
    ax.minorticks_off()
    round_ticks(ax)


def round_ticks(ax: Axes) -> None:
    """Ticks at round numbers within the vertical limits, as dense as can be read."""
    low, high = ax.get_ylim()
    if not 0 < low < high:  # nothing was drawn
        return
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps, most in _STEPS:
        every = [float(f"{step}e{power}") for power in powers for step in steps]
        ticks = [tick for tick in every if low <= tick <= high]
        if len(ticks) <= most:
            ax.set_yticks(ticks, minor=False)
            break
    ax.yaxis.set_major_formatter("{x:g}")


def spanning(
    values: Any, below: float, above: float, *, otherwise: tuple[float, float]
) -> tuple[float, float]:
    """Limits of an axis, from `below` times the least finite value to `above` times the largest.

    They are `otherwise` where nothing is finite, as when every training diverged.

    Example:
        >>> spanning([2.0, float("nan"), 4.0], 0.5, 2.0, otherwise=(0.0, 1.0))
        (1.0, 8.0)
    """
    array = np.asarray(values, float)
    finite = array[np.isfinite(array)]
    if not finite.size:
        return otherwise
    low, high = below * float(finite.min()), above * float(finite.max())
    return (low, high) if low < high else otherwise
