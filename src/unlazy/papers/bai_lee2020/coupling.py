# SPDX-License-Identifier: Apache-2.0
r"""How close a network with random signs is to its quadratic model: bounds that can be computed.

All in float64, for a two-layer network near a symmetric initialisation. With
$\mathrm{mx}(x) = \max_r |w_{0,r}^\top x|$; a common factor max |a_r| is 1 in the paper.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.activations.base import Activation
from unlazy.core.checks import check_count, check_finite, check_inputs, check_name
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape.norms import norm_2p
from unlazy.escape.predictors import as_movement
from unlazy.losses import PointwiseLoss, pointwise
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.shared.confidence import check_delta

Inputs = Float[Array | np.ndarray, "n d"]
_HIGHEST = jax.lax.Precision.HIGHEST


class Smoothness(NamedTuple):
    r"""Bounds on an activation: $|\sigma'(t)| \le C_1 t^2$ and $|\sigma''(t)| \le C_2 |t|$.

    $C_3$ is a Lipschitz constant of $\sigma''$.

    Source: BL-4, arXiv:1910.01619 Assumption A.
    """

    C1: float
    C2: float
    C3: float


class _Layer(NamedTuple):
    """The network at the inputs, in float64."""

    Z0: Float64[Array, "n m"]
    Z: Float64[Array, "n m"]
    a: Float64[Array, " m"]
    size: float  # (2, 4) norm of the movement
    radius: Float64[Array, " n"]  # norms of the inputs

    @property
    def largest(self) -> Float64[Array, " n"]:
        return jnp.max(jnp.abs(self.Z0), axis=1)

    @property
    def amplitude(self) -> Float64[Array, ""]:
        return jnp.max(jnp.abs(self.a))


@entry
def smoothness(activation: Activation) -> Smoothness:
    r"""The constants of an activation, for those that vanish to third order at 0.

    $$|\sigma'(t)| \le C_1 t^2, \qquad |\sigma''(t)| \le C_2 |t|, \qquad
    |\sigma''(t) - \sigma''(t')| \le C_3 |t - t'|$$

    Of the activations here relu3 has them, and so has a multiple of $t^3$.

    Source: BL-4, arXiv:1910.01619 Assumption A.

    Raises:
        ValueError: the activation has no such constants.

    Example:
        >>> import unlazy as ul
        >>> smoothness(ul.activation("relu3"))
        Smoothness(C1=0.5, C2=1.0, C3=1.0)
    """
    if activation.name == "relu3" and activation.shift == 0:
        return Smoothness(0.5, 1.0, 1.0)
    coefficients = dict(enumerate(activation.coefficients))
    cubic = abs(coefficients.pop(3, 0.0))
    coefficients.pop(0, None)  # a constant changes no derivative
    if activation.name == "polynomial" and not any(coefficients.values()) and not activation.shift:
        return Smoothness(3 * cubic, 6 * cubic, 6 * cubic)
    raise ValueError(
        "`activation` must vanish to third order at 0 with a Lipschitz second derivative, "
        f"got activation={activation}. Use 'relu3'."
    )


@entry
def quadratic_bound(
    net: TwoLayer, params: TwoLayerParams, delta: Any, x: Inputs
) -> Float64[np.ndarray, " n"]:
    r"""A bound on the quadratic term at each input.

    $$|f^Q_W(x)| \le \frac{C_2}{2} \|x\|^2 \, \mathrm{mx}(x) \, \|W\|_{2,4}^2$$

    Source: BL-25, arXiv:1910.01619 Lemma 10, whose proof drops the 1/2.

    Example:
        >>> net = TwoLayer(inputs=2, width=2, activation="relu3", init="symmetric")
        >>> params = TwoLayerParams(W=jnp.ones((2, 2)), a=jnp.array([1.0, -1.0]))
        >>> print(quadratic_bound(net, params, jnp.eye(2), jnp.eye(2)).round(4))
        [0.7071 0.7071]
    """
    C2 = smoothness(net.activation).C2
    with float64():
        at = _layer(net, params, delta, x)
        return np.asarray(C2 / 2 * at.amplitude * at.radius**2 * at.largest * at.size**2)


@entry
def linear_variance(
    net: TwoLayer, params: TwoLayerParams, delta: Any, x: Inputs
) -> Float64[np.ndarray, " n"]:
    r"""The variance of the linear term under random signs, exactly. Its mean is 0.

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
        return np.asarray(_variance(net, at))


@entry
def linear_variance_bound(
    net: TwoLayer, params: TwoLayerParams, delta: Any, x: Inputs
) -> Float64[np.ndarray, " n"]:
    r"""A bound on `linear_variance`, which shows how it falls with the width.

    $$C_1^2 \, \mathrm{mx}(x)^4 \, \|x\|^2 \, \|W\|_{2,4}^2 \, m^{-1/2}$$

    Source: BL-26 (a), arXiv:1910.01619 Lemma 11.

    Example:
        >>> net = TwoLayer(inputs=2, width=4, activation="relu3", init="symmetric")
        >>> params = TwoLayerParams(W=jnp.ones((4, 2)), a=jnp.ones(4))
        >>> print(linear_variance_bound(net, params, jnp.ones((4, 2)), jnp.eye(2)))
        [0.5 0.5]
    """
    C1 = smoothness(net.activation).C1
    with float64():
        at = _layer(net, params, delta, x)
        scale = (C1 * at.amplitude * at.size) ** 2 / math.sqrt(net.width)
        return np.asarray(scale * at.largest**4 * at.radius**2)


@entry
def remainder_bound(
    net: TwoLayer, params: TwoLayerParams, delta: Any, x: Inputs
) -> Float64[np.ndarray, " n"]:
    r"""A bound on what two Taylor terms leave, whatever the signs.

    $$|f_{W_0+sW} - f_{W_0} - f^L_{sW} - f^Q_W| \le \frac{C_3}{6} \|x\|^3 \|W\|_{2,4}^3 m^{-1/4}$$

    Source: BL-9 and BL-26 (b), arXiv:1910.01619 Lemma 11.

    Example:
        >>> net = TwoLayer(inputs=1, width=16, activation="relu3", init="symmetric")
        >>> params = TwoLayerParams(W=jnp.ones((16, 1)), a=jnp.ones(16))
        >>> print(remainder_bound(net, params, jnp.full((16, 1), 0.5), jnp.ones((1, 1))) * 12)
        [1.]
    """
    C3 = smoothness(net.activation).C3
    with float64():
        at = _layer(net, params, delta, x)
        scale = C3 / 6 * at.amplitude * at.size**3 * net.width**-0.25
        return np.asarray(scale * at.radius**3)


@entry
def coupling_bound(
    net: TwoLayer,
    params: TwoLayerParams,
    delta: Any,
    x: Inputs,
    loss: str | PointwiseLoss = "logistic",
) -> float:
    r"""A bound on the distance of the randomised risk from the risk of the quadratic model.

    $$|L(W) - L^Q(W)| \le \frac1n \sum_i \Big[ \lambda_1 \Delta_i
    + \lambda_2 \big(E_s f^L_{sW}(x_i)^2 + \Delta_i^2\big) \Big]$$

    with $\Delta_i$ the `remainder_bound`, $\lambda_1$ the Lipschitz constant of the loss and
    $\lambda_2$ its curvature, both at most 1 in the paper. The linear term enters only by its
    variance: its mean is zero, and $\ell'(f^Q)$ does not depend on the signs.

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
    remainder = remainder_bound(net, params, delta, x)
    with float64():
        at = _layer(net, params, delta, x)
        _check_zero_output(net, at)
        variance = np.asarray(_variance(net, at))
    second = loss.curvature * (variance + remainder**2)
    return float(np.mean(loss.lipschitz * remainder + second))


@entry
def init_norm_bound(inputs: int, width: int, *, delta: float = 0.05, form: str = "paper") -> float:
    r"""A bound on the norms of all initial weights together, in units of $1/B_x$.

    $$\max_r B_x \|w_{0,r}\| \le \sqrt{8(d \log 5 + \log(m/\delta))}$$

    with probability at least $1 - \delta$ over a symmetric initialisation. The form "concentration"
    is sharper, $\sqrt d + \sqrt{2 \log(m/2\delta)}$: the norm is 1-Lipschitz in a Gaussian, and
    there are m/2 distinct neurons.

    Source: BL-27, arXiv:1910.01619 eq. (4).

    Args:
        inputs: d.
        width: m, at least 2.
        delta: failure probability.
        form: "paper" or "concentration".

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


def _layer(net: TwoLayer, params: TwoLayerParams, delta: Any, x: Inputs) -> _Layer:
    """Call it inside of a float64 scope."""
    check_inputs(x, allow_zero_rows=True)
    W = jnp.asarray(as_movement(net, delta), jnp.float64)
    check_finite(W, "delta")
    W0, x = jnp.asarray(params.W, jnp.float64), jnp.asarray(x, jnp.float64)
    Z0, Z = (jnp.matmul(x, V.T, precision=_HIGHEST) for V in (W0, W))
    a, size = jnp.asarray(params.a, jnp.float64), float(norm_2p(W, 4))
    return _Layer(Z0, Z, a, size, jnp.sqrt(jnp.sum(x**2, axis=1)))


def _variance(net: TwoLayer, at: _Layer) -> Float64[Array, " n"]:
    slope = net.activation.derivative(1)(at.Z0)
    return jnp.matmul((slope * at.Z) ** 2, at.a**2, precision=_HIGHEST) / net.width


def _check_zero_output(net: TwoLayer, at: _Layer) -> None:
    values = net.activation(at.Z0)
    output = jnp.abs(jnp.matmul(values, at.a, precision=_HIGHEST))
    scale = jnp.matmul(jnp.abs(values), jnp.abs(at.a), precision=_HIGHEST)
    if bool(jnp.any(output > 1e-10 * scale)):
        raise ValueError(
            "`params` must make the network zero, got outputs up to "
            f"{float(jnp.max(output)) / math.sqrt(net.width):.3g}. Use init='symmetric'."
        )
