# SPDX-License-Identifier: Apache-2.0
"""Section 4: the objectives that Algorithms 2 and 3 descend on, with their parts.

These are the regulariser, the spread ratio that it keeps low (Figure 3 (b)), and the Gaussian
smoothing of the ReLU (section 6).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.stats.norm as gaussian
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_finite, check_name, check_positive, is_known
from unlazy.core.entries import entry
from unlazy.nets import ThreeLayer, ThreeLayerParams
from unlazy.papers.shared.learner_data import mean_loss
from unlazy.papers.shared.learner_losses import LearnerLoss, learner_loss


@entry
def three_layer_regularizer(
    delta: ThreeLayerParams,
    *,
    lam_w: int | float,
    lam_v: int | float,
    alpha: int | float = 2,
    scale: int | float | Float[Array, ""] = 1.0,
) -> Float[Array, ""]:
    r"""The penalty on a movement of both hidden layers; it keeps the movement of W spread.

    $$R(\sqrt\lambda W', \sqrt\lambda V') = \lambda_v \lambda \|V'\|_F^2
    + \lambda_w \lambda^{1 + \alpha/2} \|W'\|_{2,2+\alpha}^{2+\alpha}$$

    for the movement `delta`, with `scale` for $\lambda$, the multiplier of the network; the paper
    has $\alpha = 2$. In the dtype of `delta`, differentiable.

    Source: LG-13, arXiv:1811.04918 section 4.

    Example:
        >>> delta = ThreeLayer(inputs=2, widths=2).init(key=jr.key(0))
        >>> print(three_layer_regularizer(delta, lam_w=0.0, lam_v=0.0))
        0.0
    """
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"`alpha` must be a positive number, got alpha={alpha}.")
    for name, value in {"lam_w": lam_w, "lam_v": lam_v}.items():
        if is_known(value) and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"`{name}` must be a number >= 0, got {name}={value}.")
    rows = jnp.sum(delta.W**2, axis=1)
    power = 1 + alpha / 2
    first = jnp.sum(rows**2 if power == 2 else rows**power)
    scale = jnp.asarray(scale, delta.W.dtype)
    return lam_v * scale * jnp.sum(delta.V**2) + lam_w * scale**power * first


@entry
def spread_ratio(W: Float[Array | np.ndarray, "m d"]) -> float:
    r"""How unevenly the rows of a matrix share its norm: 1 if all are alike, m if one has it all.

    $$\frac{m \|W\|_{2,4}^4}{\|W\|_F^4} = \frac{m \sum_i r_i^2}{(\sum_i r_i)^2},
    \qquad r_i = \|w_i\|^2$$

    A Gaussian matrix with d columns has a ratio near $1 + 2/d$.

    Source: LG-14, arXiv:1811.04918 Figure 3 (b).

    Example:
        >>> spread_ratio(np.eye(3)), spread_ratio(np.array([[1.0], [0.0], [0.0]]))
        (1.0, 3.0)
    """
    W = np.asarray(W, np.float64)
    if W.ndim != 2 or W.size == 0:
        raise ValueError(f"`W` must have shape (m, d) with m, d >= 1, got W.shape={W.shape}.")
    check_finite(W, "W")
    largest = np.max(np.abs(W))
    if largest == 0:
        raise ValueError("`W` must not be zero, got a matrix of zeros, which has no spread.")
    r = np.sum((W / largest) ** 2, axis=1)  # scaled, so that no fourth power underflows
    return float(len(r) * np.sum(r**2) / np.sum(r) ** 2)


@entry
def smoothed_relu(
    z: Float[Array | np.ndarray, "*shape"], std: int | float, *, derivative: int = 0
) -> Float[Array, "*shape"]:
    r"""The ReLU averaged over Gaussian noise of standard deviation `std`, or its derivative.

    $$E_{\rho \sim N(0, s^2)}\, \sigma(z + \rho) = z\, \Phi(z/s) + s\, \varphi(z/s)$$

    with the first derivative $\Phi(z/s)$ and the second $\varphi(z/s)/s$; in the dtype of `z`.

    Source: LG-15, arXiv:1811.04918 section 6. The paper's curvature "about 1" is at most
    $1/\sqrt{2\pi}$ at s = 1.

    Example:
        >>> print(smoothed_relu(jnp.zeros(()), 1.0).round(4))
        0.3989
    """
    check_positive(std, "std")
    z = jnp.asarray(z)
    u = z / std
    if derivative == 0:
        return z * gaussian.cdf(u) + std * gaussian.pdf(u)
    if derivative == 1:
        return gaussian.cdf(u)
    if derivative == 2:
        return gaussian.pdf(u) / std
    raise ValueError(f"`derivative` must be 0, 1 or 2, got derivative={derivative}.")


class Movement(NamedTuple):
    """The movements of both hidden layers, which are trained."""

    W: Float[Array, "m1 d"]
    V: Float[Array, "m2 m1"]


class Draw(NamedTuple):
    """One draw of the smoothing noise and of the signs."""

    W: Float[Array, "m1 d"]
    V: Float[Array, "m2 m1"]
    signs: Float[Array, " m1"]  # ones in the first variant


@dataclass(frozen=True)
class ThreeLayerObjective:
    r"""The objective of a three-layer learner for one draw of noise and signs.

    $$L\big(\lambda F(x; W_0 + W^\rho + \Sigma W', V_0 + V^\rho + V' \Sigma), y\big)
    + R(\sqrt\lambda W', \sqrt\lambda V')$$

    with $W^\rho \sim N(0, \sigma_w^2)$, $V^\rho \sim N(0, \sigma_v^2)$ and $\Sigma$ a diagonal of
    independent signs, the same for both layers; variant 1 has $\Sigma = I$. It is the mean over the
    batch, with one draw for all of it, with the `loss` of `two_layer_sgd` and R of
    `three_layer_regularizer`, with its `alpha`. By default $\sigma_w = m_1^{-0.99}$ and
    $\sigma_v = m_2^{-0.51}$. The multiplier of the network itself applies on top of $\lambda$.

    Source: LG-17, arXiv:1811.04918 section 4; the regulariser is LG-13.

    Example:
        >>> objective = ThreeLayerObjective(ThreeLayer(inputs=2, widths=100))
        >>> round(objective.spreads[0], 4)
        0.0105
    """

    net: ThreeLayer
    variant: int = 2
    loss: str | LearnerLoss = "pseudo-huber"
    sigma_w: int | float | None = None
    sigma_v: int | float | None = None
    lam_w: int | float = 0.1
    lam_v: int | float = 1e-3
    alpha: int | float = 2

    @entry
    def __post_init__(self):
        object.__setattr__(self, "loss", learner_loss(self.loss))
        check_name(str(self.variant), ["1", "2"], "variant")
        check_positive(self.alpha, "alpha")
        for name in ("sigma_w", "sigma_v", "lam_w", "lam_v"):
            if (value := getattr(self, name)) is not None:
                check_range(value, name)

    @property
    def spreads(self) -> tuple[float, float]:
        r"""$\sigma_w$ and $\sigma_v$ in use."""
        m1, m2 = self.net.widths
        sigma_w = m1**-0.99 if self.sigma_w is None else self.sigma_w
        sigma_v = m2**-0.51 if self.sigma_v is None else self.sigma_v
        return float(sigma_w), float(sigma_v)

    @entry
    def draw(self, params: ThreeLayerParams, *, key: PRNGKeyArray) -> Draw:
        """Draw noise and signs, in the dtype of `params`."""
        key_noise, key_signs = jr.split(key)
        return self.noise(params, self.signs(params, key=key_signs), key=key_noise)

    @entry
    def noise(self, params: ThreeLayerParams, signs: Array, *, key: PRNGKeyArray) -> Draw:
        """Draw noise, for given signs."""
        key_W, key_V = jr.split(key)
        dtype, (sigma_w, sigma_v) = params.W.dtype, self.spreads
        W = _gaussian(key_W, params.W.shape, sigma_w, dtype)
        return Draw(W, _gaussian(key_V, params.V.shape, sigma_v, dtype), signs)

    @entry
    def signs(self, params: ThreeLayerParams, *, key: PRNGKeyArray) -> Float[Array, " m1"]:
        """Draw signs; ones in the first variant."""
        m1, dtype = self.net.widths[0], params.W.dtype
        return jnp.ones(m1, dtype) if self.variant == 1 else jr.rademacher(key, (m1,), dtype=dtype)

    @entry
    def weights(self, params: ThreeLayerParams, delta: Movement, draw: Draw) -> ThreeLayerParams:
        """The network's parameters for a movement and a draw."""
        s = draw.signs
        W = params.W + draw.W + s[:, None] * delta.W
        V = params.V + draw.V + delta.V * s[None, :]
        return eqx.tree_at(lambda p: (p.W, p.V), params, (W, V))

    @entry
    def data_loss(
        self, params: ThreeLayerParams, batch: tuple[Array, Array], lam: Float[Array, ""] | float
    ) -> Float[Array, ""]:
        """The mean loss of `lam` times the network, at parameters that hold movement and noise."""
        x, y = batch
        return mean_loss(learner_loss(self.loss), lam * self.net(params, x), y)

    @entry
    def __call__(
        self,
        params: ThreeLayerParams,
        delta: Movement,
        batch: tuple[Array, Array],
        draw: Draw,
        lam: Float[Array, ""] | float = 1.0,
    ) -> Float[Array, ""]:
        """The objective at a movement of `params`, on a batch, for one draw."""
        movement = eqx.tree_at(lambda p: (p.W, p.V), params, tuple(delta))
        penalty = three_layer_regularizer(
            movement, lam_w=self.lam_w, lam_v=self.lam_v, alpha=self.alpha, scale=lam
        )
        return self.data_loss(self.weights(params, delta, draw), batch, lam) + penalty


def check_range(value: int | float, name: str, below: int | float = math.inf) -> None:
    """Raise unless `value` is finite, at least 0 and below `below`."""
    check_finite(value, name)
    if not 0 <= value < below:
        limit = "" if math.isinf(below) else f" and below {below}"
        raise ValueError(f"`{name}` must be at least 0{limit}, got {name}={value}.")


def _gaussian(key: PRNGKeyArray, shape: tuple[int, ...], std: float, dtype: Any) -> Array:
    # A switched-off noise costs no random numbers.
    return std * jr.normal(key, shape, dtype) if std > 0 else jnp.zeros(shape, dtype)
