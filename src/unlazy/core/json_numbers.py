# SPDX-License-Identifier: Apache-2.0
"""Numbers as JSON can hold them."""

import math


def json_number(value: float | int) -> float | int | str:
    """A number as JSON can hold it: `nan` and the infinities as strings that `float` reads back.

    Example:
        >>> json_number(0.5), json_number(float("inf"))
        (0.5, 'inf')
    """
    return value if math.isfinite(value) else repr(float(value))
