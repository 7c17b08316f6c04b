# SPDX-License-Identifier: Apache-2.0
"""The operations of JAX that the networks of `real_networks` are made of."""

import jax
import jax.numpy as jnp

GROUPS = 32


class JaxOps:
    tanh, relu, softmax = staticmethod(jnp.tanh), staticmethod(jax.nn.relu), jax.nn.softmax
    transpose = staticmethod(jnp.transpose)

    @staticmethod
    def gelu(x):
        return jax.nn.gelu(x, approximate=False)

    @staticmethod
    def dense(x, W, b):
        return x @ W.T + b

    @staticmethod
    def conv(x, W, stride):
        pad = W.shape[2] // 2
        return jax.lax.conv_general_dilated(x, W, (stride, stride), [(pad, pad)] * 2)

    @staticmethod
    def halve(x):
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))

    @staticmethod
    def group_norm(x, scale, shift):
        n, c, h, w = x.shape
        groups = x.reshape(n, GROUPS, -1)
        mean, variance = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
        unit = ((groups - mean) / jnp.sqrt(variance + 1e-5)).reshape(n, c, h, w)
        return unit * scale[:, None, None] + shift[:, None, None]

    @staticmethod
    def layer_norm(x, scale, shift):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + shift
