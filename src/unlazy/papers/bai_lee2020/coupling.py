# SPDX-License-Identifier: Apache-2.0
r"""Bounds on the distance between a network with random signs and its quadratic model.

All bounds are computed in float64, for a two-layer network near a symmetric initialisation. They
use $\mathrm{mx}(x) = \max_r |w_{0,r}^\top x|$ and have a factor max |a_r|, which is 1 in the paper.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from unlazy.core.checks import check_count, check_finite, check_inputs, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape.norms import norm_2p
from unlazy.escape.predictors import as_movement
from unlazy.losses import PointwiseLoss, pointwise
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients
from unlazy.papers.bai_lee2020.assumption_a import Constants, supplied_smoothness
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.conditions import check_delta

_HIGHEST = jax.lax.Precision.HIGHEST


class TermBounds(NamedTuple):
    """Bounds on the parts of a network at each input."""

    quadratic: Float64[np.ndarray, " n"]  # |f^Q|
    linear_variance: Float64[np.ndarray, " n"]  # the variance of f^L over the signs
    remainder: Float64[np.ndarray, " n"]  # |f - f_0 - f^L - f^Q|, for all signs


@entry
def term_bounds(
    net: TwoLayer,
    params: TwoLayerParams,
    delta: Any,
    x: Inputs,
    *,
    constants: Constants | None = None,
) -> TermBounds:
    r"""Bounds on the quadratic term, the variance of the linear term and the remainder.

    $$|f^Q_W(x)| \le \frac{C_2}{2} \|x\|^2\, \mathrm{mx}(x)\, \|W\|_{2,4}^2, \qquad
    E_s \big(f^L_{sW}(x)\big)^2 \le C_1^2\, \mathrm{mx}(x)^4\, \|x\|^2 \|W\|_{2,4}^2\, m^{-1/2}$$

    $$|f_{W_0+sW} - f_{W_0} - f^L_{sW} - f^Q_W| \le \frac{C_3}{6} \|x\|^3 \|W\|_{2,4}^3\, m^{-1/4}$$

    with the constants of `smoothness`, or yours: `constants` $(C_1, C_2, C_3)$ serve any activation
    for which they hold on the line between the pre-activations before and after the movement, and
    are refused where these contradict them. `linear_variance` is the second one's exact value.

    Source: BL-9, BL-25, BL-26 (a) and (b), arXiv:1910.01619 Lemmas 10 and 11; the proof of
    Lemma 10 drops the 1/2.

    Example:
        >>> net = TwoLayer(inputs=1, width=16, activation="relu3", init="symmetric")
        >>> params = TwoLayerParams(W=jnp.ones((16, 1)), a=jnp.ones(16))
        >>> bounds = term_bounds(net, params, jnp.full((16, 1), 0.5), jnp.ones((1, 1)))
        >>> print(bounds.quadratic * 2, bounds.linear_variance * 16, bounds.remainder * 12)
        [1.] [1.] [1.]
    """
    with float64():
        at = _layer(net, params, delta, x)
        C1, C2, C3 = supplied_smoothness(net.activation, constants, at.Z0, at.Z)
        m, a, w, B = net.width, jnp.max(jnp.abs(at.params.a)), at.norm, at.radius
        largest = jnp.max(jnp.abs(at.Z0), axis=1)
        quadratic = C2 / 2 * a * B**2 * largest * w**2
        variance = (C1 * a * w) ** 2 / math.sqrt(m) * largest**4 * B**2
        remainder = C3 / 6 * a * w**3 * m**-0.25 * B**3
        return TermBounds(*map(np.asarray, (quadratic, variance, remainder)))


@entry
def linear_variance(
    net: TwoLayer, params: TwoLayerParams, delta: Any, x: Inputs
) -> Float64[np.ndarray, " n"]:
    r"""The exact variance of the linear term under random signs; its mean is 0.

    $$E_s \big(f^L_{sW}(x)\big)^2 = \frac1m \sum_r a_r^2 \sigma'(w_{0,r}^\top x)^2 (w_r^\top x)^2$$

    Source: BL-26 (a), arXiv:1910.01619 Lemma 11.

    Example:
        >>> net = TwoLayer(inputs=2, width=2, activation="relu3", init="symmetric")
        >>> params = TwoLayerParams(W=jnp.ones((2, 2)), a=jnp.array([1.0, -1.0]))
        >>> print(linear_variance(net, params, jnp.eye(2), jnp.eye(2)))
        [0.125 0.125]
    """
    with float64():
        at = _layer(net, params, delta, x)
        S = coefficients(net.activation, at.params, at.x, 1)
        return np.asarray(jnp.sum((S * at.Z) ** 2, axis=1) / net.width)


@entry
def coupling_bound(
    net: TwoLayer,
    params: TwoLayerParams,
    delta: Any,
    x: Inputs,
    loss: str | PointwiseLoss = "logistic",
    *,
    constants: Constants | None = None,
) -> float:
    r"""A bound on the distance of the randomised risk from the risk of the quadratic model.

    $$|L(W) - L^Q(W)| \le \frac1n \sum_i \Big[ \lambda_1 \Delta_i
    + \lambda_2 \big(E_s f^L_{sW}(x_i)^2 + \Delta_i^2\big) \Big]$$

    with $\Delta_i$ the remainder of `term_bounds`, $\lambda_1$ the Lipschitz constant of the loss
    and $\lambda_2$ its curvature, both at most 1 in the paper. The linear term enters only by its
    variance: its mean is zero, and $\ell'(f^Q)$ does not depend on the signs. The `constants` are
    those of `term_bounds`.

    Source: BL-26 (c), a repair of arXiv:1910.01619 Lemma 12.

    Raises:
        ValueError: the loss is not Lipschitz, or the network is not zero at `params`.

    Example:
        >>> net = TwoLayer(inputs=2, width=4, activation="relu3", init="symmetric")
        >>> params = net.init(key=jax.random.key(0))
        >>> print(coupling_bound(net, params, jnp.zeros((4, 2)), jnp.eye(2)))
        0.0
    """
    loss = pointwise(loss)
    if not math.isfinite(loss.lipschitz):
        raise ValueError(
            f"`loss` must be Lipschitz, got loss={loss.name!r}. "
            "Use 'logistic' for labels +-1, 'pseudo-huber' for real ones."
        )
    remainder = term_bounds(net, params, delta, x, constants=constants).remainder
    with float64():
        at = _layer(net, params, delta, x)
        values, a = net.activation(at.Z0), at.params.a
        output = jnp.abs(jnp.matmul(values, a, precision=_HIGHEST))
        scale = jnp.matmul(jnp.abs(values), jnp.abs(a), precision=_HIGHEST)
        if bool(jnp.any(output > 1e-10 * scale)):
            raise ValueError(
                "`params` must make the network zero, got outputs up to "
                f"{float(jnp.max(output)) / math.sqrt(net.width):.3g}. Use init='symmetric'."
            )
    second = loss.curvature * (linear_variance(net, params, delta, x) + remainder**2)
    return float(np.mean(loss.lipschitz * remainder + second))


class CouplingOrders(NamedTuple):
    """Orders of the distances of slopes and curvatures, see `coupling_orders`."""

    gradient: float
    hessian: float


@entry
def coupling_orders(
    d: int,
    m: int,
    *,
    norm: int | float,
    norm_star: int | float,
    largest: int | float,
    radius: int | float = 1.0,
) -> CouplingOrders:
    r"""Orders of the distances of the slopes and of the curvatures of $L$ and $L^Q$.

    $$\langle\nabla L - \nabla L^Q, W\rangle \sim
    \frac{d B_x w + \sqrt d B_x^5 w^5 + B_x^3 w^3}{m^{1/4}} + \frac{d^{5/2} B_x^4 w^4}{m^{1/2}}$$

    $$(\nabla^2 L - \nabla^2 L^Q)[W^*, W^*] \sim
    \frac{(B_x^3 w + \sqrt d B_x^5 w^3) v^2}{m^{1/4}} + \frac{d^{5/2} B_x^4 w^2 v^2
    + B_x^2 (d^2 + \|W\|_{2,\infty}^4 B_x^4) v^2}{m^{1/2}} + \frac{d B_x^4 w^2 v^2}{m}$$

    the second averaged over the signs of the direction $W^*$, for d inputs of norm $B_x$, the
    `radius`, and m neurons; with $w = \|W\|_{2,4}$ the `norm`, $v = \|W^*\|_{2,4}$ the `norm_star`
    and $\|W\|_{2,\infty}$ the `largest` row. Hidden constants are set to 1.

    Source: BL-47, arXiv:1910.01619 Lemmas 13 and 14.

    Example:
        >>> coupling_orders(1, 16, norm=1.0, norm_star=1.0, largest=1.0)
        CouplingOrders(gradient=1.75, hessian=1.8125)
    """
    check_count(d, "d", most=None)
    check_count(m, "m", most=None)
    sizes = {"norm": norm, "norm_star": norm_star, "largest": largest, "radius": radius}
    for name, value in sizes.items():
        check_positive(value, name)
    w, v, top, B = map(float, sizes.values())
    slope = d * B * w + math.sqrt(d) * (B * w) ** 5 + (B * w) ** 3
    first = (B**3 * w + math.sqrt(d) * B**5 * w**3) * m**-0.25
    second = d**2.5 * B**4 * w**2 + B**2 * (d**2 + top**4 * B**4)
    return CouplingOrders(
        gradient=slope * m**-0.25 + d**2.5 * (B * w) ** 4 * m**-0.5,
        hessian=v**2 * (first + second * m**-0.5 + d * B**4 * w**2 / m),
    )


@entry
def init_norm_bound(inputs: int, width: int, *, delta: float = 0.05, form: str = "paper") -> float:
    r"""A bound on the norms of all initial weights together, in units of $1/B_x$.

    $$\max_r B_x \|w_{0,r}\| \le \sqrt{8(d \log 5 + \log(m/\delta))}$$

    with probability at least $1 - \delta$ over a symmetric initialisation of d `inputs` and m
    neurons. The form "concentration" is sharper, $\sqrt d + \sqrt{2 \log(m/2\delta)}$: the norm is
    1-Lipschitz in a Gaussian, and there are m/2 distinct neurons.

    Source: BL-27, arXiv:1910.01619 eq. (4).

    Example:
        >>> print(round(init_norm_bound(10, 1000, delta=0.05), 1))
        14.4
    """
    check_count(inputs, "inputs")
    check_count(width, "width", least=2)
    check_delta(delta)
    check_name(form, ("paper", "concentration"), "form")
    if form == "paper":
        return math.sqrt(8 * (inputs * math.log(5) + math.log(width / delta)))
    return math.sqrt(inputs) + math.sqrt(2 * math.log(width / (2 * delta)))


class _Layer(NamedTuple):
    """The network at the inputs, in float64."""

    params: TwoLayerParams
    x: Float64[Array, "n d"]
    Z0: Float64[Array, "n m"]
    Z: Float64[Array, "n m"]
    norm: float  # (2, 4) norm of the movement
    radius: Float64[Array, " n"]  # norms of the inputs


def _layer(net: TwoLayer, params: TwoLayerParams, delta: Any, x: Inputs) -> _Layer:
    """Call it inside a float64 scope."""
    check_inputs(x, allow_zero_rows=True)
    W = jnp.asarray(as_movement(net, delta), jnp.float64)
    check_finite(W, "delta")
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)
    x = jnp.asarray(x, jnp.float64)
    Z0, Z = (jnp.matmul(x, V.T, precision=_HIGHEST) for V in (params.W, W))
    return _Layer(params, x, Z0, Z, float(norm_2p(W, 4)), jnp.sqrt(jnp.sum(x**2, axis=1)))
