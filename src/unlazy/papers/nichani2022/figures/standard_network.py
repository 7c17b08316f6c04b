# SPDX-License-Identifier: Apache-2.0
"""The standard two-layer network of the later figures, and its infinitely wide kernel."""

import math

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy import data, kernels
from unlazy.core.float64 import float64
from unlazy.nets import BiasedTwoLayer
from unlazy.nets.biased_two_layer import BiasedTwoLayerParams


def standard_init(
    net: BiasedTwoLayer, *, bias_std: float = 0.0, key: PRNGKeyArray
) -> BiasedTwoLayerParams:
    """W ~ N(0, 1/d), a ~ N(0, 1/m) and biases of that standard deviation."""
    key_W, key_b, key_a = jr.split(key, 3)
    m, d = net.width, net.inputs
    return BiasedTwoLayerParams(
        W=jr.normal(key_W, (m, d)) / math.sqrt(d),
        b=bias_std * jr.normal(key_b, (m,)),
        a=jr.normal(key_a, (m,)) / math.sqrt(m),
    )


def standard_kernel(
    x1: Float[Array, "n1 d"], x2: Float[Array, "n2 d"] | None = None, *, width: int
) -> Float64[Array, "n1 n2"]:
    r"""The tangent kernel of a wide ReLU network of that init, all three parts trained.

    $$K(x, x') = m\, E[\sigma(u) \sigma(v)] + (x^\top x' + 1)\, E[\sigma'(u) \sigma'(v)]$$

    for Gaussian u, v of the covariance of $w^\top x$ and $w^\top x'$, at biases of zero.

    Source: AR-6, arXiv:1901.08584; the sum over the three parts is the chain rule.
    """
    d = x1.shape[1]
    readout = kernels.nngp(x1, x2, weight_variance=1.0)
    hidden = kernels.ntk(x1, x2, weight_variance=1.0, trained="hidden")
    angles = kernels.arcsin(x1, x2)
    with float64():  # outside of it the sum would be rounded to float32
        # E[sigma' sigma'] alone is a quarter plus the arcsine of the cosine over 2 pi.
        return width * readout + d * hidden + 0.25 + angles / (2 * math.pi)


def dense_target(d: int, *, key: PRNGKeyArray) -> data.Target:
    """A random dense quadratic form plus a cubic ridge, half the mean square each."""
    key_A, key_beta = jr.split(key)
    return data.target(
        "quadratic-plus-cubic",
        matrix=jr.normal(key_A, (d, d)),
        beta=jnp.asarray(jr.normal(key_beta, (d,))),
    )
