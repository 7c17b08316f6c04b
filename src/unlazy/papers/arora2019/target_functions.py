# SPDX-License-Identifier: Apache-2.0
"""The target functions of section 6: sums of powers of linear forms."""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64, Int
from scipy.special import gammaln

from unlazy.core.checks import check_count, check_finite
from unlazy.core.entries import entry
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.power_series import PowerSeries, taylor_series

_SMALL = math.log(1e-18)  # relative size at which the series of a function is cut
_LARGEST = math.log(np.finfo(np.float64).max)


class Powers(NamedTuple):
    r"""The sum over j of $\alpha_j (\beta_j^\top x)^{p_j}$."""

    alpha: Float64[np.ndarray, " q"]
    beta: Float64[np.ndarray, "q d"]
    p: Int[np.ndarray, " q"]


@runtime_checkable
class TargetFunction(Protocol):
    """A function on the unit sphere that is a sum of powers of linear forms."""

    def __call__(self, x: Inputs) -> Float64[np.ndarray, " n"]:
        """The labels: its values at the rows of `x`."""
        ...

    def powers(self) -> Powers:
        """Its terms."""
        ...


@runtime_checkable
class RidgeFunction(TargetFunction, Protocol):
    r"""A target function of one linear form, $g(x) = \phi(\|\beta\| u^\top x)$ with a unit u."""

    def profile(self) -> PowerSeries:
        r"""The function $t \mapsto \phi(\|\beta\| t)$ of one variable, by its power series."""
        ...


class Power(eqx.Module):
    r"""A power of a linear form.

    $$g(x) = \alpha (\beta^\top x)^p$$

    Source: AR-19, arXiv:1901.08584 Theorem 6.1.

    Example:
        >>> print(Power(2.0, np.array([1.0, 3.0]), 2)(np.eye(2)))
        [ 2. 18.]
    """

    alpha: int | float
    beta: Float[Array | np.ndarray, " d"]
    p: int

    @entry
    def __check_init__(self):
        check_finite(self.alpha, "alpha")
        _check_vector(self.beta)
        check_count(self.p, "p", least=0, most=1000)  # 2^p is a float
        if self.p == 0:
            raise ValueError(
                f"`p` must be an integer >= 1, got p={self.p}. "
                "Use Constant for a constant function."
            )

    @entry
    def __call__(self, x: Inputs) -> Float64[np.ndarray, " n"]:
        """Its values at the rows of `x`."""
        return self.alpha * _linear_form(x, self.beta) ** self.p

    def powers(self) -> Powers:
        """The one term."""
        beta = np.asarray(self.beta, np.float64)[None, :]
        return Powers(np.array([float(self.alpha)]), beta, np.array([self.p]))

    def profile(self) -> PowerSeries:
        """The power as a function of one variable."""
        return _along(self.beta, taylor_series([0.0] * self.p + [float(self.alpha)]))


class QuadraticForm(eqx.Module):
    r"""A quadratic form, with `A` symmetric.

    $$g(x) = x^\top A x = \sum_k a_k (v_k^\top x)^2$$

    Source: AR-19e, arXiv:1901.08584 Example 6.2.

    Example:
        >>> print(QuadraticForm(np.diag([2.0, -1.0]))(np.eye(2)))
        [ 2. -1.]
    """

    A: Float[Array | np.ndarray, "d d"]

    @entry
    def __check_init__(self):
        A = np.asarray(self.A, np.float64)
        if A.ndim != 2 or A.shape[0] != A.shape[1] or not np.allclose(A, A.T):
            raise ValueError(
                f"`A` must be a symmetric (d, d) matrix, got A.shape={A.shape}. "
                "Pass (A + A.T) / 2, which is the same function."
            )
        check_finite(self.A, "A")

    @entry
    def __call__(self, x: Inputs) -> Float64[np.ndarray, " n"]:
        """Its values at the rows of `x`."""
        x = np.asarray(x, np.float64)
        return np.einsum("ni,ij,nj->n", x, np.asarray(self.A, np.float64), x)

    def powers(self) -> Powers:
        """One square for each eigenvector of `A`."""
        values, vectors = np.linalg.eigh(np.asarray(self.A, np.float64))
        return Powers(values, vectors.T, np.full(len(values), 2))


class Cosine(eqx.Module):
    r"""The cosine of a linear form, less one.

    $$g(x) = \cos(\beta^\top x) - 1 = \sum_{j \ge 1} \frac{(-1)^j}{(2j)!} (\beta^\top x)^{2j}$$

    Source: AR-19f, arXiv:1901.08584 Example 6.3; without the constant, for which add `Constant`.

    Example:
        >>> print(Cosine(np.array([np.pi, 0.0]))(np.eye(2)))
        [-2.  0.]
    """

    beta: Float[Array | np.ndarray, " d"]

    @entry
    def __check_init__(self):
        _check_vector(self.beta)

    @entry
    def __call__(self, x: Inputs) -> Float64[np.ndarray, " n"]:
        """Its values at the rows of `x`."""
        return np.cos(_linear_form(x, self.beta)) - 1

    def powers(self) -> Powers:
        """The terms of its series along `beta`, until they no longer matter.

        From a norm of 711 on, the series ends with an infinite term: float64 cannot hold it.
        """

        def log_term(b: float, j: int) -> float:
            return 2 * j * math.log(b) - math.lgamma(2 * j + 1)

        return _even_series(self.beta, log_term, first=-1)

    def profile(self) -> PowerSeries:
        """The cosine, less one, as a function of one variable."""
        return _along(self.beta, PowerSeries("cos(z) - 1", logs=_log_cosine))


class Arctan(eqx.Module):
    r"""The smooth function $z \arctan(z/2)$ of a linear form $z = \beta^\top x$, $\|\beta\| < 2$.

    $$g(x) = z \arctan(z/2) = \sum_{j \ge 1} \frac{(-1)^{j-1} 2^{1-2j}}{2j-1} z^{2j}$$

    Source: AR-19g, arXiv:1901.08584 Example 6.4 (there for norms up to 1).

    Example:
        >>> print(Arctan(np.array([1.0, 0.0]))(np.eye(2)))
        [0.46364761 0.        ]
    """

    beta: Float[Array | np.ndarray, " d"]

    @entry
    def __check_init__(self):
        _check_vector(self.beta)
        norm = float(row_norms(np.asarray(self.beta, np.float64)[None, :])[0])
        if norm > 1.99:  # at 2 the series no longer converges
            raise ValueError(
                f"`beta` must have a norm of at most 1.99, got a norm of {norm:.6g}. "
                "Beyond 2 the function has no power series."
            )

    @entry
    def __call__(self, x: Inputs) -> Float64[np.ndarray, " n"]:
        """Its values at the rows of `x`."""
        z = _linear_form(x, self.beta)
        return z * np.arctan(z / 2)

    def powers(self) -> Powers:
        """The terms of its series along `beta`, until they no longer matter."""

        def log_term(b: float, j: int) -> float:
            return math.log(2 / (2 * j - 1)) + 2 * j * math.log(b / 2)

        return _even_series(self.beta, log_term, first=1)

    def profile(self) -> PowerSeries:
        """The function of one variable, whose power series has the radius of convergence 2."""
        return _along(self.beta, PowerSeries("z arctan(z/2)", logs=_log_arctan, own_radius=2.0))


class Constant(eqx.Module):
    r"""A constant function on the unit sphere in `d` dimensions.

    $$g(x) = c = c\, x^\top I x$$

    The kernel has no constant term: on the sphere the function is a quadratic form.

    Source: AR-19h, after arXiv:1901.08584 Example 6.2.

    Example:
        >>> print(Constant(1.0, d=3)(np.eye(3)))
        [1. 1. 1.]
    """

    value: int | float
    d: int

    @entry
    def __check_init__(self):
        check_finite(self.value, "value")
        check_count(self.d, "d", most=None)

    @entry
    def __call__(self, x: Inputs) -> Float64[np.ndarray, " n"]:
        """Its values at the rows of `x`."""
        return np.full(np.shape(x)[0], float(self.value))

    def powers(self) -> Powers:
        """One square for each coordinate."""
        return QuadraticForm(self.value * np.eye(self.d)).powers()


def row_norms(beta: Float64[np.ndarray, "q d"]) -> Float64[np.ndarray, " q"]:
    """Norms of the rows; their squares may be outside of float64."""
    return np.hypot.reduce(np.abs(beta), axis=1)


def _along(beta, series: PowerSeries) -> PowerSeries:
    norm = float(row_norms(np.asarray(beta, np.float64)[None, :])[0])
    return series.scaled(norm) if norm > 0 else taylor_series([0.0])


def _log_cosine(i: np.ndarray) -> np.ndarray:
    return np.where((i % 2 == 0) & (i > 0), -gammaln(i + 1.0), -math.inf)


def _log_arctan(i: np.ndarray) -> np.ndarray:
    present = (i % 2 == 0) & (i > 0)
    return np.where(present, (1 - i) * math.log(2) - np.log(np.maximum(i - 1, 1)), -math.inf)


def _check_vector(beta) -> None:
    if np.ndim(beta) != 1 or np.size(beta) == 0:
        raise ValueError(f"`beta` must have shape (d,), got beta.shape={np.shape(beta)}.")
    check_finite(beta, "beta")


def _linear_form(x: Inputs, beta) -> Float64[np.ndarray, " n"]:
    return np.asarray(x, np.float64) @ np.asarray(beta, np.float64)


def _even_series(beta, log_term: Callable[[float, int], float], *, first: int) -> Powers:
    r"""The alternating even series with the terms `exp(log_term(|beta|, j))`; `first` is its sign.

    It is written for the unit vector along beta, with terms in place of coefficients: a factorial
    leaves the range of float64 long before the terms of a large beta do. The series ends where the
    terms of the paper's bound are negligible.
    """
    beta = np.asarray(beta, np.float64)
    b = float(row_norms(beta[None, :])[0])
    if b == 0:
        return Powers(np.zeros(1), beta[None, :], np.array([2]))
    alpha, largest, size = [], -math.inf, 0.0
    while size > _SMALL + largest:
        j = len(alpha) + 1
        log = log_term(b, j)
        alpha.append(first * (-1) ** (j - 1) * (math.exp(log) if log < _LARGEST else math.inf))
        if log >= _LARGEST:
            break
        # What the paper's bound adds for this degree; the sharp ones add less.
        size = math.log(2 * j) + log
        largest = max(largest, size)
    p = 2 * np.arange(1, len(alpha) + 1)
    return Powers(np.array(alpha), np.tile(beta / b, (len(alpha), 1)), p)
