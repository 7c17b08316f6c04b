# SPDX-License-Identifier: Apache-2.0
"""Theorem 4 at a point: the regularised randomised risk there against what the theorem promises."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_inputs, check_labels
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape.norms import norm_2p
from unlazy.losses import PointwiseLoss
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.bai_lee2020.clean_risk import QuadraticRisk
from unlazy.papers.bai_lee2020.landscape import LandscapeTheory, Movement, landscape_theory
from unlazy.papers.bai_lee2020.randomized import (
    RandomizedLandscape,
    check_movement,
    randomized_landscape,
)


class StationaryRisk(eqx.Module):
    """The regularised randomised risk at a movement, beside the promise of Theorem 4."""

    theory: LandscapeTheory  # the penalty of the theorem, and what it promises
    landscape: RandomizedLandscape  # with that penalty
    opt: float  # the clean risk of the comparator
    norm: float  # ||W||_{2,4}
    norm_constant: float  # the C' with which the theorem's bound on the norm is an equality

    @property
    def holds(self) -> bool:
        """Whether the risk is within its promise, up to four standard errors."""
        return self.landscape.risk <= self.theory.risk + 4 * self.landscape.risk_error


@entry
def stationary_risk(
    net: TwoLayer,
    params: TwoLayerParams,
    W: Movement,
    W_star: Movement,
    x: Float[Array | np.ndarray, "n d"],
    y: Float[Array | np.ndarray, " n"],
    *,
    epsilon: int | float,
    gamma: int | float,
    loss: str | PointwiseLoss = "logistic",
    pairs: int | None = 200,
    key: PRNGKeyArray | None = None,
) -> StationaryRisk:
    r"""Theorem 4 as an experiment: $L_\lambda$ at a movement, with the theorem's own penalty.

    $$L_\lambda(W) \le (1 + \gamma)\,\mathrm{OPT} + \varepsilon, \qquad
    \|W\|_{2,4}^8 \le C' \|W^*\|_{2,4}^8 \Big(1 + \frac{2\,\mathrm{OPT} + \varepsilon}
    {2\gamma\,\mathrm{OPT} + \varepsilon}\Big), \qquad \mathrm{OPT} = L^Q(W^*)$$

    at every second-order stationary point W of $L_\lambda$ on a wide network. To find one, descend
    on `escape.RandomizedRisk` with the `strength` of `landscape_theory` for this comparator, away
    from the saddle at zero, and certify the end by `curvature.certify`. Where the inequality of
    Corollary 3 holds with `epsilon`, which `landscape.excess` measures, both follow, the second
    with $C' = 378 (14/5)^3$: the paper leaves $C'$ open.

    Source: BL-46, arXiv:1910.01619 Theorem 4.

    Arguments are those of `randomized_landscape`; `epsilon` and `gamma` are those of
    `landscape_theory`.

    Example:
        >>> import jax
        >>> net = TwoLayer(2, 4, "relu3", init="symmetric")
        >>> params, y = net.init(key=jax.random.key(0)), np.array([1.0, -1.0])
        >>> W = np.ones((4, 2))
        >>> found = stationary_risk(
        ...     net, params, W, W, np.eye(2), y, epsilon=0.1, gamma=1.0, pairs=None)
        >>> print(found.holds, round(found.norm, 4))
        True 2.0
    """
    check_inputs(x)
    check_labels(y, len(x), single=True)
    check_movement(params, W, "W")
    check_movement(params, W_star, "W_star")
    if not np.any(np.asarray(W_star)):
        raise ValueError("`W_star` must move a neuron, got a movement of zeros.")
    with float64():
        wide = TwoLayerParams(*(jnp.asarray(v, jnp.float64) for v in (params.W, params.a)))
        clean = QuadraticRisk.of(net, wide, x, y, loss=loss)
        opt = float(clean.data_term(jnp.asarray(W_star, jnp.float64)))
        norms = [float(norm_2p(jnp.asarray(V, jnp.float64), 4)) for V in (W, W_star)]
    theory = landscape_theory(
        opt=opt,
        norm_star=norms[1],
        epsilon=epsilon,
        gamma=gamma,
        d=net.inputs,
        m=net.width,
        radius=float(np.linalg.norm(np.asarray(x, np.float64), axis=1).max()),
    )
    landscape = randomized_landscape(
        *(net, params, W, W_star, x, y),
        loss=loss,
        strength=theory.strength,
        pairs=pairs,
        key=key,
    )
    # The theory's norm has C' = 1.
    return StationaryRisk(theory, landscape, opt, norms[0], (norms[0] / theory.norm) ** 8)
