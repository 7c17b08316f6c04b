# SPDX-License-Identifier: Apache-2.0
"""The landscape of the clean risk: no second-order stationary point is bad, up to a slack."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_finite, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape import regularizer
from unlazy.papers.bai_lee2020.clean_risk import QuadraticRisk

REGULARIZER_CONSTANT = 378 * (14 / 5) ** 3
r"""$C = \max_p 56 p^3 - 5 p^4 = 8297.856$ at $p = 42/5$: what the regulariser's Hessian costs
against itself; sharp in the last form of `curvature_bound`."""
Movement = Float[Array | np.ndarray, "m d"]


class CurvatureBound(eqx.Module):
    r"""Both sides of the inequality of `curvature_bound`.

    `curvature` $\le$ `bound` $\le$ `regularizer_bound`; without a penalty the last two are equal.
    The `slack` at finite width is of order $1/m$, and at most the `slack_bound`,

    $$T(W, W^*) = \frac1{nm} \sum_i \ell''_i \sum_r \sigma''(w_{0,r}^\top x_i)^2
    (w_r^\top x_i)^2 (w^*_r{}^\top x_i)^2
    \le \frac{\sup \ell''}{m} \max_{r,i} \sigma''(w_{0,r}^\top x_i)^2 B_x^4
    \|W\|_{2,4}^2 \|W^*\|_{2,4}^2$$

    Source: BL-22, arXiv:1910.01619 Lemma 1, whose proof has a spurious factor 2 in T; in the bound
    the paper's $C_2 |w_{0,r}^\top x_i|$ is replaced by what it bounds.
    """

    curvature: float  # the mean of the Hessian form over the signs, exact
    bound: float
    regularizer_bound: float  # the same with the regulariser's part replaced by its own bound
    slack: float  # T, the only term that falls with the width
    slack_bound: float


@entry
def curvature_bound(risk: QuadraticRisk, W: Movement, W_star: Movement) -> CurvatureBound:
    r"""The landscape inequality between any two movements.

    With $s'$ uniform on signs, $R = \|\cdot\|_{2,4}^8$ and $H_R(W, W^*)$ the sign average of its
    Hessian form,

    $$\mathbb{E}_{s'} \nabla^2 L^Q_\lambda(W)[s' W^*, s' W^*]
    = \frac2n \sum_i \ell'_i f^Q_{W^*}(x_i) + T + \lambda H_R(W, W^*)$$

    $$\le \langle \nabla L^Q_\lambda(W), W \rangle - 2 (L^Q_\lambda(W) - L^Q(W^*)) + T
    + \lambda (H_R(W, W^*) - 6 R(W))$$

    $$\le \langle \nabla L^Q_\lambda(W), W \rangle - 2 (L^Q_\lambda(W) - L^Q(W^*)) + T
    - \lambda R(W) + C \lambda R(W^*), \qquad C = 378 (14/5)^3.$$

    So where the gradient vanishes and no curvature is negative, the risk is at most that of every
    $W^*$, up to $T = O(1/m)$ and the regulariser.

    Source: BL-T15 and BL-T16, arXiv:1910.01619 Lemma 1 and Corollary 3.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> net = TwoLayer(inputs=2, width=4, activation="relu3", init="symmetric")
        >>> params = net.init(key=jax.random.key(0))
        >>> risk = QuadraticRisk.of(net, params, jnp.eye(2), jnp.array([1.0, -1.0]))
        >>> sides = curvature_bound(risk, jnp.ones((4, 2)), jnp.eye(4, 2))
        >>> sides.curvature <= sides.bound
        True
    """
    at = _terms(risk, W, W_star)
    return CurvatureBound(at.curvature, at.bound, at.regularizer_bound, at.slack, at.slack_bound)


@entry
def optimality_bound(
    risk: QuadraticRisk,
    W: Movement,
    W_star: Movement,
    *,
    smallest_eigenvalue: int | float,
    proved: bool = False,
) -> float:
    r"""A bound on the regularised clean risk at `W` from its gradient and smallest curvature.

    $$L^Q_\lambda(W) \le L^Q(W^*) + \tfrac12 \{ \|g\|_F \|W\|_F + \max(0, -\lambda_{\min})
    \|W^*\|_F^2 + T + \lambda (H_R(W, W^*) - 6 R(W)) \}$$

    for every $W^*$, with g the gradient and $\lambda_{\min}$ the smallest eigenvalue of the Hessian
    at `W`, or a lower bound of it. If it is `proved` to be one even where it is positive (by a
    dense spectrum, not by Lanczos), then it may lower the bound.

    Source: BL-23.
    """
    check_finite(smallest_eigenvalue, "smallest_eigenvalue")
    curvature = -smallest_eigenvalue if proved else max(0.0, -smallest_eigenvalue)
    at = _terms(risk, W, W_star)
    rest = float(curvature) * at.square + at.slack + at.excess
    return at.star + (at.gradient + rest) / 2


@entry
def localization_radius(risk: QuadraticRisk) -> float:
    r"""The largest 2,4 norm that a stationary point of the regularised clean risk can have.

    $$\|W\|_{2,4} \le \Big( \frac{L^Q(0)}{4 \lambda} \Big)^{1/8}$$

    Source: BL-T17; by convexity, from $0 = \langle \nabla L^Q_\lambda(W), W \rangle$.
    """
    check_positive(risk.strength, "risk.strength")
    with float64():
        y = jnp.asarray(risk.y, jnp.float64)
        start = float(jnp.mean(risk.loss(jnp.zeros_like(y), y)))
    return (start / (4 * risk.strength)) ** (1 / 8)


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

    for a comparator of risk `opt` and 2,4 norm $B_{w,*}$, `norm_star`, with d inputs of norm $B_x$,
    the `radius`, and m neurons. `epsilon` and `gamma` are the absolute and the relative excess risk
    aimed at. The penalty and the risk are exact; the result's norm and radius are orders, hidden
    constants set to 1.

    Source: BL-46, arXiv:1910.01619 Theorem 4, with the missing $m^{-1/4}$ of the fourth term.

    Example:
        >>> theory = landscape_theory(
        ...     opt=0.1, norm_star=(8 * math.pi) ** 0.25, epsilon=0.1, gamma=1.0, d=10, m=10**6)
        >>> print(f"{theory.strength:.2g} {theory.risk:.2g}")
        5.7e-08 0.3
    """
    if opt != 0:
        check_positive(opt, "opt")
    sizes = {"norm_star": norm_star, "epsilon": epsilon, "gamma": gamma, "radius": radius}
    for name, value in sizes.items():
        check_positive(value, name)
    check_count(d, "d", most=None)
    check_count(m, "m", most=None)
    star, eps, gamma, B = map(float, sizes.values())
    allowed = 2 * gamma * float(opt) + eps
    lam = allowed / (REGULARIZER_CONSTANT * star**8)
    growth = 1 + (2 * float(opt) + eps) / allowed
    quarter = m**-0.25 / lam
    return LandscapeTheory(
        strength=lam,
        risk=(1 + gamma) * float(opt) + eps,
        norm=star * growth ** (1 / 8),
        radius=lam ** (-1 / 8)
        + (d * B * quarter) ** (1 / 7)
        + (math.sqrt(d) * B**5 * quarter) ** (1 / 3)
        + (B**3 * quarter) ** (1 / 5)
        + (d**2.5 * B**4 * m**-0.5 / lam) ** (1 / 4),
    )


@entry
def landscape_width(
    d: int, *, norm: int | float, epsilon: int | float, radius: int | float = 1.0
) -> float:
    r"""The order of the width from which Theorem 2 holds with excess risk `epsilon`.

    $$m \gtrsim \frac{B_x^{12} B_w^{12} + d^4 B_x^4 B_w^4 + d^2 B_x^{20} B_w^{20}}{\varepsilon^4}
    + \frac{d^5 B_x^8 B_w^8}{\varepsilon^2}$$

    for movements of 2,4 `norm` $B_w$ and inputs of norm $B_x$, the `radius`. Constants and
    logarithms are hidden, and practice needs far less.

    Source: BL-24, arXiv:1910.01619 Theorem 2, eq. (6).

    Example:
        >>> landscape_width(1, norm=1.0, epsilon=1.0)
        4.0
    """
    for name, value in [("norm", norm), ("epsilon", epsilon), ("radius", radius)]:
        check_positive(value, name)
    check_count(d, "d", most=None)
    b, eps = float(radius) * float(norm), float(epsilon)
    return (b**12 + d**4 * b**4 + d**2 * b**20) / eps**4 + d**5 * b**8 / eps**2


class _Terms(NamedTuple):
    """The parts of the inequalities: arrays where they are computed, floats outside."""

    curvature: Any
    bound: Any
    regularizer_bound: Any
    slack: Any
    slack_bound: Any
    star: Any  # L^Q(W*)
    gradient: Any  # |g| |W|
    square: Any  # |W*|^2
    excess: Any  # lambda (H_R(W, W*) - 6 R(W))


def _terms(risk: QuadraticRisk, W: Movement, W_star: Movement) -> _Terms:
    with float64():
        return _Terms(*map(float, _compiled(risk, jnp.asarray(W), jnp.asarray(W_star))))


@eqx.filter_jit
def _compiled(*arguments: Any) -> _Terms:
    # Cast in here: outside, every cast would be a program of its own.
    risk, W, W_star = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), arguments)
    slope, curvature = risk._slopes(W)
    products = risk.S * risk._movements(W) * risk._movements(W_star)
    T = jnp.sum(curvature * jnp.sum(products**2, axis=1))
    lam, R, R_star = risk.strength, regularizer(W), regularizer(W_star)
    largest = jnp.max(risk.S**2) * jnp.max(jnp.sum(risk.x**2, axis=1)) ** 2
    curved = lam * regularizer.curvature(W, W_star)
    star, gradient = risk.data_term(W_star), risk.gradient(W)
    shared = jnp.sum(gradient * W) - 2 * (risk(W) - star) + T
    return _Terms(
        curvature=2 * jnp.sum(slope * risk.outputs(W_star)) + T + curved,
        bound=shared + curved - 6 * lam * R,
        regularizer_bound=shared + lam * (REGULARIZER_CONSTANT * R_star - R),
        slack=T,
        slack_bound=risk.loss.curvature * largest * (R * R_star) ** 0.25,
        star=star,
        gradient=jnp.linalg.norm(gradient) * jnp.linalg.norm(W),
        square=jnp.sum(W_star**2),
        excess=curved - 6 * lam * R,
    )
