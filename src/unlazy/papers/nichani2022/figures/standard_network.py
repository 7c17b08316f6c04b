# SPDX-License-Identifier: Apache-2.0
"""The standard two-layer network of the later figures, its task, and its infinitely wide kernel."""

import math
from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy import data, kernels
from unlazy.core.float64 import float64
from unlazy.nets import BiasedTwoLayer
from unlazy.nets.biased_two_layer import BiasedTwoLayerParams


class StandardTask(NamedTuple):
    """Samples of one target, and the start of a network."""

    params: BiasedTwoLayerParams
    x: Float[Array, "*s n d"]
    y: Float[Array, "*s n"]
    x_test: Float[Array, "*s t d"]
    y_test: Float[Array, "*s t"]


def standard_task(
    net: BiasedTwoLayer, n: int, n_test: int, *, bias_std: float = 0.0, key: PRNGKeyArray
) -> StandardTask:
    """Samples on the sphere of radius sqrt(d), labelled by `dense_target`, and a start of `net`."""
    key_target, key_x, key_test, key_net = jr.split(key, 4)
    d = net.inputs
    target, start = dense_target(d, key=key_target), standard_init(net, bias_std, key=key_net)
    x, new = (
        data.sphere(count, d, radius=math.sqrt(d), key=own)
        for count, own in ((n, key_x), (n_test, key_test))
    )
    return StandardTask(start, x, jnp.asarray(target(x)), new, jnp.asarray(target(new)))


def standard_init(
    net: BiasedTwoLayer, bias_std: float = 0.0, *, key: PRNGKeyArray
) -> BiasedTwoLayerParams:
    """W ~ N(0, 1/d), a ~ N(0, 1/m) and biases of standard deviation `bias_std`."""
    key_W, key_b, key_a = jr.split(key, 3)
    m, d = net.width, net.inputs
    return BiasedTwoLayerParams(
        W=jr.normal(key_W, (m, d)) / math.sqrt(d),
        b=bias_std * jr.normal(key_b, (m,)),
        a=jr.normal(key_a, (m,)) / math.sqrt(m),
    )


def dense_target(d: int, *, key: PRNGKeyArray) -> data.Target:
    """A random dense quadratic form plus a cubic ridge, each with half the mean square."""
    key_A, key_beta = jr.split(key)
    return data.target(
        "quadratic-plus-cubic", matrix=jr.normal(key_A, (d, d)), beta=jr.normal(key_beta, (d,))
    )


def authors_init(net: BiasedTwoLayer, *, key: PRNGKeyArray) -> BiasedTwoLayerParams:
    """Uniform weights of variance 1/2 over the number of inputs of their layer, biases of zero."""
    key_W, key_a = jr.split(key)
    m, d = net.width, net.inputs

    def uniform(own: PRNGKeyArray, *shape: int) -> Float[Array, "..."]:
        bound = math.sqrt(3 / (2 * shape[-1]))  # the last axis runs over the inputs
        return jr.uniform(own, shape, minval=-bound, maxval=bound)

    return BiasedTwoLayerParams(W=uniform(key_W, m, d), b=jnp.zeros(m), a=uniform(key_a, m))


def authors_target(d: int, *, key: PRNGKeyArray) -> data.Target:
    """The target x'Ax / sqrt(675) + He_3(beta.x) / sqrt(6), A = diag(i > d/2) for i from 0 on.

    For Gaussian inputs the second part has variance one; the first has a mean of about d/52 and a
    variance of about d/675, so that large dimensions are mostly about the mean.
    """
    beta = jr.normal(key, (d,))
    beta = beta / jnp.linalg.norm(beta)
    return data.target(
        "low-degree-plus-sparse",
        linear=-3 / math.sqrt(6) * beta,
        quadratic=np.diag((np.arange(d) > d / 2) / math.sqrt(675)),
        alphas=[1 / math.sqrt(6)],
        betas=beta[None],
        powers=[3],
    )


def standard_kernel(
    x1: Float[Array, "n1 d"], x2: Float[Array, "n2 d"] | None = None, *, width: int
) -> Float64[Array, "n1 n2"]:
    r"""The tangent kernel of a wide ReLU network of `standard_init`, all three parts trained.

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
