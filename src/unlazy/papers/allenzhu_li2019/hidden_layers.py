# SPDX-License-Identifier: Apache-2.0
"""The layers of a residual learner as matrices whose last column is the bias."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import check_finite, check_inputs
from unlazy.nets import ResNet3Params
from unlazy.papers.allenzhu_li2019.gradients import ResNet3Gradient
from unlazy.papers.shared.activation_patterns import Inputs

_ENTRIES = 2**24  # of the hidden layers held at a time


class HiddenLayers(NamedTuple):
    """The parameters with biases as a last column."""

    W: Float64[np.ndarray, "m d1"]
    V: Float64[np.ndarray, "m k1"]
    A: Float64[np.ndarray, "k m"]


class Movement(NamedTuple):
    """What is added to the hidden layers, with biases as a last column."""

    W: Float64[np.ndarray, "m d1"]
    V: Float64[np.ndarray, "m k1"]


def hidden_layers(params: ResNet3Params, name: str) -> HiddenLayers:
    """The layers of a bottleneck network in float64; an error names the argument."""
    m, k = params.W.shape[0], params.A.shape[0]
    if params.V.shape != (m, k) or not params.last_is_shared:
        raise ValueError(
            f"`{name}` must be of a bottleneck network, got W.shape={params.W.shape}, "
            f"V.shape={params.V.shape} and A.shape={params.A.shape}, "
            f"last_is_shared={params.last_is_shared}."
        )
    arrays = _float64(params, ("W", "b1", "V", "b2", "A"), name)
    W, b1, V, b2, A = arrays
    return HiddenLayers(_joined(W, b1), _joined(V, b2), A)


def movement(dparams: ResNet3Params | ResNet3Gradient, start: HiddenLayers, name: str) -> Movement:
    """A movement of the hidden layers in float64, of the shapes of a start."""
    moved = Movement(*_pairs(_float64(dparams, ("W", "b1", "V", "b2"), name)))
    if (moved.W.shape, moved.V.shape) != (start.W.shape, start.V.shape):
        raise ValueError(
            f"`{name}` must have the shapes of `params0`, got W.shape={dparams.W.shape} and "
            f"V.shape={dparams.V.shape}."
        )
    if isinstance(dparams, ResNet3Params) and np.any(np.asarray(dparams.A)):
        raise ValueError(f"`{name}` must have A = 0: the theorem does not train A.")
    return moved


def with_one(rows: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n d1"]:
    """The rows with a last entry 1, which the biases multiply."""
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)


def groups_of_rows(x: Inputs, width: int, inputs: int) -> Iterator[Float64[np.ndarray, "n d1"]]:
    """The points with a last entry 1, as many at a time as the hidden layers leave room for."""
    check_inputs(x, allow_zero_rows=True)
    if np.shape(x)[1] != inputs:
        raise ValueError(
            f"`x` must have the {inputs} inputs of the network, got x.shape={np.shape(x)}."
        )
    rows = with_one(np.asarray(x, np.float64))
    step = max(1, _ENTRIES // width)
    return (rows[i : i + step] for i in range(0, len(rows), step))


def _float64(params: ResNet3Params | ResNet3Gradient, names: tuple[str, ...], name: str):
    arrays = [np.asarray(getattr(params, part), np.float64) for part in names]
    for part, array in zip(names, arrays, strict=True):
        check_finite(array, f"{name}.{part}")
    return arrays


def _pairs(arrays: list[np.ndarray]) -> Iterator[np.ndarray]:
    return (_joined(arrays[i], arrays[i + 1]) for i in (0, 2))


def _joined(weights: np.ndarray, biases: np.ndarray) -> np.ndarray:
    return np.concatenate([weights, biases[:, None]], axis=1)
