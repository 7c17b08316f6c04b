# SPDX-License-Identifier: Apache-2.0
"""Numbers as JSON can hold them."""

import math


def json_number(value: float | int | str | None) -> float | int | str | None:
    """A number as JSON can hold it: `nan` and the infinities as strings that `float` reads back.

    Text and None stay as they are.

    Example:
        >>> json_number(0.5), json_number(float("inf")), json_number("relu 1")
        (0.5, 'inf', 'relu 1')
    """
    if value is None or isinstance(value, str):
        return value
    return value if math.isfinite(value) else repr(float(value))
