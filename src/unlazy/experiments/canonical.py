# SPDX-License-Identifier: Apache-2.0
"""The canonical text of a configuration: the same characters in every process, on every machine."""

import dataclasses
import json
import math
from typing import Any

_DEEPEST = 60  # levels of lists and objects in each other
_TOO_DEEP = f"its lists are nested more than {_DEEPEST} deep"


def encode(value: Any, where: str = "config") -> Any:
    """Turn a configuration into values for JSON; values that differ stay different.

    A dataclass becomes its class name and every field, a tuple a list. Floats are left to JSON,
    which writes their `repr`, so that 1 and 1.0 differ and no digit is lost. Errors call the value
    `where`, such as `config.widths[2]`.

    Raises:
        TypeError: If something in it is mutable or has no canonical text.

    Example:
        >>> encode((1, 2.5, "relu"))
        [1, 2.5, 'relu']
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # JSON has no nan and no infinity; no other value is encoded as an object without a class.
        return value if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, tuple):
        return [encode(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if _is_frozen(value):
        # `class` is a keyword, so no field can be called that.
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        encoded = {name: encode(item, f"{where}.{name}") for name, item in fields.items()}
        return {"class": type(value).__name__, **encoded}
    raise TypeError(
        f"`{where}` must be a Python scalar, string, tuple or frozen dataclass of these, "
        f"got {where}={value!r} of type {type(value).__name__}. "
        "Use a tuple for a list, and int() or float() on a NumPy scalar."
    )


def compact_json(encoded: Any) -> str:
    """The shortest text of an encoded value, its keys sorted: what a digest is taken of."""
    return json.dumps(encoded, sort_keys=True, separators=(",", ":"), allow_nan=False)


def readable_json(encoded: Any) -> bytes:
    """The text of an encoded value for a file that people may open, its keys sorted."""
    return (json.dumps(encoded, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()


def plain_json(text: str | bytes) -> Any:
    """The value of a JSON text of any origin, if whatever is done with it later can be done.

    Nan and infinity, which Python reads and JSON does not have, are refused, and so is what is
    nested so deep that functions that call themselves would fail on it.

    Raises:
        ValueError: If it is no such text.

    Example:
        >>> plain_json('{"widths": [10, 2.5]}')
        {'widths': [10, 2.5]}
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    level = [value]
    for _ in range(_DEEPEST):
        if any(isinstance(one, float) and not math.isfinite(one) for one in level):
            raise ValueError("JSON has neither nan nor infinity")
        parts = (one.values() if isinstance(one, dict) else one for one in level if _holds(one))
        level = [part for one in parts for part in one]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list)


def _is_frozen(value: Any) -> bool:
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return False
    return type(value).__dataclass_params__.frozen  # pyright: ignore[reportAttributeAccessIssue]  # set by dataclass(), unknown to its stubs
