# SPDX-License-Identifier: Apache-2.0
"""How smooth the regularised risk is: what its gradient and its Hessian can change at most."""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape import Directions
from unlazy.kernels import taylor_kernel
from unlazy.papers.nichani2022.generalization import derivative_supremum
from unlazy.papers.nichani2022.regularized_risk import RegularizedRisk

PerSample = Float64[np.ndarray, " n"]


class RiskSmoothness(NamedTuple):
    """Lipschitz constants in the Frobenius norm, on a ball around the start."""

    gradient: float  # the largest curvature, too
    hessian: float


class _Derivatives(NamedTuple):
    """Bounds on the first three derivatives in W of the output at each sample."""

    first: PerSample
    second: PerSample
    third: PerSample


@entry
def risk_smoothness(risk: RegularizedRisk, radius: int | float) -> RiskSmoothness:
    r"""Lipschitz constants of the gradient and the Hessian of $L_\lambda$ where $\|W\|_F \le \rho$.

    $$\ell = \frac1n \sum_i (c_2 g_i^2 + c_{1i} h_i) + 2 \sum_{j \le 3} \lambda_j \mu_j
    + 56 \lambda_4 \rho^6, \qquad
    \varrho = \frac1n \sum_i (c_3 g_i^3 + 3 c_2 g_i h_i + c_{1i} t_i) + 336 \lambda_4 \rho^5$$

    with $c_2$, $c_3$ the suprema of $\ell''$ and $|\ell'''|$ of the loss, $c_{1i}$ that of
    $|\ell'|$ at outputs within reach of sample i, and $\mu_j$ the largest eigenvalue of $R_j$: that
    of the covariance beyond its rank for $R_1$, its first one for $R_2$. The derivatives of the
    output are at most

    $$g_i = \|\nabla f(x_i; 0)\|_F + \rho h_i, \qquad
    h_i = m^{-1/2} \|x_i\|^2 \max_r |a_r \sigma''|, \qquad
    t_i = m^{-1/2} \|x_i\|^3 \max_r |a_r \sigma'''|$$

    for the expansion with $\sigma''$ at the start and $t_i = 0$; for the network with suprema, and
    $g_i$ at most $\sup |\sigma'|\, \|a\| \|x_i\| m^{-1/2}$. The constants of $R_4$ are reached
    where one row moves alone. Both give `papers.bai_lee2020.theoretical_perturbation` its numbers.

    Source: NB-16 and NB-17, arXiv:2206.03688; the smoothness that Theorem 3 needs, derived here.

    Args:
        risk: that of the expansion or of the network.
        radius: $\rho$.

    Raises:
        ValueError: `radius` is not positive, or the risk is the network's and a derivative of its
            activation is unbounded.

    Example:
        >>> import jax, unlazy as ul
        >>> net = ul.nets.TwoLayer(4, 20, ul.activation("sigmoid", shift=1.5), init="sphere")
        >>> x = ul.data.sphere(30, 4, radius=2.0, key=jax.random.key(1))
        >>> geometry = ul.escape.directions(net, net.init(key=jax.random.key(0)), x, degree=1)
        >>> risk = ul.papers.nichani2022.RegularizedRisk.of(geometry, x[:, 0], network=True)
        >>> smooth = risk_smoothness(risk, 3.0)
        >>> print(smooth.gradient < 0.5, smooth.hessian < 0.5)
        True True
    """
    check_positive(radius, "radius")
    rho, loss = float(radius), risk.loss
    first, second, third = _derivatives(risk, rho)
    with float64():
        y = jnp.asarray(np.asarray(risk.y, np.float64))
        at_start = np.abs(np.asarray(loss.derivative(1)(jnp.zeros_like(y), y)))
    # The output starts at 0 and changes by at most `first` per unit of movement.
    slope = np.minimum(loss.lipschitz, at_start + loss.curvature * first * rho)
    lam4 = risk.strengths[3]
    quadratic = sum(
        lam * value for lam, value in zip(risk.strengths, _curvatures(risk), strict=False)
    )
    bent = loss.jerk * first**3 + 3 * loss.curvature * first * second + slope * third
    return RiskSmoothness(
        float(np.mean(loss.curvature * first**2 + slope * second))
        + 2 * quadratic
        + 56 * lam4 * rho**6,
        float(np.mean(bent)) + 336 * lam4 * rho**5,
    )


def _derivatives(risk: RegularizedRisk, rho: float) -> _Derivatives:
    term, m = risk.geometry.term, risk.width
    norms = np.linalg.norm(np.asarray(term.x, np.float64), axis=1)
    squares = np.sum(np.asarray(term.slopes, np.float64) ** 2, axis=1)
    tangent = norms * np.sqrt(term.folding.copies * squares / m)
    if not risk.network:
        second = norms**2 * np.abs(np.asarray(risk.T, np.float64)).max(axis=1) / math.sqrt(m)
        return _Derivatives(tangent + rho * second, second, np.zeros_like(second))
    a, sigma = np.abs(np.asarray(risk.geometry.params.a, np.float64)), risk.geometry.net.activation
    s1, s2, s3 = (derivative_supremum(sigma, order) for order in (1, 2, 3))
    second = norms**2 * s2 * a.max() / math.sqrt(m)
    first = np.minimum(tangent + rho * second, norms * s1 * np.linalg.norm(a) / math.sqrt(m))
    return _Derivatives(first, second, norms**3 * s3 * a.max() / math.sqrt(m))


def _curvatures(risk: RegularizedRisk) -> tuple[float, float, float]:
    """The largest eigenvalues of R1, R2 and R3, or a bound on that of R3."""
    geometry = risk.geometry
    beyond = geometry.spectrum[geometry.rank :]
    high = float(beyond[0]) if len(beyond) else 0.0
    low = float(geometry.spectrum[0])
    if geometry.covariance == "data" or not risk.strengths[2]:
        return high, low, high
    return high, low, _top_at_samples(geometry)


def _top_at_samples(geometry: Directions) -> float:
    """A projector is a contraction, so that R3 has no larger eigenvalue than the kernel's."""
    x = geometry.term.x
    K = np.asarray(taylor_kernel(geometry.net, geometry.params, x, x, order=1), np.float64)
    return float(np.linalg.eigvalsh(K / len(x))[-1])
