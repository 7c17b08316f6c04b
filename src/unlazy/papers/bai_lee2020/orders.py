# SPDX-License-Identifier: Apache-2.0
"""The paper's asymptotic statements on the landscape, as orders: their constants are hidden."""

import math

import equinox as eqx

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry

REGULARIZER_CONSTANT = 378 * (14 / 5) ** 3
r"""$C = \max_p 56 p^3 - 5 p^4 = 8297.856$ at $p = 42/5$: what the regulariser's Hessian costs
against itself; sharp in the last form of `papers.bai_lee2020.curvature_bound`."""


class LandscapeTheory(eqx.Module):
    """What Theorem 4 promises of second-order stationary points, for its own penalty."""

    strength: float  # lambda, of the penalty
    risk: float  # the regularised risk is at most this
    norm: float  # ||W||_{2,4} is at most of this order: the constant C' is set to 1
    radius: float  # B_{w,0}, where stationary points lie: order only


@entry
def landscape_theory(
    *,
    opt: int | float,
    norm_star: int | float,
    epsilon: int | float,
    gamma: int | float,
    d: int,
    m: int,
    radius: int | float = 1.0,
) -> LandscapeTheory:
    r"""Theorem 4: the penalty, and what every second-order stationary point then satisfies.

    $$\lambda = \frac{2\gamma\,\mathrm{OPT} + \varepsilon}{C B_{w,*}^8}, \qquad
    L_\lambda \le (1 + \gamma)\,\mathrm{OPT} + \varepsilon, \qquad
    \|W\|_{2,4}^8 \le B_{w,*}^8 C' \Big(1 + \frac{2\,\mathrm{OPT} + \varepsilon}
    {2\gamma\,\mathrm{OPT} + \varepsilon}\Big)$$

    with $C = 378 (14/5)^3$, for m large enough (`landscape_width`). Stationary points lie within

    $$B_{w,0} = \lambda^{-1/8} + \Big(\frac{d B_x}{m^{1/4}\lambda}\Big)^{1/7}
    + \Big(\frac{\sqrt d B_x^5}{m^{1/4}\lambda}\Big)^{1/3}
    + \Big(\frac{B_x^3}{m^{1/4}\lambda}\Big)^{1/5}
    + \Big(\frac{d^{5/2} B_x^4}{m^{1/2}\lambda}\Big)^{1/4}$$

    The penalty and the risk are exact; `norm` and `radius` are orders, hidden constants set to 1.

    Source: BL-46, arXiv:1910.01619 Theorem 4, with the missing $m^{-1/4}$ of the fourth term.

    Args:
        opt: OPT, the risk that the comparator reaches.
        norm_star: $B_{w,*}$, its 2,4 norm.
        epsilon: excess risk aimed at.
        gamma: relative excess risk aimed at.
        d: number of inputs.
        m: number of neurons.
        radius: $B_x$.

    Raises:
        ValueError: a number is not positive; `opt` may be zero.

    Example:
        >>> star = (8 * math.pi) ** 0.25
        >>> theory = landscape_theory(
        ...     opt=0.1, norm_star=star, epsilon=0.1, gamma=1.0, d=10, m=10**6)
        >>> print(f"{theory.strength:.2g} {theory.risk:.2g}")
        5.7e-08 0.3
    """
    if opt != 0:
        check_positive(opt, "opt")
    for name, value in [("norm_star", norm_star), ("epsilon", epsilon), ("gamma", gamma)]:
        check_positive(value, name)
    _check_sizes(d, m, radius)
    slack = 2 * float(gamma) * float(opt) + float(epsilon)
    lam = slack / (REGULARIZER_CONSTANT * float(norm_star) ** 8)
    growth = 1 + (2 * float(opt) + float(epsilon)) / slack
    return LandscapeTheory(
        strength=lam,
        risk=(1 + float(gamma)) * float(opt) + float(epsilon),
        norm=float(norm_star) * growth ** (1 / 8),
        radius=_localisation(lam, d, m, float(radius)),
    )


@entry
def landscape_width(
    d: int, *, norm: int | float, epsilon: int | float, radius: int | float = 1.0
) -> float:
    r"""The order of the width that the landscape theorem asks for.

    $$m \gtrsim \frac{B_x^{12} B_w^{12} + d^4 B_x^4 B_w^4 + d^2 B_x^{20} B_w^{20}}{\varepsilon^4}
    + \frac{d^5 B_x^8 B_w^8}{\varepsilon^2}$$

    Order only: constants and logarithms are hidden, and practice needs far less.

    Source: BL-24, arXiv:1910.01619 Theorem 2, eq. (6).

    Args:
        d: number of inputs.
        norm: $B_w$, the 2,4 norm.
        epsilon: excess risk aimed at.
        radius: $B_x$.

    Raises:
        ValueError: a number is not positive.

    Example:
        >>> landscape_width(1, norm=1.0, epsilon=1.0)
        4.0
    """
    check_positive(norm, "norm")
    check_positive(epsilon, "epsilon")
    _check_sizes(d, 1, radius)
    b, eps = float(radius) * float(norm), float(epsilon)
    return (b**12 + d**4 * b**4 + d**2 * b**20) / eps**4 + d**5 * b**8 / eps**2


@entry
def gradient_coupling_order(
    d: int, m: int, *, norm: int | float, radius: int | float = 1.0
) -> float:
    r"""Lemma 13: the order of $\langle\nabla L - \nabla L^Q, W\rangle$.

    $$\frac{d B_x w + \sqrt d B_x^5 w^5 + B_x^3 w^3}{m^{1/4}} + \frac{d^{5/2} B_x^4 w^4}{m^{1/2}}$$

    Order only: the hidden constant is set to 1.

    Source: BL-47, arXiv:1910.01619 Lemma 13.

    Args:
        d: number of inputs.
        m: number of neurons.
        norm: $w = \|W\|_{2,4}$.
        radius: $B_x$.

    Raises:
        ValueError: a number is not positive.

    Example:
        >>> gradient_coupling_order(1, 16, norm=1.0)
        1.75
    """
    check_positive(norm, "norm")
    _check_sizes(d, m, radius)
    w, B = float(norm), float(radius)
    first = d * B * w + math.sqrt(d) * (B * w) ** 5 + (B * w) ** 3
    return first * m**-0.25 + d**2.5 * (B * w) ** 4 * m**-0.5


@entry
def hessian_coupling_order(
    d: int,
    m: int,
    *,
    norm: int | float,
    norm_star: int | float,
    largest: int | float,
    radius: int | float = 1.0,
) -> float:
    r"""Lemma 14: the order of the difference of the Hessian forms of $L$ and $L^Q$.

    $$\frac{(B_x^3 w + \sqrt d B_x^5 w^3) v^2}{m^{1/4}} + \frac{d^{5/2} B_x^4 w^2 v^2
    + B_x^2 (d^2 + \|W\|_{2,\infty}^4 B_x^4) v^2}{m^{1/2}} + \frac{d B_x^4 w^2 v^2}{m}$$

    averaged over the signs of the direction. Order only: the hidden constant is set to 1.

    Source: BL-47, arXiv:1910.01619 Lemma 14.

    Args:
        d: number of inputs.
        m: number of neurons.
        norm: $w = \|W\|_{2,4}$.
        norm_star: $v = \|W^*\|_{2,4}$, of the direction.
        largest: $\|W\|_{2,\infty}$, the longest row.
        radius: $B_x$.

    Raises:
        ValueError: a number is not positive.

    Example:
        >>> hessian_coupling_order(1, 16, norm=1.0, norm_star=1.0, largest=1.0)
        1.8125
    """
    for name, value in [("norm", norm), ("norm_star", norm_star), ("largest", largest)]:
        check_positive(value, name)
    _check_sizes(d, m, radius)
    w, v, B = float(norm), float(norm_star), float(radius)
    first = (B**3 * w + math.sqrt(d) * B**5 * w**3) * m**-0.25
    second = d**2.5 * B**4 * w**2 + B**2 * (d**2 + float(largest) ** 4 * B**4)
    return v**2 * (first + second * m**-0.5 + d * B**4 * w**2 / m)


def _localisation(lam: float, d: int, m: int, B: float) -> float:
    quarter = m**-0.25 / lam
    return (
        lam ** (-1 / 8)
        + (d * B * quarter) ** (1 / 7)
        + (math.sqrt(d) * B**5 * quarter) ** (1 / 3)
        + (B**3 * quarter) ** (1 / 5)
        + (d**2.5 * B**4 * m**-0.5 / lam) ** (1 / 4)
    )


def _check_sizes(d: int, m: int, radius: int | float) -> None:
    check_count(d, "d", most=None)
    check_count(m, "m", most=None)
    check_positive(radius, "radius")
