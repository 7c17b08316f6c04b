# SPDX-License-Identifier: Apache-2.0
"""Functions of one variable as power series, whose coefficients are kept as logarithms.

Complexities of smooth functions sum thousands of terms of a series, far beyond the degree where
`c_i` itself underflows; so a series gives log|c_i| for any i.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int
from scipy.special import gammaln, zeta

from unlazy.activations import activation
from unlazy.core.checks import check_count, check_finite, check_name
from unlazy.core.entries import entry
from unlazy.core.float64 import float64

Degrees = Int[np.ndarray, " q"]
Logs = Float64[np.ndarray, " q"]


class PowerSeries(eqx.Module):
    r"""A function with its power series around 0, $\phi(z) = \sum_i c_i (s z)^i$.

    Made by `taylor_series` and `log_series`. Callable on arrays; hashable.
    """

    name: str = eqx.field(static=True)
    coefficients: tuple[float, ...] = eqx.field(static=True, default=())  # of a polynomial
    scale: float = eqx.field(static=True, default=1.0)  # s
    logs: Callable[[np.ndarray], np.ndarray] | None = eqx.field(static=True, default=None)
    own_radius: float = eqx.field(static=True, default=math.inf)  # before scaling

    @property
    def degree(self) -> int | None:
        """The degree of a polynomial; None for an infinite series."""
        return len(self.coefficients) - 1 if self.name == "polynomial" else None

    @property
    def radius(self) -> float:
        """The radius of convergence."""
        return self.own_radius / abs(self.scale)

    @entry
    def log_coefficients(self, i: Degrees) -> Logs:
        """The logarithms of |c_i|, scale included; -inf where a coefficient is zero."""
        i = np.asarray(i)
        with np.errstate(divide="ignore"):
            if self.name == "polynomial":
                inside = i < len(self.coefficients)
                c = np.asarray(self.coefficients)[np.where(inside, i, 0)]
                own = np.log(np.abs(np.where(inside, c, 0.0)))
            elif self.logs is not None:
                own = np.asarray(self.logs(i), np.float64)
            else:
                own = _FAMILIES[self.name].log_abs(i)
        return own + i * math.log(abs(self.scale))

    @entry
    def taylor(self, order: int) -> Float64[np.ndarray, " {order}+1"]:
        """The coefficients of degree 0 to `order`, as numbers."""
        check_count(order, "order", least=0, most=10**6)
        if self.logs is not None:
            raise ValueError(
                "`taylor` must have the signs of the coefficients, got logarithms alone. "
                "Give taylor_series the coefficients themselves."
            )
        i = np.arange(order + 1)
        if self.name == "polynomial":
            c = np.asarray(self.coefficients)[: order + 1]
            return np.pad(c, (0, order + 1 - len(c))) * float(self.scale) ** i
        size = np.exp(self.log_coefficients(i))
        return size * _FAMILIES[self.name].sign(i) * np.sign(self.scale) ** i + 0.0  # not -0

    @entry
    def tail_degree(self, tolerance: float, *, radius: float = 1.0) -> int:
        """The least degree beyond which the terms at `radius` sum to at most `tolerance`."""
        if self.degree is not None:
            return self.degree
        self.check_converges(radius)
        for most in (64, 512, 4096):
            i = np.arange(most)
            terms = np.exp(self.log_coefficients(i) + i * math.log(radius))
            beyond = np.cumsum(terms[::-1])[::-1]
            small = np.flatnonzero(beyond <= tolerance)
            if len(small) and small[0] < most - 8:
                return max(int(small[0]) - 1, 0)
        raise ValueError(
            f"`tolerance` must be reached within 4096 terms, got tolerance={tolerance} "
            f"at radius={radius}. Use chebyshev_series."
        )

    @entry
    def check_converges(self, radius: float) -> None:
        """Raise unless the series converges on [-radius, radius]."""
        if radius >= self.radius:
            raise ValueError(
                f"`radius` must be below {self.radius:.6g}, where the power series of {self.name}"
                f"({self.scale:g} z) diverges, got radius={radius:g}. Fit a polynomial instead, "
                "with papers.shared.chebyshev_series."
            )

    @entry
    def scaled(self, factor: int | float) -> "PowerSeries":
        r"""The function $z \mapsto \phi(\text{factor} \cdot z)$."""
        check_finite(factor, "factor")
        if factor == 0:
            raise ValueError(f"`factor` must not be zero, got factor={factor}.")
        scale = float(factor) * self.scale
        return PowerSeries(self.name, self.coefficients, scale, self.logs, self.own_radius)

    @entry
    def truncated(self, degree: int) -> "PowerSeries":
        """The Taylor polynomial of that degree, which has a finite complexity everywhere."""
        return taylor_series(self.taylor(degree))

    @entry
    def __call__(self, z: Float[Array | np.ndarray, "*shape"]) -> Any:
        """The values in the dtype of `z`: NumPy arrays give NumPy values, JAX arrays JAX values."""
        if self.logs is not None:
            raise ValueError("`z` cannot be evaluated: this series is given by logarithms alone.")
        if not isinstance(z, jax.Array):
            z = np.asarray(z)
            z = z if np.issubdtype(z.dtype, np.floating) else z.astype(np.float64)
            with float64():
                return np.asarray(self(jnp.asarray(z)))
        z = z * self.scale if self.scale != 1 else z
        if self.name != "polynomial":
            return activation(self.name)(z)
        value = jnp.full_like(z, self.coefficients[-1])
        for c in self.coefficients[-2::-1]:
            value = value * z + c
        return value


@entry
def taylor_series(
    function: str | Sequence[int | float] | Float[np.ndarray, " q"] | PowerSeries,
    *,
    scale: int | float = 1.0,
) -> PowerSeries:
    r"""The power series of a function, from its name or its coefficients.

    $$\phi(z) = \sum_{i \ge 0} c_i\, (s z)^i$$

    with s the `scale`. Names are identity, quadratic ($z^2/2$), exp, sin, cos, tanh, sigmoid, erf,
    softplus and gelu; coefficients, of the lowest degree first, make a polynomial. An infinite
    series that has no name is made by `log_series`.

    Source: LG-5 and LG-25, arXiv:1811.04918; RN-13, arXiv:1905.10337.

    Example:
        >>> print(taylor_series("sin", scale=2).taylor(5))
        [ 0.          2.          0.         -1.33333333  0.          0.26666667]
        >>> print(taylor_series([1, 0, 3])(np.array([2.0])))
        [13.]
    """
    if isinstance(function, PowerSeries):
        return function.scaled(scale)
    if callable(function):
        raise TypeError(
            f"`function` must be a name or coefficients, got function={function!r}. Fit a "
            "polynomial with chebyshev_series, or give log-coefficients to log_series."
        )
    if isinstance(function, str) and function in _POLYNOMIALS:
        made = PowerSeries("polynomial", _POLYNOMIALS[function])
    elif isinstance(function, str):
        check_name(function, [*_POLYNOMIALS, *_FAMILIES], "function")
        made = PowerSeries(function, own_radius=_FAMILIES[function].radius)
    else:
        values = np.asarray(function, np.float64)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(
                "`function` must be a name or a non-empty sequence of coefficients, "
                f"got shape {values.shape}."
            )
        check_finite(values, "function")
        made = PowerSeries("polynomial", tuple(values.tolist()))
    return made if scale == 1 else made.scaled(scale)


@entry
def log_series(
    log_coefficients: Callable[[np.ndarray], np.ndarray],
    *,
    scale: int | float = 1.0,
    radius: int | float = math.inf,
) -> PowerSeries:
    r"""An infinite power series, given by the logarithms of its coefficients.

    $$\phi(z) = \sum_{i \ge 0} \pm e^{\ell_i} (s z)^i$$

    `log_coefficients` maps an array of degrees i to $\ell_i = \log|c_i|$, -inf for a zero; s is the
    `scale`, and `radius` the radius of convergence before scaling. Complexities need no signs;
    without them the series cannot be evaluated.

    Source: LG-5, arXiv:1811.04918.

    Example:
        >>> series = log_series(lambda i: -gammaln(i + 1.0))
        >>> print(np.exp(series.log_coefficients(np.arange(4))).round(4))
        [1.     1.     0.5    0.1667]
    """
    made = PowerSeries("logarithms", logs=log_coefficients, own_radius=float(radius))
    return made if scale == 1 else made.scaled(scale)


class _Family(NamedTuple):
    """The coefficients of a named function, from arrays of degrees."""

    log_abs: Callable[[np.ndarray], np.ndarray]
    sign: Callable[[np.ndarray], np.ndarray]
    radius: float = math.inf


def _only(keep: np.ndarray, logs: np.ndarray) -> np.ndarray:
    return np.where(keep, logs, -math.inf)


def _log_tanh(i: np.ndarray) -> np.ndarray:
    # |B_2n| / (2n)! = 2 zeta(2n) / (2 pi)^2n, i = 2n - 1: no Bernoulli number overflows.
    n2 = np.where(i % 2 == 1, i + 1, 2).astype(np.float64)
    log_minus_one = n2 * math.log(2) + np.log1p(-(2.0**-n2))  # log(2^2n - 1)
    logs = n2 * math.log(2) + log_minus_one + np.log(2 * zeta(n2))
    return _only(i % 2 == 1, logs - n2 * math.log(2 * math.pi))


def _log_sigmoid(i: np.ndarray) -> np.ndarray:
    # The sigmoid is 1/2 plus half of tanh(z/2).
    half = _log_tanh(i) - (i + 1) * math.log(2)
    return np.where(i == 0, -math.log(2), half)


def _log_softplus(i: np.ndarray) -> np.ndarray:
    # log 2 plus the integral of the sigmoid
    logs = _log_sigmoid(np.maximum(i - 1, 0)) - np.log(np.maximum(i, 1))
    return np.where(i == 0, math.log(math.log(2)), logs)


def _log_erf(i: np.ndarray) -> np.ndarray:
    logs = math.log(2 / math.sqrt(math.pi)) - gammaln((i - 1) / 2 + 1) - np.log(np.maximum(i, 1))
    return _only(i % 2 == 1, logs)


def _log_gelu(i: np.ndarray) -> np.ndarray:
    # z/2 + z erf(z / sqrt 2)/2
    inner = np.maximum(i - 1, 0)
    logs = _log_erf(inner) - inner * math.log(2) / 2 - math.log(2)
    return np.where(i == 1, -math.log(2), _only(i >= 2, logs))


def _alternating(start: int) -> Callable[[np.ndarray], np.ndarray]:
    """The signs +, -, +, ... over every second degree from `start` on, and + before it."""
    return lambda i: np.where((np.maximum(i - start, 0) // 2) % 2 == 0, 1.0, -1.0)


def _log_factorial(i: np.ndarray) -> np.ndarray:
    return -gammaln(i + 1.0)


_POLYNOMIALS = {"identity": (0.0, 1.0), "quadratic": (0.0, 0.0, 0.5)}
_FAMILIES: dict[str, _Family] = {
    "exp": _Family(_log_factorial, np.ones_like),
    "sin": _Family(lambda i: _only(i % 2 == 1, _log_factorial(i)), _alternating(1)),
    "cos": _Family(lambda i: _only(i % 2 == 0, _log_factorial(i)), _alternating(0)),
    "tanh": _Family(_log_tanh, _alternating(1), math.pi / 2),
    "sigmoid": _Family(_log_sigmoid, _alternating(1), math.pi),
    "softplus": _Family(_log_softplus, _alternating(2), math.pi),
    "erf": _Family(_log_erf, _alternating(1)),
    "gelu": _Family(_log_gelu, _alternating(2)),
}
