# SPDX-License-Identifier: Apache-2.0
"""Sections 6 and B, pseudo networks: learners whose signs are frozen at other weights."""

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
    r"""The outputs of the pseudo network g, in which the signs of every neuron are given.

    With one and with two hidden layers,

    $$g_r = a_r D_w (W x + b), \qquad g_r = a_r D_v \big( V D_w (W x + b_1) + b_2 \big)$$

    for masks D of 0 and 1 that come from other weights than `params`. It is linear in `W`, and for
    three layers bilinear in (`W`, `V`): the second-order analogue of the tangent kernel. At the
    weights of the pattern itself it equals the network. With `biases` 0 it is $g^{(b)}$ of the
    two-layer and $g^{(b,b)}$ of the three-layer learner, with `biases` 1 the three-layer $g^{(b)}$.
    The pattern of the initialisation and `biases` 0 make it $g^{(0)}$.

    Source: LG-7 and LG-8, arXiv:1811.04918 sections 6 and B. The multiplier of a `ThreeLayer` is
    applied, too.

    Args:
        net: a ReLU learner.
        params: the weights to evaluate at; `a` and the biases come from here, too.
        x: inputs, one per row.
        pattern: `sign_pattern(net, reference, x)`, at the same `x`.
        biases: how many layers, from the first on, keep their biases; None for all.

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
    widths = (net.width,) if isinstance(net, BiasedTwoLayer) else net.widths
    kept, depth = biases, len(widths)
    if kept is None:
        kept = depth
    if kept not in range(depth + 1):
        raise ValueError(
            f"`biases` must be from 0 to {depth}, the number of hidden layers, got biases={biases}."
        )
    expected = tuple((x.shape[0], width) for width in widths)
    if tuple(mask.shape for mask in pattern.layers) != expected:
        raise ValueError(
            f"`pattern` must have masks of shapes {expected}, "
            f"got {tuple(mask.shape for mask in pattern.layers)}. Take it at the same net and x."
        )
    h = jnp.asarray(x)
    for i, ((weight, bias), mask) in enumerate(zip(layers(params), pattern.layers, strict=True)):
        z = h @ weight.T
        if i < kept:
            z = z + bias[None, :]
        h = jnp.where(mask, z, jnp.zeros_like(z))
    outputs = h @ params.a.T
    return net.multiplier * outputs if isinstance(net, ThreeLayer) else outputs


def layers(params: LearnerParams) -> tuple[tuple[Array, Array], ...]:
    """Weights and biases, layer by layer."""
    if isinstance(params, BiasedTwoLayerParams):
        return ((params.W, params.b),)
    return (params.W, params.b1), (params.V, params.b2)
