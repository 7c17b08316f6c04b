# SPDX-License-Identifier: Apache-2.0
"""Lemma 6.3, indicator to function: a smooth function as the mean of random indicators times h."""

import math
from typing import Literal, get_args

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64
from scipy.special import ndtr

from unlazy.core.checks import MOST_IN_TABLE, check_count, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.papers.allenzhu_li_liang2019.hermite_polynomials import (
    hermite_affine,
    hermite_indicator,
    indicator_window,
    window_ends,
)
from unlazy.papers.shared import PowerSeries
from unlazy.papers.shared.conditions import check_epsilon
from unlazy.papers.shared.smooth_functions import Function, as_series
from unlazy.special import hermite

Method = Literal["minimum-norm", "paper", "bias-free", "centered"]
Truncation = Literal["none", "tight", "practical", "paper"]
Values = Float[Array | np.ndarray, "*shape"]


class IndicatorFunction(eqx.Module):
    r"""A function h of two Gaussians whose mean against an indicator is a given function.

    $$h(a, b) = \sum_{i \le D} \gamma_i\, h_i(\mathrm{clip}(a, \pm B_i))\, \beta_i(b)$$

    with orthonormal Hermite polynomials. `indicator_function` makes it.

    Source: LG-40 and LG-41, arXiv:1811.04918 Lemma 6.3; RN-70, arXiv:1905.10337 Lemma E.2.
    """

    phi: PowerSeries
    factors: Float64[np.ndarray, " q"]  # gamma_i
    limits: Float64[np.ndarray, " q"]  # B_i, infinite without truncation
    method: str = eqx.field(static=True)
    energy: float  # E h^2 without truncation
    coefficients: Float64[np.ndarray, " q"]  # c_i of phi, cut at the degree

    @property
    def degree(self) -> int:
        """The degree D."""
        return len(self.factors) - 1

    @property
    def mean(self) -> float:
        """E h over both Gaussians, without truncation."""
        return float(self.factors[0]) * (0.5 if self.method == "minimum-norm" else 1.0)

    @entry
    def __call__(self, a: Values, b: Values) -> Float64[np.ndarray, "*shape"]:
        """Evaluate in float64, by the polynomials' recurrence, which is exact at high degree."""
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if self.method == "centered" and np.any(b):
            raise ValueError(
                "`b` must be zero for method='centered', whose indicators have no bias, got "
                f"values up to {np.max(np.abs(b)):.3g}. Use method='minimum-norm'."
            )
        H, beta = self._polynomials(a), self._windows(b)
        return np.asarray(np.einsum("i,i...,i...->...", self.factors, H, beta))

    @entry
    def clipped(self, limit: int | float) -> "IndicatorFunction":
        r"""The same function with its first argument clipped to $\pm$ `limit`, which bounds it."""
        check_positive(limit, "limit")
        return eqx.tree_at(lambda h: h.limits, self, np.full(len(self.factors), float(limit)))

    @property
    def bound(self) -> float:
        """The largest |h| on a fine grid of both variables; infinite without truncation."""
        if not np.isfinite(self.limits[1:]).all() and np.any(self.factors[1:]):
            return math.inf
        reach = float(np.max(self.limits[1:], initial=1.0))
        reach = min(reach, 1e6) if np.isfinite(reach) else 1.0
        a = np.linspace(-reach, reach, 1601)
        H, beta = self._polynomials(a), self._windows(self._biases())
        return float(np.max(np.abs((self.factors[:, None] * H).T @ beta)))

    @property
    def lipschitz(self) -> float:
        r"""The largest slope in a, $|\partial h/\partial a|$, on a fine grid of both variables.

        Infinite without truncation, unless h is linear in a. The slope of $h_i$ is
        $\sqrt i\, h_{i-1}$ where a is not clipped, and zero where it is.
        """
        degrees, limits = np.arange(1, self.degree + 1), self.limits[1:]
        if self.degree == 0:
            return 0.0
        if not np.isfinite(limits[1:]).all() and np.any(self.factors[2:]):
            return math.inf
        ends = np.minimum(limits[np.isfinite(limits)], 1e6)
        reach = float(np.max(ends, initial=1.0))
        # The slope jumps where a degree is clipped, from its largest value as a rule.
        a = np.unique([*np.linspace(-reach, reach, 1601), *ends, *(-ends)])
        slopes = np.sqrt(degrees)[:, None] * hermite(a, self.degree - 1)
        slopes = np.where(np.abs(a) <= limits[:, None], slopes, 0.0)
        beta = self._windows(self._biases())[1:]
        return float(np.max(np.abs((self.factors[1:, None] * slopes).T @ beta)))

    def _biases(self) -> np.ndarray:
        """A fine grid of b, with the ends of every window; one point if h does not depend on b."""
        if self.method in ("bias-free", "centered"):
            return np.zeros(1)
        return np.unique([*np.linspace(-8, 8, 321), *window_ends(self.degree)])

    def _polynomials(self, a: np.ndarray) -> np.ndarray:
        least = np.min(self.limits)
        if a.size == 0 or np.max(np.abs(a)) <= least:
            return hermite(a, self.degree)
        if np.all(self.limits == least):
            return hermite(np.clip(a, -least, least), self.degree)
        rows = [hermite(np.clip(a, -B, B), i)[i] for i, B in enumerate(self.limits)]
        return np.stack(rows)

    def _windows(self, b: np.ndarray) -> np.ndarray:
        if self.method == "minimum-norm":
            return hermite_indicator(np.asarray(-b), self.degree)
        beta = np.ones((self.degree + 1, *b.shape))
        if self.method == "paper":
            for i in range(1, self.degree + 1):
                low, high, _ = indicator_window(i)
                beta[i] = (low <= b) & ((b <= high) if i % 2 else (b < high))
        return beta


@entry
def indicator_function(
    phi: Function,
    *,
    method: Method = "minimum-norm",
    degree: int | None = None,
    truncation: Truncation = "none",
    epsilon: float = 1e-3,
) -> IndicatorFunction:
    r"""A function h that turns random indicators into $\phi$, by the Taylor coefficients $c_i$.

    $$\mathbb E_{w \sim N(0, I),\, b \sim N(0, 1)}\big[ 1\{\langle w, x\rangle + b \ge 0\}\,
    h(\langle w, w^*\rangle, b) \big] = \phi(\langle w^*, x\rangle), \qquad \|x\| = \|w^*\| = 1$$

    With $p_i(-b)$ of `hermite_indicator`, $h = \sum_i c_i h_i(a) \beta_i(b)/
    \mathbb E[p_i(-b) \beta_i(b)]$. The `method` chooses $\beta_i$:

    - "minimum-norm": $\beta_i = p_i(-b)$, of all solutions the one of least $\mathbb E h^2$, which
      is the squared norm of $\phi$ in the kernel of random indicators;
    - "paper": $\beta_i$ the indicator of `indicator_window`, and 1 for i = 0;
    - "bias-free": $\beta_i = 1$, for functions with a constant and odd terms only;
    - "centered": the same for indicators without a random bias, $1\{\langle w, x\rangle \ge 0\}$:
      divided by $p_i(0)$ instead of its mean over b, which is then not used.

    Source: LG-40, LG-41 and LG-28, arXiv:1811.04918 Lemma 6.3; the first is derived beside it.
    RN-70 and RN-54, arXiv:1905.10337 Lemma E.2, for "centered": there $p'_i = \sqrt{i!}\, p_i(0)$,
    for polynomials that are not normalised, and its lower bound on it is false from i = 3 on.

    Args:
        phi: a name, an activation, coefficients or a `PowerSeries`.
        method: one of the four above.
        degree: where an infinite series is cut; by default where less than 1e-10 is left of it.
        truncation: where a is clipped in the i-th polynomial: "none", "tight", $B_i = 3\sqrt i$,
            "practical", $B_i = 2\sqrt i + \sqrt{2 \log(1/\varepsilon)}$, or "paper",
            $B_i = 100\sqrt i + 10\sqrt{\log(1/\varepsilon)}$.
        epsilon: $\varepsilon$ of the truncation.

    Raises:
        ValueError: the series does not converge at 1, or the method has no solution for it.

    Example:
        >>> h = indicator_function("identity")
        >>> print(round(h.energy, 3), h(np.array([1.0]), np.array([0.0])).round(3))
        10.883 [4.342]
    """
    check_name(method, get_args(Method), "method")
    check_name(truncation, get_args(Truncation), "truncation")
    check_epsilon(epsilon)
    series = as_series(phi, "phi")
    if degree is not None:
        check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    else:
        degree = series.tail_degree(1e-10)
    c = series.taylor(degree)
    divisors, squares = _divisors(method, degree, c)
    factors = np.where(c != 0, c / np.where(c != 0, divisors, 1.0), 0.0)
    energy = float(np.sum(factors**2 * squares))
    limits = _limits(truncation, degree, epsilon)
    return IndicatorFunction(series, factors, limits, method, energy, c)


def _divisors(method: str, degree: int, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[p_i(-b) beta_i(b)] and E[beta_i(b)^2], degree by degree."""
    if method == "minimum-norm":
        G = np.array([1 / 3, *(_window_energy(i) for i in range(1, degree + 1))])
        return G, G
    if method == "paper":
        windows = [indicator_window(i) for i in range(1, degree + 1)]
        sizes = [1.0, *(float(ndtr(window.high) - ndtr(window.low)) for window in windows)]
        return np.array([0.5, *(window.moment for window in windows)]), np.array(sizes)
    even = np.flatnonzero(c[2::2])
    if len(even):
        raise ValueError(
            f"`phi` must have a constant and odd terms only for method={method!r}, got a term of "
            f"degree {2 * int(even[0]) + 2}. Use method='minimum-norm'."
        )
    if method == "centered":
        return hermite_indicator(np.zeros(()), degree), np.ones(degree + 1)
    # E pdf(b) f(b) over N(0, 1) is E f(g / sqrt 2) / (2 sqrt pi): the first column of a scaling.
    means = hermite_affine(max(degree - 1, 0), factor=math.sqrt(0.5))[:, 0]
    roots = np.sqrt(np.arange(1, degree + 1))
    divisors = np.array([0.5, *(means[:degree] / roots / (2 * math.sqrt(math.pi)))])
    return divisors, np.ones(degree + 1)


def _window_energy(i: int) -> float:
    """E p_i(-b)^2, a Gaussian integral of a polynomial: exact by i + 5 nodes."""
    t, w = np.polynomial.hermite.hermgauss(i + 5)
    values = hermite(t * math.sqrt(2 / 3), i - 1)[i - 1]
    return float((2 * math.pi) ** -1.5 * math.sqrt(2 / 3) * np.sum(w * values**2) / i)


def _limits(truncation: str, degree: int, epsilon: float) -> Float64[np.ndarray, " q"]:
    root, log = np.sqrt(np.arange(degree + 1)), math.log(1 / epsilon)
    if truncation == "tight":
        return np.where(root > 0, 3 * root, np.inf)  # nothing to cut in a constant
    if truncation == "practical":
        return 2 * root + math.sqrt(2 * log)
    return 100 * root + 10 * math.sqrt(log) if truncation == "paper" else np.full_like(root, np.inf)
