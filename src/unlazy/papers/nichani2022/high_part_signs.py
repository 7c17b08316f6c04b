# SPDX-License-Identifier: Apache-2.0
"""The heuristic of section 5: random signs on the part of a movement that memorises."""

from jaxtyping import Array, Float

from unlazy.core.entries import entry
from unlazy.escape import Directions, flip
from unlazy.escape.good_directions.geometry import Movement
from unlazy.escape.signs import Signs


@entry
def signed_high_part(geometry: Directions, W: Movement, signs: Signs) -> Float[Array, "m d"]:
    r"""The movement with signs on the rows of its high part alone.

    $$W_S = P_{\le k} W + S\, P_{>k} W$$

    Over random signs S the linear term keeps what it has learnt and loses what it has memorised,
    and the quadratic term keeps both parts and loses their product:

    $$\mathbb E_S f_L(x; W_S) = f_L(x; P_{\le k} W), \qquad
    \mathbb E_S f_Q(x; W_S) = f_Q(x; P_{\le k} W) + f_Q(x; P_{>k} W),$$

    $$\mathrm{Var}_S f_L(x; W_S) = \frac1m \sum_r \sigma'(w_{0,r}^\top x)^2 (h_r^\top x)^2, \qquad
    H = P_{>k} W$$

    for output weights $\pm 1$. So a network that fits by both terms has a good solution nearby with
    a small linear term in the harmful directions, which is why penalties on them do no harm.

    Source: arXiv:2206.03688 section 5; there S multiplies from the right, as columns are neurons.
    The means and the variance are derived here.

    Args:
        geometry: of `escape.directions`.
        W: the movement.
        signs: one per neuron, from `escape.random_signs`; any multipliers may take their place.

    Example:
        >>> import jax, unlazy as ul
        >>> import jax.numpy as jnp
        >>> net = ul.nets.TwoLayer(4, 20, ul.activation("sigmoid", shift=1.5), init="sphere")
        >>> x = ul.data.sphere(30, 4, radius=2.0, key=jax.random.key(1))
        >>> geometry = ul.escape.directions(net, net.init(key=jax.random.key(0)), x, degree=1)
        >>> W = jax.random.normal(jax.random.key(2), (20, 4))
        >>> signs = ul.escape.random_signs(20, key=jax.random.key(3))
        >>> print(signed_high_part(geometry, W, signs).shape)
        (20, 4)
        >>> bool(jnp.allclose(signed_high_part(geometry, W, jnp.ones(20)), W, atol=1e-5))
        True
    """
    return geometry.low(W) + flip(geometry.high(W), signs)
