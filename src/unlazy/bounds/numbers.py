# SPDX-License-Identifier: Apache-2.0
"""Numbers given by hand, of Python or of NumPy, as floats."""

import math
from typing import Any

import numpy as np
from jaxtyping import Array

Number = int | float | np.number


def as_number(value: Any, name: str, *, least: int | float = -math.inf) -> float:
    """The number as a float; raise unless it is finite and at least `least`."""
    kinds = int | float | np.number | np.ndarray | Array
    is_number = isinstance(value, kinds) and not isinstance(value, bool) and np.ndim(value) == 0
    if not (is_number and np.isfinite(value) and value >= least):
        expected = "a finite number" if least == -math.inf else f"a number >= {least:g}"
        raise ValueError(f"`{name}` must be {expected}, got {name}={value!r}.")
    return float(value)
