# SPDX-License-Identifier: Apache-2.0
"""How figures are saved: the same figure, the same bytes."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.core.disk import replace_file
from unlazy.core.drawing import style
from unlazy.core.entries import entry

if TYPE_CHECKING:
    import matplotlib.figure

_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}}


def bear_nothing(fig: "matplotlib.figure.Figure") -> None:
    """Give empty logarithmic axes limits, which matplotlib does not."""
    for ax in fig.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            if axis.get_scale() == "log" and not 0 < low < high < np.inf:
                axis.set_view_interval(0.1, 1.0, ignore=True)


@entry
def save_figure(fig: "matplotlib.figure.Figure", folder: Path, stem: str) -> tuple[Path, Path]:
    """Save a figure that was drawn inside `style()` as PNG (200 dpi) and SVG.

    Each file is replaced in one step, and the folder made if need be.

    Returns:
        The paths of the PNG and of the SVG.

    Raises:
        StoreError: If they cannot be written.
    """
    paths = [folder / f"{stem}.{kind}" for kind in _METADATA]
    for path in paths:
        write_figure(fig, path)
    return paths[0], paths[1]


def write_figure(fig: "matplotlib.figure.Figure", path: Path) -> None:
    """Save a figure that was drawn inside `style()` in the format that the name ends in."""
    kind = path.suffix[1:].lower()
    buffer = io.BytesIO()
    bear_nothing(fig)
    with style():
        fig.savefig(buffer, format=kind, metadata=_METADATA[kind])
    replace_file(path, buffer.getvalue())
