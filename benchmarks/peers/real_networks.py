# SPDX-License-Identifier: Apache-2.0
"""Networks of the sizes that people bring, written once for JAX and PyTorch.

Each is a function of (ops, params, x) with `ops` one of the two libraries' operations, parameters
by name in PyTorch's layout, and images of shape (n, 3, 32, 32).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Params = dict[str, Any]
Network = Callable[[Any, Params, Any], Any]

_CNN = (3, 64, 64, 128, 128, 256, 256)
_STAGES = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))  # inputs, outputs, stride
_VIT = {"width": 192, "depth": 6, "heads": 3, "patch": 4}


class Case(NamedTuple):
    network: Network
    params: Params
    x: np.ndarray


def cases(n: int, outputs: int = 10) -> dict[str, Case]:
    """The networks with drawn parameters, and `n` samples each."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((n, 3, 32, 32)).astype(np.float32)
    rows = rng.standard_normal((n, 784)).astype(np.float32)
    return {
        "mlp": Case(mlp, _mlp_params(rng, outputs), rows),
        "cnn": Case(cnn, _cnn_params(rng, outputs), images),
        "resnet18": Case(resnet18, _resnet_params(rng, outputs), images),
        "vit": Case(vit, _vit_params(rng, outputs), images),
    }


def mlp(ops: Any, p: Params, x: Any) -> Any:
    """784-512-512-512-10, tanh."""
    for layer in range(3):
        x = ops.tanh(ops.dense(x, p[f"W{layer}"], p[f"b{layer}"]))
    return ops.dense(x, p["W3"], p["b3"])


def cnn(ops: Any, p: Params, x: Any) -> Any:
    """Six 3x3 convolutions, average pools after each pair, and a global average."""
    for layer in range(6):
        x = ops.relu(ops.conv(x, p[f"W{layer}"], 1) + p[f"b{layer}"][:, None, None])
        x = ops.halve(x) if layer in (1, 3) else x
    return ops.dense(x.mean((2, 3)), p["head"], p["bias"])


def resnet18(ops: Any, p: Params, x: Any) -> Any:
    """ResNet-18 for images of 32 x 32, with group norm."""
    x = ops.relu(_norm(ops, p, "stem", ops.conv(x, p["stem"], 1)))
    for stage, (_, _, stride) in enumerate(_STAGES):
        for block in range(2):
            x = _residual(ops, p, f"{stage}.{block}", x, stride if block == 0 else 1)
    return ops.dense(x.mean((2, 3)), p["head"], p["bias"])


def _residual(ops: Any, p: Params, name: str, x: Any, stride: int) -> Any:
    y = ops.relu(_norm(ops, p, f"{name}.1", ops.conv(x, p[f"{name}.1"], stride)))
    y = _norm(ops, p, f"{name}.2", ops.conv(y, p[f"{name}.2"], 1))
    if f"{name}.short" in p:
        x = _norm(ops, p, f"{name}.short", ops.conv(x, p[f"{name}.short"], stride))
    return ops.relu(x + y)


def _norm(ops: Any, p: Params, name: str, x: Any) -> Any:
    return ops.group_norm(x, p[f"{name}.scale"], p[f"{name}.shift"])


def vit(ops: Any, p: Params, x: Any) -> Any:
    """A vision transformer: patches of 4 x 4, width 192, six layers of three heads."""
    n, side = x.shape[0], 32 // _VIT["patch"]
    x = x.reshape(n, 3, side, _VIT["patch"], side, _VIT["patch"])
    x = ops.transpose(x, (0, 2, 4, 1, 3, 5)).reshape(n, side * side, -1)
    x = ops.dense(x, p["embed"], p["place"])
    for layer in range(_VIT["depth"]):
        y = ops.layer_norm(x, p[f"{layer}.scale1"], p[f"{layer}.shift1"])
        x = x + _attention(ops, p, f"{layer}", y)
        y = ops.layer_norm(x, p[f"{layer}.scale2"], p[f"{layer}.shift2"])
        y = ops.gelu(ops.dense(y, p[f"{layer}.up"], p[f"{layer}.up_bias"]))
        x = x + ops.dense(y, p[f"{layer}.down"], p[f"{layer}.down_bias"])
    return ops.dense(x.mean(1), p["head"], p["bias"])


def _attention(ops: Any, p: Params, name: str, x: Any) -> Any:
    n, tokens, width = x.shape
    heads, size = _VIT["heads"], width // _VIT["heads"]
    q, k, v = (
        ops.transpose(
            ops.dense(x, p[f"{name}.{part}"], p[f"{name}.{part}_bias"]).reshape(
                n, tokens, heads, size
            ),
            (0, 2, 1, 3),
        )
        for part in "qkv"
    )
    weights = ops.softmax(q @ ops.transpose(k, (0, 1, 3, 2)) / math.sqrt(size))
    y = ops.transpose(weights @ v, (0, 2, 1, 3)).reshape(n, tokens, width)
    return ops.dense(y, p[f"{name}.out"], p[f"{name}.out_bias"])


def _weights(rng: np.random.Generator, *shape: int, gain: float = 2.0) -> np.ndarray:
    """Gaussian, outputs first, with variance gain over the fan-in."""
    deviation = math.sqrt(gain / math.prod(shape[1:]))
    return (deviation * rng.standard_normal(shape)).astype(np.float32)


def _vector(rng: np.random.Generator, size: int, mean: float = 0.0) -> np.ndarray:
    return (mean + 0.1 * rng.standard_normal(size)).astype(np.float32)


def _head(rng: np.random.Generator, width: int, outputs: int) -> Params:
    return {"head": _weights(rng, outputs, width, gain=1.0), "bias": _vector(rng, outputs)}


def _mlp_params(rng: np.random.Generator, outputs: int) -> Params:
    sizes, params = (784, 512, 512, 512, outputs), {}
    for layer in range(4):
        params[f"W{layer}"] = _weights(rng, sizes[layer + 1], sizes[layer], gain=1.0)
        params[f"b{layer}"] = _vector(rng, sizes[layer + 1])
    return params


def _cnn_params(rng: np.random.Generator, outputs: int) -> Params:
    params = _head(rng, _CNN[-1], outputs)
    for layer in range(6):
        params[f"W{layer}"] = _weights(rng, _CNN[layer + 1], _CNN[layer], 3, 3)
        params[f"b{layer}"] = _vector(rng, _CNN[layer + 1])
    return params


def _resnet_params(rng: np.random.Generator, outputs: int) -> Params:
    params = _head(rng, 512, outputs)

    def add(name: str, out: int, inputs: int, side: int) -> None:
        params[name] = _weights(rng, out, inputs, side, side)
        params[f"{name}.scale"] = _vector(rng, out, 1.0)
        params[f"{name}.shift"] = _vector(rng, out)

    add("stem", 64, 3, 3)
    for stage, (inputs, out, stride) in enumerate(_STAGES):
        for block in range(2):
            add(f"{stage}.{block}.1", out, inputs if block == 0 else out, 3)
            add(f"{stage}.{block}.2", out, out, 3)
        if stride > 1:
            add(f"{stage}.0.short", out, inputs, 1)
    return params


def _vit_params(rng: np.random.Generator, outputs: int) -> Params:
    width, params = _VIT["width"], _head(rng, _VIT["width"], outputs)
    params["embed"] = _weights(rng, width, 3 * _VIT["patch"] ** 2, gain=1.0)
    params["place"] = _vector(rng, width)
    for layer in range(_VIT["depth"]):
        for part in ("q", "k", "v", "out"):
            params[f"{layer}.{part}"] = _weights(rng, width, width, gain=1.0)
            params[f"{layer}.{part}_bias"] = _vector(rng, width)
        params[f"{layer}.up"] = _weights(rng, 4 * width, width, gain=1.0)
        params[f"{layer}.up_bias"] = _vector(rng, 4 * width)
        params[f"{layer}.down"] = _weights(rng, width, 4 * width, gain=1.0)
        params[f"{layer}.down_bias"] = _vector(rng, width)
        for k in "12":
            params[f"{layer}.scale{k}"] = _vector(rng, width, 1.0)
            params[f"{layer}.shift{k}"] = _vector(rng, width)
    return params
