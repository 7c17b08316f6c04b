# SPDX-License-Identifier: Apache-2.0
"""How a three-layer learner with random signs couples to its quadratic pseudo network."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_key
from unlazy.core.draws import draw_signs
from unlazy.core.entries import entry
from unlazy.nets.checking import check_kind, check_owner, check_rows
from unlazy.nets.three_layer import ThreeLayer, ThreeLayerParams
from unlazy.papers.allenzhu_li_liang2019.pseudo_networks import check_movement, pseudo_output
from unlazy.papers.shared.sign_patterns import sign_pattern


@entry
def flip_first_layer(
    delta: ThreeLayerParams, signs: Float[Array | np.ndarray, " m1"]
) -> ThreeLayerParams:
    r"""Multiply what enters and what leaves each first-layer neuron by its sign.

    $$(W', V') \mapsto (\Sigma W', V' \Sigma)$$

    The same signs act on the rows of `W` and on the columns of `V`, so that the product $V' D W'$
    is unchanged for every diagonal D, while all that is linear in the movement averages to zero.

    Source: LG-17 and LG-30 (ii), arXiv:1811.04918 section 4.

    Args:
        delta: a movement; its biases and `a` are left alone.
        signs: one for each first-layer neuron.

    Example:
        >>> delta = ThreeLayer(inputs=1, widths=2).init(key=jax.random.key(0))
        >>> moved = flip_first_layer(delta, jnp.array([1.0, -1.0]))
        >>> print(moved.W[1] == -delta.W[1], jnp.allclose(moved.V @ moved.W, delta.V @ delta.W))
        [ True] True
    """
    width = delta.W.shape[0]
    if jnp.shape(signs) != (width,):
        raise ValueError(
            f"`signs` must have shape ({width},), one for each first-layer neuron, "
            f"got signs.shape={jnp.shape(signs)}."
        )
    s = jnp.asarray(signs, delta.W.dtype)
    moved = (s[:, None] * delta.W, delta.V * s[None, :])
    return eqx.tree_at(lambda params: (params.W, params.V), delta, moved)


class SignedCoupling(eqx.Module):
    """Root mean squares over inputs and, for the error, over signs."""

    signal: float  # of the quadratic pseudo network
    error: float  # of the network with random signs, less its start and the signal
    unsigned_error: float  # the same without signs: what the linear terms amount to


@entry
def signed_coupling(
    net: ThreeLayer,
    params: ThreeLayerParams,
    delta: ThreeLayerParams,
    x: Float[Array, "n d"],
    *,
    draws: int = 20,
    key: PRNGKeyArray,
) -> SignedCoupling:
    r"""How far the network with random signs is from its start plus the quadratic pseudo network.

    $$f(x; W_0 + \Sigma W', V_0 + V' \Sigma) = f(x; W_0, V_0) + g^{(0)}(x; W', V') + \text{error}$$

    The error shrinks with the width; without the signs it grows.

    Source: LG-31, arXiv:1811.04918 Lemma 6.11.

    Args:
        net: a ReLU learner.
        params: the initialisation.
        delta: $W'$ and $V'$.
        x: inputs, one a row.
        draws: of the signs.
        key: for the signs.

    Raises:
        TypeError: another network, such as `BiasedTwoLayer`, or the parameters of another.
        ValueError: `params`, `delta` or `x` are of other sizes, or `delta` is not finite.

    Example:
        >>> net = ThreeLayer(inputs=2, widths=8)
        >>> params = net.init(key=jax.random.key(0))
        >>> zero = jax.tree.map(jnp.zeros_like, params)
        >>> signed_coupling(net, params, zero, jnp.eye(2), key=jax.random.key(1)).error
        0.0
    """
    check_kind(net, ThreeLayer)
    check_rows(x, net.inputs)
    check_owner(params, net.shapes)
    check_movement(net, delta)
    check_finite(delta.W, "delta.W")
    check_finite(delta.V, "delta.V")
    check_count(draws, "draws")
    check_key(key)
    ones = jnp.ones(net.widths[0], params.W.dtype)
    signs = draw_signs(key, (draws, net.widths[0]), params.W.dtype)
    signal, errors, unsigned = _errors(net, params, delta, jnp.asarray(x), signs, ones)
    return SignedCoupling(_rms(signal), _rms(errors), _rms(unsigned))


@partial(jax.jit, static_argnums=0)
def _errors(
    net: ThreeLayer,
    params: ThreeLayerParams,
    delta: ThreeLayerParams,
    x: Float[Array, "n d"],
    signs: Float[Array, "draws m1"],
    ones: Float[Array, " m1"],
) -> tuple[Array, Array, Array]:
    """The signal, the errors for every draw of the signs, and that without signs."""
    start, pattern = net(params, x), sign_pattern(net, params, x)
    signal = pseudo_output(net, _moved(params, delta.W, delta.V), x, pattern, biases=0)

    def error(s: Float[Array, " m1"]) -> Float[Array, "n *c"]:
        step = flip_first_layer(delta, s)
        end = _moved(params, params.W + step.W, params.V + step.V)
        return net(end, x) - start - signal

    # One draw at a time: each is as large as the network.
    return signal, jax.lax.map(error, signs), error(ones)


def _moved(
    params: ThreeLayerParams, W: Float[Array, "m1 d"], V: Float[Array, "m2 m1"]
) -> ThreeLayerParams:
    return eqx.tree_at(lambda p: (p.W, p.V), params, (W, V))


def _rms(values: Float[Array, "..."]) -> float:
    return float(np.sqrt(np.mean(np.asarray(values, np.float64) ** 2)))
