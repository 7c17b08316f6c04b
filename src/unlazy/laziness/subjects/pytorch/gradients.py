# SPDX-License-Identifier: Apache-2.0
"""Tangent kernels of a PyTorch module, layer by layer, from the gradients of single rows.

Of a large model, the gradients of all rows do not fit into memory at once. They are computed for
as many parameters at a time as do fit, and each group adds its products to the kernels.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, vmap

from unlazy.core.machine import available_memory
from unlazy.laziness.subjects.pytorch.state import State, layer_of

MOST_ROWS = 64  # that are differentiated at once: their activations are in memory too

Apply = Callable[[dict[str, Tensor], Tensor], Tensor]
"""The outputs (n, c) of a module, from its tensors by name and its inputs."""


class Piece(NamedTuple):
    """Some entries of a flattened parameter."""

    name: str
    span: slice


def layer_kernels(
    apply: Apply,
    state: State,
    x: Tensor,
    directions: Float[Tensor, "c k"],
    *,
    sign: bool,
    memory: int | None,
) -> dict[str, Float[np.ndarray, "n n"]]:
    """The kernels by layer, of the outputs times the directions, summed over these."""
    budget = memory if memory is not None else _default_memory(x.device)
    kernels = {layer_of(name): np.zeros((len(x), len(x))) for name in state.moving}
    for group in _groups(state.moving, len(x), budget):
        for direction in directions.T:
            gradients = _gradients(apply, state, x, direction, group, budget)
            for piece, G in zip(group, gradients, strict=True):
                G = torch.sign(G) if sign else G
                kernels[layer_of(piece.name)] += (G @ G.T).cpu().numpy()
    return kernels


def _default_memory(device: torch.device) -> int:
    """Bytes for the gradients that are held: a quarter of what is free."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_memory()
    return max(free // 4, 2**26)


def _groups(parameters: dict[str, Tensor], n: int, budget: int) -> Iterator[list[Piece]]:
    """The entries of all parameters, in groups whose gradients at n rows are within the budget."""
    most = max(1, budget // (n * max(p.element_size() for p in parameters.values()) * 2))
    group, used = [], 0
    for name, parameter in parameters.items():
        for start in range(0, parameter.numel(), most):
            stop = min(start + most, parameter.numel())
            if used + stop - start > most:
                yield group
                group, used = [], 0
            group, used = [*group, Piece(name, slice(start, stop))], used + stop - start
    yield group


def _gradients(
    apply: Apply, state: State, x: Tensor, direction: Tensor, group: list[Piece], budget: int
) -> list[Float[Tensor, "n p"]]:
    """Per piece of the group, its gradients at all rows, in float32 or float64."""
    inner = {piece.name: state.moving[piece.name] for piece in group}

    def scalar(moving: dict[str, Tensor], row: Tensor) -> Tensor:
        return apply({**state.all(), **moving}, row[None])[0] @ direction

    wide = torch.promote_types(direction.dtype, torch.float32)
    found = [x.new_empty((len(x), p.span.stop - p.span.start), dtype=wide) for p in group]
    per_row = 2 * sum(p.numel() * p.element_size() for p in inner.values())
    rows = max(1, min(MOST_ROWS, budget // per_row))
    for start in range(0, len(x), rows):
        of_rows = _of_rows(scalar, inner, x[start : start + rows])
        for piece, into in zip(group, found, strict=True):
            into[start : start + rows] = of_rows[piece.name].flatten(1)[:, piece.span]
    return found


def _of_rows(
    scalar: Callable[[dict[str, Tensor], Tensor], Tensor], inner: dict[str, Tensor], x: Tensor
) -> dict[str, Tensor]:
    """The gradients at each row: at once, or one by one where PyTorch has no rule for that."""
    try:
        return vmap(grad(scalar), in_dims=(None, 0))(inner, x)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        if "random" in str(error):
            raise ValueError(
                "`module` must compute the same at each call, got a random operation: "
                f"{str(error).splitlines()[0]}"
            ) from error
    of_rows = [grad(scalar)(inner, row) for row in x]
    return {name: torch.stack([one[name] for one in of_rows]) for name in inner}
