# SPDX-License-Identifier: Apache-2.0
"""The networks, as a user of JAX would write them; our functions and neural-tangents get the same.

Plain `jax.numpy` that both JAX 0.4.23 and today's JAX run. Weights have a column for each neuron,
as in stax and Flax: neural-tangents' structured derivatives know `x @ W`, but not `x @ W.T`, with
which they take hundreds of times as long. `mlp_rows` is there to show that.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

Params = Mapping[str, Any]


def two_layer(params: Params, x):
    """ReLU, one output (n, 1), no biases."""
    d, m = params["W"].shape
    hidden = jax.nn.relu(x @ params["W"] / d**0.5)
    return hidden @ params["a"] / m**0.5


def mlp(params: Params, x):
    """Three hidden layers of tanh, with biases."""
    for layer in "123":
        x = jnp.tanh(x @ params["W" + layer] + params["b" + layer])
    return x @ params["W4"] + params["b4"]


def mlp_rows(params: Params, x):
    """The same with a row for each neuron, as in Equinox and PyTorch."""
    columns = {name: value.T if name[0] == "W" else value for name, value in params.items()}
    return mlp(columns, x)


def cnn(params: Params, x):
    """Two 3x3 convolutions with ReLU, 2x2 average pooling, and a dense layer."""
    for layer in "12":
        x = jax.lax.conv_general_dilated(
            x, params["W" + layer], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + params["b" + layer])
    n, height, width, channels = x.shape
    x = x.reshape(n, height // 2, 2, width // 2, 2, channels).mean(axis=(2, 4))
    return x.reshape(n, -1) @ params["W3"] + params["b3"]


NETWORKS: dict[str, Callable[[Params, Any], Any]] = {
    "two_layer": two_layer,
    "mlp": mlp,
    "mlp_rows": mlp_rows,
    "cnn": cnn,
}


def split(inputs: Mapping[str, Any]) -> tuple[dict[str, jax.Array], jax.Array]:
    """Parameters and data of a case, on the device."""
    params = {name: jnp.asarray(value) for name, value in inputs.items() if name != "x"}
    return params, jnp.asarray(inputs["x"])


def split_moved(
    inputs: Mapping[str, Any],
) -> tuple[dict[str, jax.Array], dict[str, jax.Array], jax.Array]:
    """Parameters before and after a move, and data."""
    every, x = split(inputs)
    old = {name: value for name, value in every.items() if not name.startswith("new_")}
    return old, {name: every["new_" + name] for name in old}, x
