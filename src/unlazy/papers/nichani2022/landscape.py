# SPDX-License-Identifier: Apache-2.0
"""Lemma 3 and Corollary 1: why the regularised risk has no bad second-order stationary points."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.curvature.certification import Certificate, certify
from unlazy.escape.good_directions.projectors import SampleProjector
from unlazy.escape.penalty import regularizer
from unlazy.linalg.full_precision import full_product
from unlazy.papers.bai_lee2020.landscape import Movement
from unlazy.papers.nichani2022.regularized_risk import (
    RegularizedRisk,
    columns,
    neuron_slopes,
)

_ENTRIES = 2**22  # of an array over points and neurons: 32 MB in float64


class GoodLandscape(eqx.Module):
    r"""Both sides of Lemma 3 at one point.

    $$\mathbb E_{\mathrm{Sgn}} D^2 L_\lambda(W)[\mathrm{Sgn} W^*, \mathrm{Sgn} W^*]
    \le \langle \nabla L_\lambda(W), W - 2 W_L^* + P_{\le k} W \rangle
    - 2 L_\lambda(W) + 2 L_\lambda(W^*) + O(\varepsilon)$$

    Source: NB-36, arXiv:2206.03688 Lemma 3.
    """

    curvature: float  # the left side
    along_gradient: float
    risk: float
    risk_star: float
    gradient_norm: float
    curvature_error: float  # standard error of the draws; 0 where the mean is exact

    @property
    def excess(self) -> float:
        """The left side less the right one: what the O(epsilon) has to be at least."""
        return self.curvature - self.along_gradient + 2 * (self.risk - self.risk_star)


@entry
def good_landscape(
    risk: RegularizedRisk,
    W: Movement,
    W_star: Movement,
    W_L: Movement,
    *,
    draws: int | None = None,
    key: PRNGKeyArray | None = None,
) -> GoodLandscape:
    r"""Lemma 3 at given points: curvature along a good solution, and what bounds it.

    With signs on the rows of $W^*$, and $b_{ir}$, $c_{ir}$ the slopes of the neurons in NB-17, the
    mean of its form is exactly

    $$\frac1n \sum_i \Big[ \frac{\ell''_i}{m} \sum_r b_{ir}^2 (w^{*\top}_r x_i)^2
    + \frac{\ell'_i}{\sqrt m} \sum_r c_{ir} (w^{*\top}_r x_i)^2 \Big]
    + 2 \sum_{j \le 3} \lambda_j \sum_r R_j(e_r e_r^\top W^*)
    + \lambda_4\, \mathbb E_{\mathrm{Sgn}} D^2 R_4(W)[\mathrm{Sgn} W^*, \mathrm{Sgn} W^*]$$

    so that no signs need be drawn where the leading directions come from points. So where the
    gradient vanishes and no curvature is negative, the risk is at most that of $W^*$, up to
    $\varepsilon$. In float64.

    Source: NB-36 and NB-17, arXiv:2206.03688 Lemma 3.

    Args:
        risk: that of the network, as in the paper, or of its expansion.
        W: the point.
        W_star: the good solution, from `papers.nichani2022.good_solution`.
        W_L: its linear part, `solution.low.dW`.
        draws: number of sign draws to average over instead; needed for covariance="exact" alone.
        key: for the draws.

    Example:
        >>> import unlazy as ul
        >>> net = ul.nets.TwoLayer(4, 20, ul.activation("sigmoid", shift=1.5), init="sphere")
        >>> params = net.init(key=jr.key(0))
        >>> x = ul.data.sphere(30, 4, radius=2.0, key=jr.key(1))
        >>> geometry = ul.escape.directions(net, params, x, degree=1)
        >>> risk = RegularizedRisk.of(geometry, x[:, 0])
        >>> best = ul.papers.nichani2022.low_part(geometry, lambda x: x[:, 0]).dW
        >>> good_landscape(risk, jnp.zeros((20, 4)), best, best).excess < 0.05
        True
    """
    shape = (risk.width, risk.geometry.net.inputs)
    for name, value in {"W": W, "W_star": W_star, "W_L": W_L}.items():
        if np.shape(value) != shape:
            raise ValueError(
                f"`{name}` must have shape {shape}, got {name}.shape={np.shape(value)}."
            )
    with float64():
        risk, W, W_star, W_L = (
            jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)
            for tree in (risk, jnp.asarray(W), jnp.asarray(W_star), jnp.asarray(W_L))
        )
        shared = {name: float(value) for name, value in _shared(risk, W, W_star, W_L).items()}
        if draws is None:
            return GoodLandscape(_mean_curvature(risk, W, W_star), curvature_error=0.0, **shared)
        values = _drawn(risk, W, W_star, draws, key)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return GoodLandscape(float(np.mean(values)), curvature_error=error, **shared)


@entry
def certify_good(
    risk: RegularizedRisk,
    W: Movement,
    *,
    gradient: int | float | None = None,
    curvature: int | float | None = None,
    steps: int = 100,
    smoothing: int | float | None = None,
    draws: int = 1024,
    key: PRNGKeyArray,
) -> Certificate:
    r"""Whether a point is a $(\nu, \gamma)$ second-order stationary point of the risk.

    $$\|\nabla L_\lambda(W)\|_F \le \nu, \qquad \lambda_{\min}(\nabla^2 L_\lambda(W)) \ge -\gamma,
    \qquad \nu = m^{-1/2}, \quad \gamma = m^{-3/4}$$

    by `certify`, whose tolerances are $\nu m^{1/4}$ and $\gamma m^{1/2}$. At such points the
    paper's Corollary 1 has $L_\lambda \lesssim \varepsilon$, with constants that it does not give.
    The risk may be that of the expansion or of the network. `gradient` is $\nu$ and `curvature`
    $\gamma$, None for the theory's value; the other arguments are those of `certify`.

    Source: NB-24, arXiv:2206.03688 Corollary 1.

    Example:
        >>> import unlazy as ul
        >>> net = ul.nets.TwoLayer(3, 8, ul.activation("sigmoid", shift=1.5), init="sphere")
        >>> params, x = net.init(key=jr.key(0)), ul.data.sphere(20, 3, key=jr.key(1))
        >>> geometry = ul.escape.directions(net, params, x, rank=4)
        >>> risk = RegularizedRisk.of(geometry, 5 * x[:, 0])
        >>> certify_good(risk, jnp.zeros((8, 3)), key=jr.key(2)).verdict
        'second-order stationary'
    """
    m = risk.width
    nu = m**-0.5 if gradient is None else gradient
    gamma = m**-0.75 if curvature is None else curvature
    check_positive(nu, "gradient")
    check_positive(gamma, "curvature")
    return certify(
        risk,
        W,
        width=m,
        gradient_tolerance=float(nu) * m**0.25,
        curvature_tolerance=float(gamma) * m**0.5,
        steps=steps,
        smoothing=smoothing,
        draws=draws,
        key=key,
    )


@eqx.filter_jit
def _shared(risk: RegularizedRisk, W, W_star, W_L) -> dict[str, Float[Array, ""]]:
    value, gradient = jax.value_and_grad(risk)(W)
    direction = W - 2 * W_L + risk.geometry.low(W)
    return {
        "along_gradient": jnp.sum(gradient * direction),
        "risk": value,
        "risk_star": risk(W_star),
        "gradient_norm": jnp.linalg.norm(gradient),
    }


def _mean_curvature(risk: RegularizedRisk, W, W_star) -> float:
    """Neurons in blocks: every term but that of R4 is a sum over neurons."""
    projector = risk.geometry.projector
    if not isinstance(projector, SampleProjector):
        raise ValueError(
            "`draws` must be a number of sign draws for covariance='exact', got draws=None."
        )
    m, points = risk.width, len(projector.term.x) + len(risk.y)
    block = min(m, max(1, _ENTRIES // points))
    total = 0.0
    for k in range(0, m, block):
        # Padded with rows that stand still, so that one shape is compiled.
        rows = jnp.minimum(jnp.arange(k, k + block), m - 1)
        moves = jnp.where((jnp.arange(k, k + block) < m)[:, None], W_star[rows], 0.0)
        total += float(_block(risk, projector, W, moves, rows))
    return total + (float(_curved(risk, W, W_star)) if risk.strengths[3] else 0.0)


@eqx.filter_jit
def _block(
    risk: RegularizedRisk, projector: SampleProjector, W, moves: Float[Array, "b d"], rows
) -> Float[Array, ""]:
    geometry = risk.geometry
    slope, curvature = risk.slopes(W)
    Z_star = full_product(geometry.term.x, moves.T)
    linear = columns(geometry.term, rows) * Z_star
    first, second = neuron_slopes(risk, W, rows)
    bent = slope * jnp.sum(second * Z_star**2, axis=1) / math.sqrt(risk.width)
    data = jnp.mean(curvature * jnp.sum((first * Z_star) ** 2, axis=1) / risk.width + bent)
    other = columns(projector.term, rows) * full_product(projector.term.x, moves.T)
    q = full_product(projector.U.T, other)
    inside = full_product(projector.U, q)
    parts = (other - inside, inside, linear - full_product(geometry.carry, q))
    squares = [jnp.sum(part**2) / (len(part) * risk.width) for part in parts]
    return data + 2 * sum(
        lam * square for lam, square in zip(risk.strengths[:3], squares, strict=True)
    )


@eqx.filter_jit
def _curved(risk: RegularizedRisk, W, W_star) -> Float[Array, ""]:
    return risk.strengths[3] * regularizer.curvature(W, W_star)


def _drawn(risk: RegularizedRisk, W, W_star, draws, key) -> np.ndarray:
    check_count(draws, "draws", least=2)
    check_key(key)
    signs = jr.rademacher(key, (draws, risk.width), jnp.float64)
    form = eqx.filter_jit(lambda risk, W, V: risk.hessian_form(W, V))
    return np.array([float(form(risk, W, s[:, None] * W_star)) for s in signs])
