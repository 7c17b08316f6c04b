# SPDX-License-Identifier: Apache-2.0
"""Round numbers on a logarithmic axis."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import matplotlib.axes

# Steps within a decade, and up to how many ticks each is to give; densest first.
_STEPS = (
    ([tenths / 10 for tenths in range(10, 100)], 9),
    ([halves / 2 for halves in range(2, 20)], 9),
    ([1, 1.5, 2, 3, 5, 7], 9),
    ([1, 2, 5], 15),
    ([1], math.inf),
)


def round_ticks(ax: "matplotlib.axes.Axes") -> None:
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
