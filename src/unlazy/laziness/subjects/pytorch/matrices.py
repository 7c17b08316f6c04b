# SPDX-License-Identifier: Apache-2.0
"""The weights of PyTorch's layers as matrices with one row per neuron."""

import numpy as np
from jaxtyping import Float
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

# Their tables and scales are multiplied with no inputs.
_WITHOUT_INPUTS = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.GroupNorm, nn.PReLU, _NormBase)


def matrix_of(
    module: nn.Module, path: str, value: np.ndarray
) -> Float[np.ndarray, "out in"] | None:
    """The weight at a path as a matrix; None for biases, scales, embeddings and the like.

    PyTorch puts outputs first, except in transposed convolutions. A parameter of a module of the
    user's own is read in that order too, unless its first axis has length 1 and it has at least
    three: such a one is added to each sample, as positions are.
    """
    name, _, last = path.replace("/", ".").rpartition(".")
    owner = module.get_submodule(name)
    if value.ndim < 2 or last.startswith("bias") or isinstance(owner, _WITHOUT_INPUTS):
        return None
    if isinstance(owner, _ConvTransposeNd):
        return _of_transposed(value, owner.groups)
    if isinstance(owner, nn.utils.parametrize.ParametrizationList) and last == "original0":
        return None  # the lengths of weight normalisation
    if value.ndim > 2 and len(value) == 1 and not isinstance(owner, _ConvNd | nn.Bilinear):
        return None
    return value.reshape(len(value), -1)


def _of_transposed(value: np.ndarray, groups: int) -> Float[np.ndarray, "out in"]:
    """From (in, out / groups, ...), where each group has its own inputs and outputs."""
    inputs, outputs, *window = value.shape
    grouped = value.reshape(groups, inputs // groups, outputs, *window)
    return grouped.swapaxes(1, 2).reshape(groups * outputs, -1)
