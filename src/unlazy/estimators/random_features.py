# SPDX-License-Identifier: Apache-2.0
"""Random features of the kernels of infinitely wide networks, layer by layer."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from unlazy.activations import Activation
from unlazy.core.float64 import float64

_ROWS = 64, 512, 4096  # rows at a time: programs for three shapes
_matmul = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


class Layer(NamedTuple):
    """The draws of a layer, in float32: they are what they are, whatever is computed with them."""

    W: Float32[np.ndarray, "q e"]  # of the features of its outputs, then of its slopes
    S: Float32[np.ndarray, "s t"]  # signs, which multiply the features of the layers before


class Spec(NamedTuple):
    """What is compiled into the features."""

    sigma: Activation
    weight_deviation: float
    bias_deviation: float


def drawn_layers(
    inputs: int, parts: tuple[int, int], depth: int, biased: bool, random: np.random.RandomState
) -> list[Layer]:
    """Gaussian weights and signs for `parts`: features of outputs, and of slopes."""
    outputs, slopes = parts
    covariance = tangent = inputs + biased  # lengths of u and theta
    layers = []
    for _ in range(depth):
        W = random.standard_normal((outputs + slopes, covariance)).astype(np.float32)
        S = 2 * random.randint(0, 2, (slopes, tangent)).astype(np.float32) - 1
        layers.append(Layer(W, S))
        covariance, tangent = outputs + biased, outputs + biased + slopes
    return layers


def random_features(
    spec: Spec, layers: list[Layer], X: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n k"]:
    """The features of the rows, in their dtype; one program for all blocks of them."""
    size = next((rows for rows in _ROWS if len(X) <= rows), _ROWS[-1])
    parts = []
    with float64(X.dtype == np.float64):
        held = jax.device_put([Layer(*(part.astype(X.dtype) for part in one)) for one in layers])
        for start in range(0, len(X), size):
            rows = X[start : start + size]
            filled = np.pad(rows, ((0, size - len(rows)), (0, 0)))
            parts.append(np.asarray(_features(spec, held, filled))[: len(rows)])
    return np.concatenate(parts)


@functools.partial(jax.jit, static_argnums=0)
def _features(spec: Spec, layers: list[Layer], x: Float[Array, "n d"]) -> Float[Array, "n k"]:
    x = jnp.asarray(x)
    u = theta = _with_bias(spec, spec.weight_deviation / x.shape[1] ** 0.5 * x)
    slope = spec.sigma.derivative(1) if len(layers[0].S) else None
    for layer in layers:
        slopes = len(layer.S)
        outputs = len(layer.W) - slopes
        z = _matmul(u, jnp.asarray(layer.W).T)
        u = _with_bias(spec, spec.weight_deviation / outputs**0.5 * spec.sigma(z[:, :outputs]))
        if slope is None:
            theta = u
            continue
        along = slope(z[:, outputs:]) * _matmul(theta, jnp.asarray(layer.S).T)
        theta = jnp.concatenate([u, spec.weight_deviation / slopes**0.5 * along], axis=1)
    return theta


def _with_bias(spec: Spec, u: Float[Array, "n e"]) -> Float[Array, "n f"]:
    """The features of a covariance to which the variance of the bias is added."""
    if not spec.bias_deviation:
        return u
    bias = jnp.full((len(u), 1), spec.bias_deviation, u.dtype)
    return jnp.concatenate([u, bias], axis=1)
