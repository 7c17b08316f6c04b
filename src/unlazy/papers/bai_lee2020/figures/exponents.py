# SPDX-License-Identifier: Apache-2.0
"""Sizes against the width, over seeds, and the exponents that they scale with."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.experiments import CellResult, Claim

TOLERANCE = 0.06  # of an exponent; neighbouring orders of the figures differ by at least 1/8


class Exponent(NamedTuple):
    """The slope of a line through logarithms, with its standard error from the residuals."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:+.3f} +- {self.error:.3f}"


class Curve(NamedTuple):
    """One quantity against the width or another size, for each seed."""

    sizes: Float[np.ndarray, " k"]
    seeds: Float[np.ndarray, "s k"]

    @property
    def rms(self) -> Float[np.ndarray, " k"]:
        return np.sqrt(np.mean(self.seeds**2, axis=0))

    @property
    def mean(self) -> Float[np.ndarray, " k"]:
        return np.mean(self.seeds, axis=0)

    @property
    def spread(self) -> Float[np.ndarray, " k"]:
        """The standard deviation over the seeds."""
        return np.std(self.seeds, axis=0, ddof=1)

    @property
    def exponent(self) -> Exponent:
        return fitted_exponent(self.sizes, self.rms)


def rms(values: Float[Array, "..."]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(values**2))


def table(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The columns of a table, from its rows."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def curve(results: list[CellResult], name: str) -> Curve:
    """The column `name` of cells with one row per width, one cell per seed."""
    widths = results[0].table["width"].astype(np.float64)
    return Curve(widths, np.stack([result.table[name] for result in results]))


def fitted_exponent(widths: Float[np.ndarray, " k"], values: Float[np.ndarray, " k"]) -> Exponent:
    r"""Least squares of log(value) on log(width), and the standard error of the slope.

    Example:
        >>> print(fitted_exponent(np.array([1.0, 2.0, 4.0]), np.array([8.0, 4.0, 2.0])))
        -1.000 +- 0.000
    """
    t, v = np.log(widths), np.log(values)
    t = t - t.mean()
    slope = float(t @ v / (t @ t))
    resid = v - v.mean() - slope * t
    return Exponent(slope, math.sqrt(resid @ resid / (len(t) - 2) / (t @ t)))


def power_law(
    sizes: Float[np.ndarray, " k"], values: Float[np.ndarray, " k"], slope: float
) -> Float[np.ndarray, " k"]:
    """The power law of this slope through the middle of the points, on logarithmic axes."""
    center, level = np.exp(np.mean(np.log([sizes, values]), axis=1))
    return level * (sizes / center) ** slope


def exponent_claim(name: str, text: str, fit: Exponent, theory: float, note: str) -> Claim:
    """The claim that an exponent is the theory's, within the tolerance."""
    within = (theory - TOLERANCE, theory + TOLERANCE)
    return Claim(name, text, fit.value, "in", within, note=f"standard error {fit.error:.3f}{note}")
