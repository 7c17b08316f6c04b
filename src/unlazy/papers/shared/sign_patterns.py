# SPDX-License-Identifier: Apache-2.0
"""Which neurons of a ReLU learner are active at each input, and how many change."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int

from unlazy.core.entries import entry
from unlazy.nets.biased_two_layer import BiasedTwoLayer, BiasedTwoLayerParams
from unlazy.nets.checking import check_kind
from unlazy.nets.resnet3 import ResNet3, ResNet3Params
from unlazy.nets.three_layer import ThreeLayer, ThreeLayerParams


class SignPattern(eqx.Module):
    """The active neurons at each input, for every hidden layer from the first on."""

    layers: tuple[Bool[Array, "n _"], ...]


@entry
def sign_pattern(
    net: BiasedTwoLayer | ThreeLayer | ResNet3,
    params: BiasedTwoLayerParams | ThreeLayerParams | ResNet3Params,
    x: Float[Array, "n d"],
) -> SignPattern:
    r"""The active neurons at each input.

    $$D_w = 1[W x + b_1 \ge 0], \qquad D_v = 1[V D_w (W x + b_1) + b_2 \ge 0]$$

    with $D_v$ for the second layer of a `ThreeLayer`; in a `ResNet3` that layer also reads the
    input, and has $V A$ in the place of V in the bottleneck form. A neuron at exactly 0 is active,
    in keeping with $\sigma'(0) = 1$.

    Source: LG-7 and LG-8, arXiv:1811.04918 sections 6 and B; RN-26, arXiv:1905.10337.

    Example:
        >>> import jax.numpy as jnp
        >>> net = BiasedTwoLayer(inputs=1, width=2)
        >>> params = BiasedTwoLayerParams(
        ...     W=jnp.array([[1.0], [-1.0]]), b=jnp.zeros(2), a=jnp.ones(2)
        ... )
        >>> print(sign_pattern(net, params, jnp.ones((1, 1))).layers[0])
        [[ True False]]
    """
    check_kind(net, BiasedTwoLayer, ThreeLayer, ResNet3)
    check_relu(net)
    hidden = net.hidden(params, x)  # pyright: ignore[reportArgumentType]  # checked by the network
    layers = hidden if isinstance(hidden, tuple) else (hidden,)
    return SignPattern(tuple(z >= 0 for z in layers))


@entry
def sign_changes(first: SignPattern, second: SignPattern) -> tuple[Int[np.ndarray, " n"], ...]:
    """The number of neurons that are active in one pattern only, for each hidden layer and input.

    Source: LG-16, arXiv:1811.04918 section 6.

    Example:
        >>> import jax.numpy as jnp
        >>> on, off = jnp.array([[True, True]]), jnp.array([[True, False]])
        >>> print(sign_changes(SignPattern((on,)), SignPattern((off,))))
        (array([1]),)
    """
    return tuple(changed.sum(axis=1) for changed in _changed(first, second))


@entry
def flipped_fractions(
    first: SignPattern, second: SignPattern
) -> tuple[Float64[np.ndarray, " n"], ...]:
    """The fraction of neurons that `sign_changes` counts, for each hidden layer and input.

    Source: LG-16, arXiv:1811.04918 section 6.

    Example:
        >>> import jax.numpy as jnp
        >>> on, off = jnp.array([[True, True]]), jnp.array([[True, False]])
        >>> print(flipped_fractions(SignPattern((on,)), SignPattern((off,))))
        (array([0.5]),)
    """
    return tuple(changed.mean(axis=1) for changed in _changed(first, second))


def check_relu(net: BiasedTwoLayer | ThreeLayer | ResNet3) -> None:
    """Raise unless the activation is ReLU, whose derivative is the sign pattern."""
    if net.activation.name != "relu" or net.activation.shift != 0:
        raise ValueError(
            "`net` must have the activation relu, whose derivative is a sign pattern, "
            f"got net.activation={net.activation}. Use taylor.terms for others."
        )


def _changed(first: SignPattern, second: SignPattern) -> list[Bool[np.ndarray, "n _"]]:
    shapes = [[mask.shape for mask in pattern.layers] for pattern in (first, second)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"`second` must have the shapes of `first`, {shapes[0]}, got {shapes[1]}. "
            "Take both at the same inputs."
        )
    pairs = zip(first.layers, second.layers, strict=True)
    return [np.asarray(mask) != np.asarray(other) for mask, other in pairs]
