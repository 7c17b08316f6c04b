# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments at the public entries; each raises one clear error that names the argument.

Shapes and Python values are always checked. Array values are checked when they are known, that is
outside of `jax.jit` and the other transformations, inside which nothing can be raised.
"""

import contextlib
import difflib
import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike

from unlazy.core.errors import UnknownNameError
from unlazy.core.float64 import float64


def as_array(value: Any, name: str = "x") -> Array | np.ndarray:
    """Return an array unchanged, so that float64 keeps its digits; lists and integers as float64.

    Integers beyond 2^53 are rounded to the nearest float64, as decimal fractions are. Raises as
    `check_real` does.
    """
    check_real(value, name)
    if not isinstance(value, Array):
        value = np.asarray(value)
    if jnp.issubdtype(value.dtype, jnp.floating):
        return value
    return np.asarray(value, np.float64)


def check_real(value: Any, name: str) -> None:
    """Raise unless `value` is a plain array of real numbers of a kind that JAX computes with.

    NumPy would silently cast the others: a complex number loses its imaginary part, a masked array
    its mask, and text and dates become numbers. Numbers in another machine's byte order are refused
    too: JAX takes none, and a check cannot hand back a converted array.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(
            f"`{name}` must be a plain array, got a masked array of shape {value.shape}. "
            "Drop the rows that are masked, or fill them in with `filled`."
        )
    dtype = _dtype_of(value, name)
    is_real = any(jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))
    if not is_real or dtype.kind == "m":  # to NumPy a span of time is an integer
        if np.ndim(value) == 0:
            raise ValueError(f"`{name}` must be a real number, got {name}={short(value)}.")
        raise ValueError(
            f"`{name}` must be an array of real numbers, got {name}.dtype={dtype}. "
            f"Pass {name}.astype('float64') if its entries are numbers."
        )
    if not dtype.isnative or dtype.itemsize > 8:
        kin = np.dtype(np.float64) if dtype.itemsize > 8 else dtype.newbyteorder("=")
        raise ValueError(
            f"`{name}` must be of a dtype that JAX has, got {name}.dtype={dtype}. "
            f"Pass {name}.astype({kin.name!r})."
        )


def _dtype_of(value: Any, name: str) -> Any:
    if isinstance(value, Array | np.ndarray | np.generic):
        return value.dtype
    try:
        return np.asarray(value).dtype
    except jax.errors.TracerArrayConversionError:  # a list of traced numbers
        return jnp.asarray(value).dtype
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be an array of real numbers, got {name}={short(value)}. "
            "Rows must all be of one length."
        ) from error


def short(value: Any, most: int = 80) -> str:
    """The value on one line, cut after `most` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]}..."


def is_known(value: Any) -> bool:
    """Whether the entries of an array can be read, as they cannot under a transformation."""
    return not isinstance(value, Tracer)


def check_inputs(x: ArrayLike, name: str = "x", *, allow_zero_rows: bool = False) -> None:
    """Raise unless `x` is a finite `(n, d)` array with at least one row and no row of zeros."""
    check_real(x, name)
    shape = np.shape(x)
    if len(shape) != 2 or shape[0] == 0 or shape[1] == 0:
        raise ValueError(
            f"`{name}` must have shape (n, d) with n, d >= 1, got {name}.shape={shape}. "
            "Rows are samples; flatten images first."
        )
    check_finite(x, name)
    if allow_zero_rows or not is_known(x):
        return
    if type(x) is np.ndarray:  # no program is compiled for its shape
        nonzero = np.any(x, axis=1)
    else:
        with jax.ensure_compile_time_eval(), float64():
            nonzero = np.asarray(_any_nonzero(jnp.asarray(x)))
    if (zero := np.flatnonzero(~nonzero)).size:
        raise ValueError(
            f"`{name}` must have no row of zeros, got zeros in {some_rows(zero)}. "
            "A zero row has no direction; drop it."
        )


def check_labels(y: ArrayLike, n: int, name: str = "y", *, single: bool = False) -> None:
    """Raise unless `y` is a finite `(n,)` or `(n, c)` array; with `single`, `(n,)`."""
    check_real(y, name)
    shape = np.shape(y)
    if single and shape != (n,):  # (n, 1) would broadcast against (n,) outputs
        raise ValueError(f"`{name}` must have shape ({n},), got {name}.shape={shape}.")
    if len(shape) not in (1, 2) or shape[0] != n or 0 in shape:
        raise ValueError(
            f"`{name}` must have shape ({n},) or ({n}, c), one row a sample, "
            f"got {name}.shape={shape}."
        )
    check_finite(y, name)


def check_gram(H: ArrayLike, name: str = "H") -> None:
    """Raise unless `H` is a finite, square and symmetric matrix with at least one row."""
    check_real(H, name)
    shape = np.shape(H)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(
            f"`{name}` must be a square Gram matrix of shape (n, n) with n >= 1, "
            f"got {name}.shape={shape}."
        )
    check_finite(H, name)
    if not is_known(H):
        return
    with jax.ensure_compile_time_eval(), float64():
        array = jnp.asarray(as_array(H, name))  # integers have no rounding, and no `finfo`
        gap, scale = (float(value) for value in _asymmetry(array))
        tolerance = 100 * float(jnp.finfo(array.dtype).eps) * scale
    if gap > tolerance:
        raise ValueError(
            f"`{name}` must be symmetric, got entries that differ from their mirror by {gap:.3g}. "
            f"Pass ({name} + {name}.T) / 2 if that is rounding."
        )


@jax.jit  # one pass: at n = 60000 a copy of the matrix would take 29 GB
def _asymmetry(H: Array) -> tuple[Array, Array]:
    return jnp.max(jnp.abs(H - H.T)), jnp.max(jnp.abs(H))


@jax.jit
def _any_nonzero(x: Array) -> Array:
    return jnp.any(x, axis=1)  # bool too: `x != 0` would promote


@jax.jit
def _all_finite(array: Array) -> Array:
    return jnp.all(jnp.isfinite(array))


def _is_finite_on_host(array: ArrayLike) -> bool:
    """Whether this is a plain NumPy array with a finite sum, which takes no device and no copy."""
    if type(array) is not np.ndarray or array.dtype.kind not in "biuf":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.sum(array)))


def check_finite(array: ArrayLike, name: str) -> None:
    """Raise if an entry is nan or infinite, naming the first rows that hold one."""
    check_real(array, name)
    if not is_known(array) or _is_finite_on_host(array):
        return
    # In float64, or else a value beyond float32's range would count as inf.
    with jax.ensure_compile_time_eval(), float64():
        if bool(_all_finite(jnp.asarray(array))):  # one number, not an array, leaves the device
            return
        finite = np.asarray(jnp.isfinite(jnp.asarray(array)))
    if finite.ndim == 0:
        raise ValueError(f"`{name}` must be finite, got {name}={array}.")
    rows = np.flatnonzero(~finite.reshape(finite.shape[0], -1).all(axis=1))
    raise ValueError(f"`{name}` must be finite, got nan or inf in {some_rows(rows)}.")


Number = int | float | np.number
"""A number given by hand, of Python or of NumPy."""


def as_number(value: Any, name: str, *, least: int | float = -math.inf) -> float:
    """The number as a float; raise unless it is finite and at least `least`."""
    if not (_is_finite_number(value) and value >= least):
        expected = "a finite number" if least == -math.inf else f"a number >= {least:g}"
        raise ValueError(f"`{name}` must be {expected}, got {name}={value!r}.")
    return float(value)


def check_positive(value: Any, name: str) -> None:
    """Raise unless `value` is a finite number above zero."""
    if not (_is_finite_number(value) and value > 0):
        raise ValueError(f"`{name}` must be a positive number, got {name}={value!r}.")


def _is_finite_number(value: Any) -> bool:
    is_number = isinstance(value, Number | np.ndarray | Array) and not isinstance(value, bool)
    if isinstance(value, int):  # NumPy knows no integers beyond 64 bits
        return is_number and abs(value) <= sys.float_info.max
    return is_number and np.ndim(value) == 0 and bool(np.isfinite(value))


MOST = 2**31 - 1
"""The largest int32, in which JAX counts steps and sizes; larger ones abort or wrap around."""

MOST_TERMS = 10_000
"""Most terms of a recurrence in Python with an array per term: seconds, and 80 kB per value."""

MOST_IN_TABLE = 2_000
"""Largest side of a square table, or of as many sums of as many terms: 32 MB, and seconds."""

MOST_FACTORIAL = 170
"""170! is the largest factorial in float64."""


def check_count(value: Any, name: str, *, least: int = 1, most: int | None = MOST) -> None:
    """Raise unless `value` is an integer from `least` to `most`.

    `most` is None for numbers that only enter formulas: a theorem may ask for 10^40 neurons.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"`{name}` must be an integer >= {least}, got {name}={value!r}.")
    if most is not None and value > most:
        got = value if value < 10**30 else f"10^{math.log10(value):.0f}"
        raise ValueError(f"`{name}` must be an integer from {least} to {most}, got {name}={got}.")


def as_rows(rows: Any, n: int, name: str = "rows") -> np.ndarray:
    """The numbers, from 0 on, of the rows that a slice, a mask or a list chooses among `n`.

    Negative numbers count from the end, as in NumPy. A number beyond the last row raises; JAX would
    take the last row for it.
    """
    found = np.arange(n)[rows] if isinstance(rows, slice) else np.asarray(rows)
    if found.dtype == bool and found.shape == (n,):
        found = np.flatnonzero(found)
    if found.ndim != 1 or found.size == 0 or not np.issubdtype(found.dtype, np.integer):
        raise ValueError(
            f"`{name}` must be a slice, a list of row numbers or {n} booleans that choose at least "
            f"one of {n} rows, got {name}={rows!r}."
        )
    found = found.astype(np.int64)  # unsigned numbers have no negative bound to compare with
    outside = found[(found < -n) | (found >= n)]
    if outside.size:
        raise ValueError(
            f"`{name}` must hold row numbers from {-n} to {n - 1}, got {int(outside[0])} among "
            f"them. There are {n} rows, counted from 0; negative numbers count from the end."
        )
    return found % n


def check_key(key: Any, name: str = "key") -> None:
    """Raise unless `key` is one random key, of either of JAX's two kinds."""
    if not is_key(key):
        raise ValueError(
            f"`{name}` must be one random key, got {name}={key!r}. "
            "Make one with jax.random.key(seed)."
        )


def is_key(value: Any) -> bool:
    """Whether the value is one random key: a typed one, or the integers of an old one."""
    if not isinstance(value, Array | np.ndarray):
        return False
    typed = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return value.shape == () if typed else value.dtype == jnp.uint32 and value.ndim == 1


@contextlib.contextmanager
def calling(name: str, arguments: str) -> Iterator[None]:
    """Say which function of the user failed, and on what arguments.

    This replaces built-in errors that wrong arguments cause. Messages that are already clear, the
    user's own error classes, and errors such as too little memory pass unchanged.
    """
    try:
        yield
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        if type(error).__module__ != "builtins" or "` must" in str(error):
            raise
        raise ValueError(
            f"`{name}` must accept {arguments}, got {type(error).__name__}: {error}"
        ) from error


_MOST_NAMES = 100  # listed in a message


def check_name(value: str, known: Iterable[str], name: str, kind: str = "a known name") -> None:
    """Raise unless `value` is one of the `known` names, suggesting the nearest."""
    known = list(known)
    if value in known:
        return
    # One letter or two are near to any word that has them.
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.4 if len(value) > 2 else 0.6)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise UnknownNameError(
        f"`{name}` must be {kind}, got {name}={value!r}. {hint}Known: {some_names(known)}."
    )


def some_names(names: Iterable[str]) -> str:
    """The names as a list in words, cut after a hundred."""
    names = list(names)
    listed = ", ".join(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:  # a table may have a hundred thousand columns
        listed += f" and {len(names) - _MOST_NAMES} more"
    return listed


def some_rows(rows: np.ndarray, most: int = 5) -> str:
    """The row numbers as words, cut after `most`: `rows 3, 17 and 20`."""
    rows = np.asarray(rows)
    names = [str(int(row)) for row in rows[:most]]
    if len(rows) > most:
        return f"rows {', '.join(names)} and {len(rows) - most} more"
    if len(names) == 1:
        return f"row {names[0]}"
    return f"rows {', '.join(names[:-1])} and {names[-1]}"


def check_unit_rows(x: ArrayLike, *, tolerance: float = 1e-5) -> None:
    """Raise unless every row has unit norm, by default to the precision of float32."""
    norms = np.linalg.norm(np.asarray(x, np.float64), axis=1)
    worst = int(np.argmax(np.abs(norms - 1)))
    if abs(norms[worst] - 1) > tolerance:
        raise ValueError(
            f"`x` must have rows of unit norm, got a norm of {norms[worst]:.6g} in row {worst}. "
            "Divide each row by its norm."
        )
