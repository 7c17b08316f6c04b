# SPDX-License-Identifier: Apache-2.0
r"""A lower bound of the smallest eigenvalue of a Gram matrix, for any number of samples.

On samples of one norm, the kernel of an infinitely wide network is a power series of the cosine,
$k = \sum_l c_l t^l$ with $c_l \ge 0$, since it is positive semi-definite in every dimension. The
powers of a matrix of cosines, entry by entry, approach the identity: by Gershgorin's circles

$$K \succeq \sum_{l \ge L} c_l\, (1 - s_l)\, I \succeq (1 - s_L)\, \tau_L\, I, \qquad
s_l = \max_i \sum_{j \ne i} |t_{ij}|^l, \qquad \tau_L = \sum_{l \ge L} c_l.$$

The tail $\tau_L$ follows from values of the kernel alone. Let $\Delta(h) = k(1) - k(1 - h)$. Of the
terms of $\Delta(a / L)$ those below L are at most $(a / L) \sum_{l < L} l c_l$, where

$$\sum_{l < L} l\, c_l \le \rho^{2 - L}\, k'(\rho)
\le \rho^{2 - L}\, \frac{L}{b} \Delta(b / L), \qquad \rho = 1 - b / L,$$

since k is convex. Hence $\tau_L \ge \Delta(a / L) - (a / b)\, \rho^{2 - L} \Delta(b / L)$ for all a
and b.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from unlazy.core.checks import as_array, check_inputs
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.kernels.precision import Widened, checked_kernel
from unlazy.kernels.row_products import row_product
from unlazy.kernels.streaming import in_dtype, streamed
from unlazy.kernels.tiles import Kernel

_LARGEST_SPREAD = 1e-5  # of the norms, relative
_WANTED = 0.5  # what s_L may be at most
_FIRST, _LAST = 3, 40  # powers of two that are tried as L
_SAMPLED = 64  # rows that tell with which power to begin
_ROUNDING = 1e-12  # of the diagonal, in differences of the kernel in float64
_COSINE = 8 * float(np.finfo(np.float64).eps)  # what rounding does to the cosine of two samples
_FACTORS = np.geomspace(1e-3, 3.0, 40)  # for a and b


Tail = Callable[[int], float]
"""The sum of the coefficients from some degree on, or a lower bound of it."""


class LeastEigenvalue(NamedTuple):
    """A lower bound, and where it comes from."""

    bound: float  # 0 where nothing can be said
    degree: int  # L
    overlap: float  # s_L


_NOTHING = LeastEigenvalue(0.0, 2**_LAST, math.inf)


@entry
def least_eigenvalue(
    kernel: Kernel, x: Float[Array | np.ndarray, "n d"], *, mesh: Mesh | None = None
) -> LeastEigenvalue:
    r"""A lower bound of the smallest eigenvalue of `kernel(x)`, without the matrix.

    $$\lambda_{\min} \ge (1 - s_L)\, \max_{a, b} \left[\Delta(a / L) - \frac{a}{b}
    \left(1 - \frac{b}{L}\right)^{2 - L} \Delta(b / L)\right]$$

    with $\Delta(h) = k(1) - k(1 - h)$ in terms of the cosine, and $s_L < 1/2$ the largest sum of
    the L-th powers of the cosines of one sample with all others. It takes a few products over all
    pairs, in float64. For ReLU networks on random samples it was 12 to 60 times below the smallest
    eigenvalue, more where some are close to each other. What rounding in float64 may do is taken
    off. It is 0 where samples are parallel or antipodal, for kernels that give float32 values, and
    for those that are analytic at cosine 1, such as erf's, tanh's and the Gaussian, unless their
    series has large terms at degree L.

    Source: derived above, from Schoenberg's theorem (Duke Math. J. 9, 1942) and Gershgorin's.

    Args:
        kernel: a kernel of an infinitely wide network, or any other whose expansion in powers of
            the cosine has no negative coefficient. This is not checked. It is evaluated in float64,
            whatever `dtype` it is given.
        x: samples of one norm, in the rows.
        mesh: devices to spread the work over.

    Example:
        >>> from unlazy.kernels import ntk
        >>> found = least_eigenvalue(ntk, np.eye(3))
        >>> 0 < found.bound <= float(np.linalg.eigvalsh(ntk(np.eye(3)))[0])
        True
    """
    check_inputs(x)
    with float64():
        rows = jnp.asarray(as_array(x), jnp.float64)
        norms = jnp.linalg.norm(rows, axis=1)
        low, high = float(jnp.min(norms)), float(jnp.max(norms))
        if high - low > _LARGEST_SPREAD * high:
            raise ValueError(
                f"`x` must have rows of one norm, got norms from {low:.6g} to {high:.6g}. Divide "
                "each row by its norm."
            )
        wide = checked_kernel(in_dtype(kernel, jnp.dtype("float64")), rows)
        if isinstance(wide, Widened):  # their differences are rounding
            return _NOTHING
        unit = rows / norms[:, None]
        return _search(unit, functools.partial(_tail, wide, low, rows.shape[1]), mesh)


def _search(unit: Float[Array, "n d"], tail: Tail, mesh: Mesh | None) -> LeastEigenvalue:
    """The smallest power of two at which the cosines are small enough together."""
    ones = jnp.ones((len(unit), 1))
    few = unit[:: max(1, len(unit) // _SAMPLED)][:_SAMPLED]
    # Of some rows first, which costs little: the largest sum of all rows is no smaller.
    sums = np.asarray(_power_sums(few, unit)) - 1
    for k in range(_FIRST, _LAST):
        if sums[k] >= _WANTED:
            continue
        gram = streamed(_power(k), unit, dtype="float64", mesh=mesh)
        # A power magnifies what rounding does to a cosine, also to that of a row with itself.
        overlap = float(jnp.max(gram.matmat(ones))) * (1 + 2**k * _COSINE) - 1
        if overlap < _WANTED:
            return LeastEigenvalue(max((1 - overlap) * tail(2**k), 0.0), 2**k, overlap)
    return _NOTHING


@jax.jit
def _power_sums(few: Float[Array, "t d"], unit: Float[Array, "n d"]) -> Float[Array, " k"]:
    """The largest sum of the powers 2^0, 2^1, ... of the cosines of one of `few` with all."""
    cosines = jnp.abs(row_product()(few, unit))

    def square(powers: Array, _: None) -> tuple[Array, Array]:
        return powers * powers, jnp.max(jnp.sum(powers, axis=1))

    return jax.lax.scan(square, cosines, None, length=_LAST)[1]


@functools.cache
def _power(k: int) -> Kernel:
    """|cos|^(2^k), of unit rows."""

    def kernel(x1: Array, x2: Array | None = None) -> Array:
        powers = jnp.abs(row_product()(x1, x1 if x2 is None else x2))
        for _ in range(k):
            powers = powers * powers
        return powers

    return kernel


def _tail(kernel: Kernel, norm: float, d: int, L: int) -> float:
    """A lower bound of the sum of the coefficients from degree L on."""
    if d == 1:
        return 0.0
    drops = _FACTORS / L
    angles = 2 * np.arcsin(np.sqrt(drops / 2))  # not arccos(1 - drops), which loses small ones
    points = np.zeros((1 + len(angles), d))
    points[0, 0] = norm
    points[1:, 0], points[1:, 1] = norm * np.cos(angles), norm * np.sin(angles)
    values = np.asarray(kernel(jnp.asarray(points[:1]), jnp.asarray(points)))[0]
    own = float(values[0])
    fall = own - values[1:]
    # The fall is concave: another cosine changes it by no larger share than its distance from 1.
    error = _ROUNDING * abs(own) + np.abs(fall) * np.minimum(_COSINE / drops, 1.0)
    # Through the logarithm: 1 - 1e-12 to the power 1e12 would have four digits.
    powers = np.exp((2 - L) * np.log1p(-drops))
    slope = np.min((fall + error) / _FACTORS * powers)
    return min(float(np.max(fall - error - _FACTORS * slope)), own)  # it is in the diagonal
