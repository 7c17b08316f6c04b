# SPDX-License-Identifier: Apache-2.0
"""The smoothed, sign-randomised and regularised objectives of a three-layer learner."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_finite, check_name
from unlazy.core.entries import entry
from unlazy.losses import PointwiseLoss, pointwise
from unlazy.nets import ThreeLayer, ThreeLayerParams
from unlazy.papers.allenzhu_li_liang2019.spread import three_layer_regularizer
from unlazy.papers.shared.learner_data import mean_loss


class Movement(NamedTuple):
    """What is trained: the movements of both hidden layers."""

    W: Float[Array, "m1 d"]
    V: Float[Array, "m2 m1"]


class Draw(NamedTuple):
    """One draw of the smoothing noise and of the signs."""

    W: Float[Array, "m1 d"]
    V: Float[Array, "m2 m1"]
    signs: Float[Array, " m1"]  # ones in the first variant


@dataclass(frozen=True)
class ThreeLayerObjective:
    r"""The objective of one draw of noise and signs, for a three-layer learner.

    $$L\big(\lambda F(x; W_0 + W^\rho + \Sigma W', V_0 + V^\rho + V' \Sigma), y\big)
    + R(\sqrt\lambda W', \sqrt\lambda V')$$

    with $W^\rho \sim N(0, \sigma_w^2)$, $V^\rho \sim N(0, \sigma_v^2)$ and $\Sigma$ a diagonal of
    independent signs, the same for both layers; in the first variant $\Sigma = I$. Averaged over
    the batch, with one draw for all of it.

    Source: LG-17, arXiv:1811.04918 section 4; the regulariser is LG-13.

    Args:
        net: the learner; its own multiplier applies on top of $\lambda$.
        variant: 1 without signs, 2 with.
        loss: a name for `losses.pointwise`, or a loss. For k > 1 outputs "pseudo-huber" is that of
            the residuals' norm, $\sqrt{1 + \|f - y\|^2} - 1$, 1-Lipschitz as for one output; others
            are summed over outputs, with a Lipschitz constant of $\sqrt k$ times their own.
        sigma_w: $\sigma_w$; None for $m_1^{-0.99}$.
        sigma_v: $\sigma_v$; None for $m_2^{-0.51}$.
        lam_w: of the regulariser.
        lam_v: of the regulariser.

    Example:
        >>> objective = ThreeLayerObjective(ThreeLayer(inputs=2, widths=100))
        >>> round(objective.spreads[0], 4)
        0.0105
    """

    net: ThreeLayer
    variant: int = 2
    loss: str | PointwiseLoss = "pseudo-huber"
    sigma_w: int | float | None = None
    sigma_v: int | float | None = None
    lam_w: int | float = 0.1
    lam_v: int | float = 1e-3

    @entry
    def __post_init__(self):
        object.__setattr__(self, "loss", pointwise(self.loss))
        check_name(str(self.variant), ["1", "2"], "variant")
        for name in ("sigma_w", "sigma_v", "lam_w", "lam_v"):
            value = getattr(self, name)
            if value is None:
                continue
            check_finite(value, name)
            if value < 0:
                raise ValueError(f"`{name}` must be at least 0, got {name}={value}.")

    @property
    def spreads(self) -> tuple[float, float]:
        r"""$\sigma_w$ and $\sigma_v$ in use."""
        m1, m2 = self.net.widths
        sigma_w = m1**-0.99 if self.sigma_w is None else self.sigma_w
        sigma_v = m2**-0.51 if self.sigma_v is None else self.sigma_v
        return float(sigma_w), float(sigma_v)

    @entry
    def draw(self, params: ThreeLayerParams, *, key: PRNGKeyArray) -> Draw:
        """Fresh noise and signs, in the dtype of `params`."""
        key_noise, key_signs = jr.split(key)
        return self.noise(params, self.signs(params, key=key_signs), key=key_noise)

    @entry
    def noise(self, params: ThreeLayerParams, signs: Array, *, key: PRNGKeyArray) -> Draw:
        """Fresh noise with given signs."""
        key_W, key_V = jr.split(key)
        dtype, (sigma_w, sigma_v) = params.W.dtype, self.spreads
        return Draw(
            W=_gaussian(key_W, params.W.shape, sigma_w, dtype),
            V=_gaussian(key_V, params.V.shape, sigma_v, dtype),
            signs=signs,
        )

    @entry
    def signs(self, params: ThreeLayerParams, *, key: PRNGKeyArray) -> Float[Array, " m1"]:
        """Fresh signs; ones in the first variant."""
        m1, dtype = self.net.widths[0], params.W.dtype
        return jnp.ones(m1, dtype) if self.variant == 1 else jr.rademacher(key, (m1,), dtype=dtype)

    @entry
    def weights(self, params: ThreeLayerParams, delta: Movement, draw: Draw) -> ThreeLayerParams:
        """The network's parameters for that movement, noise and signs."""
        s = draw.signs
        moved = (
            params.W + draw.W + s[:, None] * delta.W,
            params.V + draw.V + delta.V * s[None, :],
        )
        return eqx.tree_at(lambda p: (p.W, p.V), params, moved)

    @entry
    def data_loss(
        self, params: ThreeLayerParams, batch: tuple[Array, Array], lam: Float[Array, ""] | float
    ) -> Float[Array, ""]:
        """The mean loss of the network times `lam`, at finished weights."""
        x, y = batch
        return mean_loss(pointwise(self.loss), lam * self.net(params, x), y)

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
        penalty = three_layer_regularizer(movement, lam_w=self.lam_w, lam_v=self.lam_v, scale=lam)
        return self.data_loss(self.weights(params, delta, draw), batch, lam) + penalty


def _gaussian(key: PRNGKeyArray, shape: tuple[int, ...], std: float, dtype: Any) -> Array:
    # A switched-off noise costs no random numbers.
    return std * jr.normal(key, shape, dtype) if std > 0 else jnp.zeros(shape, dtype)
