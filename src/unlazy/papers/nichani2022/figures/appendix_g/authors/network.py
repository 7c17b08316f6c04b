# SPDX-License-Identifier: Apache-2.0
"""The convolutional network of the authors' code, and two classes of CIFAR-10 as it sees them."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float32, PRNGKeyArray

from unlazy.data.image_sets import read_image_set

# Mean and deviation of the pixels of CIFAR-10, by colour.
_MEAN = np.array([125.30691805, 122.95039414, 113.86538318], np.float32)
_DEVIATION = np.array([62.99321928, 62.08870764, 66.70489964], np.float32)


class Layer(NamedTuple):
    """A convolution, or the readout."""

    kernel: Float[Array, "..."]
    bias: Float[Array, " c"]


Network = list[Layer]
"""The convolutions, and the readout last."""


class Samples(NamedTuple):
    """Standardised images, and labels of plus and minus one."""

    x: Float32[np.ndarray, "n 32 32 3"]
    y: Float32[np.ndarray, " n"]


def init(channels: int, layers: int, side: int, *, key: PRNGKeyArray) -> Network:
    """Uniform weights of variance 1/2 over the number of inputs of a neuron, biases of zero."""
    keys = jr.split(key, layers + 1)
    found, depth = [], 3
    for own in keys[:-1]:
        found.append(_layer((3, 3, depth, channels), 9 * depth, key=own))
        depth, side = channels, -(-side // 2)
    flat = side * side * depth
    return [*found, _layer((flat, 1), flat, key=keys[-1])]


def _layer(shape: tuple[int, ...], fan_in: int, *, key: PRNGKeyArray) -> Layer:
    bound = math.sqrt(3 / (2 * fan_in))
    return Layer(jr.uniform(key, shape, minval=-bound, maxval=bound), jnp.zeros(shape[-1]))


def outputs(network: Network, x: Float[Array, "n s s 3"]) -> Float[Array, " n"]:
    """Convolutions of 3x3 with ReLU, each followed by averages over 2x2, and a linear readout."""
    for kernel, bias in network[:-1]:
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = _halved(jax.nn.relu(x + bias[None, None, None]))
    kernel, bias = network[-1]
    return (x.reshape(len(x), -1) @ kernel + bias[None])[:, 0]


def _halved(x: Float[Array, "n s s c"]) -> Float[Array, "n h h c"]:
    n, side, _, c = x.shape
    return x.reshape(n, side // 2, 2, side // 2, 2, c).mean(axis=(2, 4))


def two_classes(classes: tuple[int, int], n: int, n_test: int) -> tuple[Samples, Samples]:
    """The first samples of the two classes in an order of our own, plus one for the first class."""
    source = read_image_set("cifar10")
    rng = np.random.default_rng(2206)
    return _chosen(source.train, classes, n, rng), _chosen(source.test, classes, n_test, rng)


def _chosen(split, classes: tuple[int, int], n: int, rng: np.random.Generator) -> Samples:
    rows = rng.permutation(np.flatnonzero(np.isin(split.labels, classes)))[:n]
    pixels = split.images[rows].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype(np.float32)
    y = np.where(split.labels[rows] == classes[0], 1.0, -1.0).astype(np.float32)
    return Samples((pixels - _MEAN) / _DEVIATION, y)
