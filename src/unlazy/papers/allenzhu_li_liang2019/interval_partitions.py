# SPDX-License-Identifier: Apache-2.0
"""Lemma A.4, interval partition: signed sets of Gaussian mass tau and given conditional mean."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64
from scipy.special import ndtr, ndtri

from unlazy.core.checks import as_array
from unlazy.core.entries import entry

_HALVINGS = 80  # of the interval that contains l


class IntervalPartition(eqx.Module):
    r"""A set $I \subset \mathbb R$ and signs s on it for each y, as thresholds for |g|.

    $$s(g) = \mathrm{sign}(y) \big( \mathrm{sign}(g)\, 1\{\ell \le |g| \le u\} +
    1\{e < |g| \le d\} - 1\{d < |g| \le c\} \big)$$

    where e, c and d are infinite if the two intervals of I do not meet; else $\ell = 0$ and
    $u = e$. The set I is where s is not zero.

    Source: LG-43, arXiv:1811.04918 Lemma A.4, with its e(y) corrected.
    """

    y: Float64[np.ndarray, " n"]
    tau: float
    low: Float64[np.ndarray, " n"]  # l
    high: Float64[np.ndarray, " n"]  # u
    inner: Float64[np.ndarray, " n"]  # e
    middle: Float64[np.ndarray, " n"]  # d
    outer: Float64[np.ndarray, " n"]  # c

    @entry
    def signs(self, g: Float[Array | np.ndarray, "*shape n"]) -> Any:
        """The signs at `g`: -1, 0 or 1, in NumPy or JAX as `g` is; its last axis runs over y."""
        g = as_array(g, "g")
        if g.shape[-1:] != self.y.shape:
            raise ValueError(
                f"`g` must have a last axis of {len(self.y)}, one entry for each y, "
                f"got g.shape={g.shape}."
            )
        xp = jnp if isinstance(g, jax.Array) else np
        return partition_signs(xp, g, *(xp.asarray(edge, g.dtype) for edge in self.thresholds()))

    def thresholds(self) -> tuple[np.ndarray, ...]:
        """The arguments of `partition_signs` after `g`."""
        sign = np.where(self.y < 0, -1.0, 1.0)
        return self.low, self.high, self.inner, self.middle, self.outer, sign


def partition_signs(
    xp: Any, g: Any, low: Any, high: Any, inner: Any, middle: Any, outer: Any, sign: Any
) -> Any:
    """The signs of `IntervalPartition` from its thresholds, which broadcast over leading axes."""
    edges = (low, high, inner, middle, outer, sign)
    low, high, inner, middle, outer, sign = (xp.broadcast_to(edge, g.shape) for edge in edges)
    t = xp.abs(g)
    odd = xp.where((low <= t) & (t <= high), xp.where(g < 0, -1, 1), 0)
    even = xp.where((inner < t) & (t <= outer), xp.where(t <= middle, 1, -1), 0)
    return sign * (odd + even).astype(g.dtype)


@entry
def interval_partition(y: Float[Array | np.ndarray, " n"], tau: float = 0.01) -> IntervalPartition:
    r"""Sets of mass $\tau$ under a standard Gaussian with balanced signs and conditional mean y.

    $$P(g \in I) = \tau, \qquad \mathbb E[s \mid I] = 0, \qquad \mathbb E[s g \mid I] = y, \qquad
    |s g - s' g'| \le 10 \tau, \qquad |I(y_1) \triangle I(y_2)| \le O(|y_1 - y_2|)$$

    Far from zero the set is a pair of mirrored intervals $\pm[\ell, u]$ with signs $\pm 1$. Where
    they would meet it is one interval $[-c, c]$ with signs $\pm 1$ on $\pm[0, e]$, and on both
    sides $+1$ from there to d and $-1$ from d to c, where e solves
    $\mathbb E[|g|\, 1\{|g| \le e\}] = \tau y$.

    Source: LG-43, arXiv:1811.04918 Lemma A.4; with the paper's e the mean would be y P(|g| <= e)
    / tau instead of y.

    Args:
        y: the means, in [-1, 1]; a negative one has the set of its mirror, signs reversed.
        tau: the mass, in (0, 0.6]; the paper's is 1/100.

    Example:
        >>> sets = interval_partition(np.array([0.5]), tau=0.1)
        >>> print(sets.signs(np.array([[0.5], [-0.5], [2.0]])).ravel())
        [ 1. -1.  0.]
    """
    y = np.asarray(y, np.float64)
    if y.ndim != 1 or not (np.abs(y) <= 1).all():
        size = f"{np.max(np.abs(y)):.6g} in size" if y.ndim == 1 else f"shape {y.shape}"
        raise ValueError(f"`y` must be a vector with entries in [-1, 1], got {size}.")
    if not (isinstance(tau, int | float | np.number) and 0 < tau <= 0.6):
        raise ValueError(f"`tau` must be in (0, 0.6], got tau={tau!r}.")
    t = np.abs(y)
    low = _lower_end(t, tau)
    apart = low >= 0
    e, d, c = _meeting(t, tau)
    ends = np.where(apart, low, 0.0), np.where(apart, _upper_end(low, tau), e)
    edges = (np.where(apart, np.inf, edge) for edge in (e, d, c))
    return IntervalPartition(y, float(tau), *ends, *edges)


def _lower_end(t: np.ndarray, tau: float) -> np.ndarray:
    """The l with E[g | l <= g <= u] = t and mass tau/2, by bisection: the mean increases in l."""
    left = np.full_like(t, -3.0)
    right = np.minimum(t, ndtri(1 - tau / 2))
    for _ in range(_HALVINGS):
        centre = (left + right) / 2
        mean = (_density(centre) - _density(_upper_end(centre, tau))) / (tau / 2)
        left, right = np.where(mean < t, centre, left), np.where(mean < t, right, centre)
    return (left + right) / 2


def _upper_end(low: np.ndarray, tau: float) -> np.ndarray:
    return ndtri(np.minimum(ndtr(low) + tau / 2, 1.0))


def _meeting(t: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The thresholds e, d and c of one interval, for small t."""
    e = np.sqrt(-2 * np.log1p(-np.minimum(tau * t * math.sqrt(2 * math.pi) / 2, 0.999)))
    left = np.maximum(tau - (2 * ndtr(e) - 1), 0.0)
    return e, ndtri(ndtr(e) + left / 4), ndtri(ndtr(e) + left / 2)


def _density(z: np.ndarray) -> np.ndarray:
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
