# SPDX-License-Identifier: Apache-2.0
"""A figure that a notebook shows, with pyplot or without it."""

import io
from typing import Any

from matplotlib.figure import Figure

from unlazy.core.drawing import style


class ShownFigure(Figure):
    """A figure of matplotlib's, which no list of open figures holds and notebooks show as it is.

    A plain `Figure` is shown only once pyplot has been imported; this one brings its own picture.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        """The picture at twice the resolution, with the size at which to show it."""
        target = io.BytesIO()
        width, height = self.get_size_inches() * self.dpi
        with style():
            self.savefig(target, format="png", dpi=2 * self.dpi)
        return target.getvalue(), {"width": round(width), "height": round(height)}
