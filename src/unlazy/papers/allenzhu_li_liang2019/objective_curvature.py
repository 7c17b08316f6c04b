# SPDX-License-Identifier: Apache-2.0
"""Section 6.4: gradient and curvature of the smoothed objective of Algorithms 2 and 3."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.random_draws import draw_signs
from unlazy.curvature import Certificate, certify
from unlazy.nets import ThreeLayerParams
from unlazy.nets.checking import check_kind, check_owner
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import (
    Draw,
    Movement,
    ThreeLayerObjective,
)
from unlazy.papers.shared.learner_data import Data, check_learner_data
from unlazy.papers.shared.learner_losses import check_learner_targets


@entry
def objective_certificate(
    objective: ThreeLayerObjective,
    params: ThreeLayerParams,
    delta: Movement,
    data: Data,
    *,
    lam: float = 1.0,
    signs: int = 8,
    draws: int = 1024,
    gradient_tolerance: float = 1e-3,
    curvature_tolerance: float = 1e-3,
    key: PRNGKeyArray,
) -> Certificate:
    r"""Certify whether the mean objective has negative curvature left at a movement.

    $$L'(\lambda; W', V') = E_{\rho, \Sigma}\, L\big(\lambda F(W_0 + W^\rho + \Sigma W',
    V_0 + V^\rho + V' \Sigma)\big) + R(\sqrt\lambda W', \sqrt\lambda V')$$

    It has derivatives of all orders in $(W', V')$: the noise smooths the kinks. $\Sigma W^\rho$ has
    the distribution of $W^\rho$, so that the noise is one in the movement, for which
    `curvature.certify` has the gradient and the Hessian by Stein's identity. The penalty is not
    smoothed: in its place stands the polynomial whose mean under the noise is R.

    Noisy SGD reaches a point without strong negative curvature, and there Lemma 6.7 leaves no
    descent but the decay. In variant 2 no movement, $W' = V' = 0$, is stationary.

    Source: LG-24, arXiv:1811.04918 section 6.4; LG-15 for the smoothing.

    Args:
        objective: with both noises above 0 and `alpha` 2.
        params: the initialisation.
        delta: $W'$ and $V'$.
        data: `(x, y)`.
        lam: $\lambda$.
        signs: draws of $\Sigma$ in variant 2, an even number: they come in pairs $\pm\Sigma$. The
            certificate is about the mean over these.
        draws: of the noise.
        gradient_tolerance: as in `curvature.certify`, for the plain norm.
        curvature_tolerance: likewise.
        key: for signs and noise.

    Example:
        >>> from unlazy.nets import ThreeLayer
        >>> net = ThreeLayer(inputs=1, widths=2)
        >>> params, data = net.init(key=jax.random.key(0)), (jnp.ones((1, 1)), jnp.ones(1))
        >>> still = Movement(jnp.zeros((2, 1)), jnp.zeros((2, 2)))
        >>> found = objective_certificate(
        ...     ThreeLayerObjective(net), params, still, data, draws=64, key=jax.random.key(1))
        >>> print(found.gradient_norm < 1e-12, found.curvature.parameters)
        True 6
    """
    check_key(key)
    check_kind(objective, ThreeLayerObjective, name="objective")
    check_positive(lam, "lam")
    check_count(signs, "signs", least=2)
    net = objective.net
    check_owner(params, net.shapes)
    check_owner(delta, {part: net.shapes[part] for part in ("W", "V")}, "delta")
    batch = check_learner_data(data, net.output_shape[:-1], params.W.dtype)
    check_learner_targets(objective.loss, batch[1])
    if objective.alpha != 2:
        raise ValueError(
            f"`objective` must have alpha=2, got alpha={objective.alpha}: the other penalties are "
            "the mean of no polynomial."
        )
    for name, spread in zip(("sigma_w", "sigma_v"), objective.spreads, strict=True):
        check_positive(spread, name)
    key_signs, key_noise = jax.random.split(key)
    half = draw_signs(key_signs, (signs // 2, net.widths[0]), params.W.dtype)
    rows = jnp.concatenate([half, -half]) if objective.variant == 2 else jnp.ones_like(half[:1])
    return certify(
        MeanObjective(objective, params, rows, lam),
        delta,
        data=batch,
        smoothing=Movement(*objective.spreads),  # pyright: ignore[reportArgumentType]  # numbers
        draws=draws,
        gradient_tolerance=gradient_tolerance,
        curvature_tolerance=curvature_tolerance,
        key=key_noise,
    )


class MeanObjective(eqx.Module):
    """The objective without noise, as a mean over signs, with the penalty that noise turns to R."""

    objective: ThreeLayerObjective = eqx.field(static=True)
    params: ThreeLayerParams
    signs: Float[Array, "s m1"]
    lam: float = eqx.field(static=True)

    def __call__(self, delta: Movement, batch: tuple[Array, Array]) -> Float[Array, ""]:
        """The value at a movement, on a batch."""
        zero = Movement(jnp.zeros_like(delta.W), jnp.zeros_like(delta.V))

        def one(signs: Float[Array, " m1"]) -> Float[Array, ""]:
            weights = self.objective.weights(self.params, delta, Draw(*zero, signs))
            return self.objective.data_loss(weights, batch, self.lam)

        return jnp.mean(jax.vmap(one)(self.signs)) + self._penalty(delta)

    def _penalty(self, delta: Movement) -> Float[Array, ""]:
        (sigma_w, sigma_v), d = self.objective.spreads, np.shape(delta.W)[1]
        r = jnp.sum(delta.W**2, axis=1)
        # E |w + rho|^4 = r^2 + (2 d + 4) sigma^2 r + d (d + 2) sigma^4: the Hermite polynomial.
        first = jnp.sum(r**2 - (2 * d + 4) * sigma_w**2 * r + d * (d + 2) * sigma_w**4)
        second = jnp.sum(delta.V**2 - sigma_v**2)
        of_W = self.objective.lam_w * self.lam**2 * first
        return of_W + self.objective.lam_v * self.lam * second
