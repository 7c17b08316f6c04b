# SPDX-License-Identifier: Apache-2.0
"""Lemmas 6.5 and 6.11, coupling: random signs leave the quadratic part of a three-layer learner."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_key
from unlazy.core.entries import entry
from unlazy.core.random_draws import draw_signs
from unlazy.nets.checking import check_kind, check_owner, check_rows
from unlazy.nets.three_layer import ThreeLayer, ThreeLayerParams
from unlazy.papers.allenzhu_li_liang2019.pseudo_networks import pseudo_output
from unlazy.papers.shared.sign_patterns import SignPattern, sign_pattern


class PseudoTerms(NamedTuple):
    """The parts of a three-layer pseudo network at moved weights; their sum is its output.

    Random signs, one for each first-layer neuron, average the cross terms to zero and leave the
    quadratic term unchanged.
    """

    constant: Float[Array, "n *c"]  # g at the weights that are moved
    cross_V: Float[Array, "n *c"]  # linear: V moves, W does not
    cross_W: Float[Array, "n *c"]  # linear: W moves, V does not
    quadratic: Float[Array, "n *c"]  # both move


@entry
def pseudo_terms(
    net: ThreeLayer,
    params: ThreeLayerParams,
    delta: ThreeLayerParams,
    x: Float[Array, "n d"],
    pattern: SignPattern,
) -> PseudoTerms:
    r"""Expand a three-layer pseudo network in a movement of `W` and `V`, exactly.

    $$g(W_c + W'', V_c + V'') = g(W_c, V_c) + g^{(b)}(W_c, V'') + g^{(b,b)}(W'', V_c)
    + g^{(b,b)}(W'', V'')$$

    where `params` hold $W_c$, $V_c$, the biases and `a`, and `delta` holds $W''$ and $V''$; its
    other parts may be None. The `pattern` may be that of any weights.

    Source: LG-30 (ii), arXiv:1811.04918 Lemma 6.5.

    Example:
        >>> net = ThreeLayer(inputs=2, widths=8)
        >>> params, delta = (net.init(key=jax.random.key(seed)) for seed in (0, 1))
        >>> pattern = sign_pattern(net, params, jnp.eye(2))
        >>> parts = pseudo_terms(net, params, delta, jnp.eye(2), pattern)
        >>> bool(jnp.allclose(parts.constant, net(params, jnp.eye(2))))
        True
    """
    check_kind(net, ThreeLayer)
    _check_movement(net, delta)

    def at(W: Array, V: Array, biases: int) -> Float[Array, "n *c"]:
        return pseudo_output(net, _moved(params, W, V), x, pattern, biases=biases)

    return PseudoTerms(
        constant=at(params.W, params.V, 2),
        cross_V=at(params.W, delta.V, 1),
        cross_W=at(delta.W, params.V, 0),
        quadratic=at(delta.W, delta.V, 0),
    )


def _check_movement(net: ThreeLayer, delta: ThreeLayerParams) -> None:
    """Raise unless `W` and `V` of `delta` are of this network."""
    check_owner(delta, {name: net.shapes[name] for name in ("W", "V")}, "delta")


@entry
def flip_first_layer(
    delta: ThreeLayerParams, signs: Float[Array | np.ndarray, " m1"]
) -> ThreeLayerParams:
    r"""Multiply what enters and what leaves each first-layer neuron by its sign.

    $$(W', V') \mapsto (\Sigma W', V' \Sigma)$$

    The same signs act on the rows of `W` and on the columns of `V`, so that the product $V' D W'$
    is unchanged for every diagonal D, while all that is linear in the movement averages to zero.
    Biases and `a` are left alone.

    Source: LG-17 and LG-30 (ii), arXiv:1811.04918 section 4.

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
    """Root mean squares over the inputs and, for `error`, over the signs."""

    signal: float  # of the quadratic pseudo network
    error: float  # of the network with random signs, minus its start and the signal
    unsigned_error: float  # the same without signs: the size of the linear terms


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

    for the initialisation `params`, the movement `delta` and that many `draws` of the signs. The
    error shrinks with the width; without the signs it grows.

    Source: LG-31, arXiv:1811.04918 Lemma 6.11.

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
    _check_movement(net, delta)
    check_finite(delta.W, "delta.W")
    check_finite(delta.V, "delta.V")
    check_count(draws, "draws")
    check_key(key)
    signs = draw_signs(key, (draws, net.widths[0]), params.W.dtype)
    return SignedCoupling(*map(_rms, _errors(net, params, delta, jnp.asarray(x), signs)))


@partial(jax.jit, static_argnums=0)
def _errors(
    net: ThreeLayer,
    params: ThreeLayerParams,
    delta: ThreeLayerParams,
    x: Float[Array, "n d"],
    signs: Float[Array, "draws m1"],
) -> tuple[Array, Array, Array]:
    """The signal, the errors for every draw of the signs, and the error without signs."""
    start, pattern = net(params, x), sign_pattern(net, params, x)
    signal = pseudo_output(net, _moved(params, delta.W, delta.V), x, pattern, biases=0)

    def error(s: Float[Array, " m1"]) -> Float[Array, "n *c"]:
        step = flip_first_layer(delta, s)
        end = _moved(params, params.W + step.W, params.V + step.V)
        return net(end, x) - start - signal

    # One draw at a time: each is as large as the network.
    return signal, jax.lax.map(error, signs), error(jnp.ones(net.widths[0], params.W.dtype))


def _moved(
    params: ThreeLayerParams, W: Float[Array, "m1 d"], V: Float[Array, "m2 m1"]
) -> ThreeLayerParams:
    return eqx.tree_at(lambda p: (p.W, p.V), params, (W, V))


def _rms(values: Float[Array, "..."]) -> float:
    return float(np.sqrt(np.mean(np.asarray(values, np.float64) ** 2)))
