# SPDX-License-Identifier: Apache-2.0
"""The inequality that leaves the clean risk no bad second-order stationary point, at any point."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_finite, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape import regularizer
from unlazy.escape.penalty import regularizer_curvature
from unlazy.papers.bai_lee2020.clean_risk import QuadraticRisk
from unlazy.papers.bai_lee2020.orders import REGULARIZER_CONSTANT

Movement = Float[Array | np.ndarray, "m d"]


class CurvatureBound(eqx.Module):
    r"""Both sides of the landscape inequality at `W`, in directions $s' W^*$ with random signs.

    `curvature` $\le$ `bound` $\le$ `regularizer_bound`, always; with `strength` 0 the last two are
    equal.
    """

    curvature: float  # the mean of the Hessian form over the signs, exact
    bound: float
    regularizer_bound: float  # the same with the regulariser's part replaced by its own bound
    slack: float  # T, the only term that falls with the width


@entry
def slack(risk: QuadraticRisk, W: Movement, W_star: Movement) -> float:
    r"""What the landscape inequality loses at finite width, of order $1/m$.

    $$T(W, W^*) = \frac1{nm} \sum_i \ell''_i \sum_r \sigma''(w_{0,r}^\top x_i)^2
    (w_r^\top x_i)^2 (w^*_r{}^\top x_i)^2$$

    Source: BL-22, arXiv:1910.01619 Lemma 1 (its proof has a spurious factor 2).
    """
    with float64():
        return float(_slack(*_arrays(risk, W, W_star)))


@entry
def slack_bound(risk: QuadraticRisk, W: Movement, W_star: Movement) -> float:
    r"""What `slack` is at most.

    $$T \le \frac{\sup \ell''}{m} \max_{r,i} \sigma''(w_{0,r}^\top x_i)^2 B_x^4
    \|W\|_{2,4}^2 \|W^*\|_{2,4}^2$$

    Source: BL-22, with the paper's $C_2 |w_{0,r}^\top x_i|$ replaced by what it bounds.
    """
    with float64():
        return float(_slack_bound(*_arrays(risk, W, W_star)))


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

    Args:
        risk: the clean risk.
        W: where the curvature is taken.
        W_star: the comparator, such as a hand-made solution.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> net = TwoLayer(inputs=2, width=4, activation="relu3", init="symmetric")
        >>> params = net.init(key=jax.random.key(0))
        >>> risk = QuadraticRisk.of(net, params, jnp.eye(2), jnp.array([1.0, -1.0]))
        >>> sides = curvature_bound(risk, jnp.ones((4, 2)), jnp.eye(4, 2))
        >>> sides.curvature <= sides.bound
        True
    """
    with float64():
        return CurvatureBound(*map(float, _sides(*_arrays(risk, W, W_star))))


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

    for every $W^*$: small when `W` is close to second-order stationary, however it was found.

    Source: BL-23.

    Args:
        risk: the clean risk.
        W: the point.
        W_star: the comparator.
        smallest_eigenvalue: of the Hessian at `W`, or a lower bound of it.
        proved: that it is a lower bound even where it is positive (a dense spectrum, not Lanczos);
            then it may lower the bound.
    """
    check_finite(smallest_eigenvalue, "smallest_eigenvalue")
    with float64():
        curvature = -smallest_eigenvalue if proved else max(0.0, -smallest_eigenvalue)
        allowed = jnp.asarray(curvature, jnp.float64)
        return float(_optimality_bound(*_arrays(risk, W, W_star), allowed))


@entry
def localization_radius(risk: QuadraticRisk) -> float:
    r"""How far out a stationary point of the regularised clean risk can be.

    $$\|W\|_{2,4} \le \Big( \frac{L^Q(0)}{4 \lambda} \Big)^{1/8}$$

    Source: BL-T17; by convexity, from $0 = \langle \nabla L^Q_\lambda(W), W \rangle$.
    """
    check_positive(risk.strength, "risk.strength")
    with float64():
        start = float(_loss_at_zero(risk))
        return (start / (4 * risk.strength)) ** (1 / 8)


@eqx.filter_jit
def _sides(risk: QuadraticRisk, W: Float[Array, "m d"], W_star: Float[Array, "m d"]):
    risk, W, W_star = _in_float64(risk, W, W_star)
    slope, _ = risk._slopes(W)
    T, lam = _slack(risk, W, W_star), risk.strength
    curved = lam * regularizer_curvature(W, W_star)
    curvature = 2 * jnp.sum(slope * risk.outputs(W_star)) + T + curved
    fall = 2 * (risk(W) - risk.data_term(W_star))
    shared = jnp.sum(risk.gradient(W) * W) - fall + T
    bound = shared + curved - 6 * lam * regularizer(W)
    worst = shared + lam * (REGULARIZER_CONSTANT * regularizer(W_star) - regularizer(W))
    return curvature, bound, worst, T


@eqx.filter_jit
def _optimality_bound(
    risk: QuadraticRisk,
    W: Float[Array, "m d"],
    W_star: Float[Array, "m d"],
    curvature: Float[Array, ""],
) -> Float[Array, ""]:
    risk, W, W_star = _in_float64(risk, W, W_star)
    size = jnp.linalg.norm(risk.gradient(W)) * jnp.linalg.norm(W)
    excess = risk.strength * (regularizer_curvature(W, W_star) - 6 * regularizer(W))
    rest = curvature * jnp.sum(W_star**2) + _slack(risk, W, W_star) + excess
    return risk.data_term(W_star) + (size + rest) / 2


@eqx.filter_jit
def _slack_bound(
    risk: QuadraticRisk, W: Float[Array, "m d"], W_star: Float[Array, "m d"]
) -> Float[Array, ""]:
    risk, W, W_star = _in_float64(risk, W, W_star)
    largest = jnp.max(risk.S**2) * jnp.max(jnp.sum(risk.x**2, axis=1)) ** 2
    return risk.loss.curvature * largest * (regularizer(W) * regularizer(W_star)) ** 0.25


@eqx.filter_jit
def _slack(
    risk: QuadraticRisk, W: Float[Array, "m d"], W_star: Float[Array, "m d"]
) -> Float[Array, ""]:
    risk, W, W_star = _in_float64(risk, W, W_star)
    _, curvature = risk._slopes(W)
    Z, Z_star = risk._movements(W), risk._movements(W_star)
    return jnp.sum(curvature * jnp.sum((risk.S * Z * Z_star) ** 2, axis=1))


@eqx.filter_jit
def _loss_at_zero(risk: QuadraticRisk) -> Float[Array, ""]:
    (risk,) = _in_float64(risk)
    return jnp.mean(risk.loss(jnp.zeros_like(risk.y), risk.y))


def _arrays(risk: QuadraticRisk, W: Movement, W_star: Movement) -> tuple[Any, Any, Any]:
    return risk, jnp.asarray(W), jnp.asarray(W_star)


def _in_float64(*trees: Any) -> tuple[Any, ...]:
    # Inside of what is compiled: outside, every cast would be a program of its own.
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64), trees)
