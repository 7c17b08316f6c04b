# SPDX-License-Identifier: Apache-2.0
"""Pseudo networks: ReLU learners whose sign patterns are frozen at other weights."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.core.entries import entry
from unlazy.nets.biased_two_layer import BiasedTwoLayer, BiasedTwoLayerParams
from unlazy.nets.checking import check_kind, check_owner, check_rows
from unlazy.nets.three_layer import ThreeLayer, ThreeLayerParams
from unlazy.papers.shared.sign_patterns import SignPattern, check_relu

Learner = BiasedTwoLayer | ThreeLayer
LearnerParams = BiasedTwoLayerParams | ThreeLayerParams


@entry
def pseudo_output(
    net: Learner,
    params: LearnerParams,
    x: Float[Array, "n d"],
    pattern: SignPattern,
    *,
    biases: int | None = None,
) -> Float[Array, "n *c"]:
    r"""The outputs with the signs of every neuron given: the pseudo network g.

    With one and with two hidden layers,

    $$g_r = a_r D_w (W x + b), \qquad g_r = a_r D_v \big( V D_w (W x + b_1) + b_2 \big)$$

    for masks D of 0 and 1 that come from other weights than `params`. It is linear in `W`, and for
    three layers bilinear in (`W`, `V`): the analogue of second order of the tangent kernel. At the
    weights of the pattern itself it equals the network. With `biases` 0 it is $g^{(b)}$ of the
    two-layer and $g^{(b,b)}$ of the three-layer learner, with `biases` 1 the three-layer $g^{(b)}$.
    The pattern of the initialisation and `biases` 0 make it $g^{(0)}$.

    Source: LG-7 and LG-8, arXiv:1811.04918 sections 6 and B. The multiplier of a `ThreeLayer` is
    in it.

    Args:
        net: a ReLU learner.
        params: the weights to evaluate at; `a` and the biases come from here, too.
        x: inputs, one a row.
        pattern: `sign_pattern(net, reference, x)`, at the same `x`.
        biases: how many layers, from the first on, keep their biases; None for all.

    Returns:
        The outputs in the dtype of the parameters, differentiable in them.

    Raises:
        TypeError: another network, such as `ResNet3`, or the parameters of another.
        ValueError: the activation is not ReLU, or `params` or `pattern` are of other sizes.

    Example:
        >>> import jax
        >>> from unlazy.papers.shared import sign_pattern
        >>> net = ThreeLayer(inputs=2, widths=8)
        >>> params, x = net.init(key=jax.random.key(0)), jnp.eye(2)
        >>> g = pseudo_output(net, params, x, sign_pattern(net, params, x))
        >>> bool(jnp.allclose(g, net(params, x)))
        True
    """
    check_kind(net, BiasedTwoLayer, ThreeLayer)
    check_relu(net)
    check_rows(x, net.inputs)
    check_owner(params, net.shapes)
    depth = 1 if isinstance(net, BiasedTwoLayer) else 2
    kept = _checked_biases(biases, depth)
    widths = (net.width,) if isinstance(net, BiasedTwoLayer) else net.widths
    expected = tuple((x.shape[0], width) for width in widths)
    if tuple(mask.shape for mask in pattern.layers) != expected:
        raise ValueError(
            f"`pattern` must have masks of shapes {expected}, "
            f"got {tuple(mask.shape for mask in pattern.layers)}. Take it at the same net and x."
        )
    h = jnp.asarray(x)
    for layer, mask in zip(_layers(params), pattern.layers, strict=True):
        z = h @ layer.weight.T
        if kept > 0:
            z, kept = z + layer.bias[None, :], kept - 1
        h = jnp.where(mask, z, jnp.zeros_like(z))
    outputs = h @ params.a.T
    return net.multiplier * outputs if isinstance(net, ThreeLayer) else outputs


class PseudoTerms(NamedTuple):
    """The parts of a three-layer pseudo network at moved weights; their sum is its output.

    Under a common random sign for each first-layer neuron the cross terms average to zero and the
    quadratic term does not change.
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

    Source: LG-30 (ii), arXiv:1811.04918 Lemma 6.5.

    Args:
        net: a ReLU learner.
        params: $W_c$ and $V_c$, the biases and `a`.
        delta: $W''$ and $V''$; its other parts are not looked at, and may be None.
        x: inputs, one a row.
        pattern: the signs, at any weights.

    Raises:
        TypeError: another network, or the parameters of another.
        ValueError: `params`, `delta` or `pattern` are of other sizes.

    Example:
        >>> import jax
        >>> from unlazy.papers.shared import sign_pattern
        >>> net = ThreeLayer(inputs=2, widths=8)
        >>> params, delta = (net.init(key=jax.random.key(seed)) for seed in (0, 1))
        >>> pattern = sign_pattern(net, params, jnp.eye(2))
        >>> parts = pseudo_terms(net, params, delta, jnp.eye(2), pattern)
        >>> bool(jnp.allclose(parts.constant, net(params, jnp.eye(2))))
        True
    """
    check_kind(net, ThreeLayer)
    check_movement(net, delta)
    still, moved = (params.W, params.V), (delta.W, delta.V)

    def at(W: Array, V: Array, biases: int) -> Float[Array, "n *c"]:
        weights = ThreeLayerParams(W=W, b1=params.b1, V=V, b2=params.b2, a=params.a)
        return pseudo_output(net, weights, x, pattern, biases=biases)

    return PseudoTerms(
        constant=at(*still, 2),
        cross_V=at(still[0], moved[1], 1),
        cross_W=at(moved[0], still[1], 0),
        quadratic=at(*moved, 0),
    )


def check_movement(net: ThreeLayer, delta: ThreeLayerParams) -> None:
    """Raise unless `W` and `V` of `delta` are of this network; its other parts may be None."""
    check_owner(delta, {name: net.shapes[name] for name in ("W", "V")}, "delta")


class _Layer(NamedTuple):
    weight: Array
    bias: Array


def _layers(params: LearnerParams) -> tuple[_Layer, ...]:
    if isinstance(params, BiasedTwoLayerParams):
        return (_Layer(params.W, params.b),)
    return _Layer(params.W, params.b1), _Layer(params.V, params.b2)


def _checked_biases(biases: int | None, depth: int) -> int:
    if biases is None:
        return depth
    if biases not in range(depth + 1):
        raise ValueError(
            f"`biases` must be from 0 to {depth}, the number of hidden layers, got biases={biases}."
        )
    return biases
