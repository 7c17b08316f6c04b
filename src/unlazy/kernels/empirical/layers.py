# SPDX-License-Identifier: Apache-2.0
"""Where a network multiplies its input by a weight: the layers that need no Jacobian."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jax.extend.core.primitives import (
    add_p,
    broadcast_in_dim_p,
    conv_general_dilated_p,
    div_p,
    dot_general_p,
    mul_p,
    reshape_p,
    squeeze_p,
    transpose_p,
)
from jaxtyping import Array, Float

from unlazy.kernels.empirical.program import Name, Program, Step, read


class Scale(NamedTuple):
    """A factor that a weight is multiplied with, or divided by, on its way to the product."""

    factor: Name | Literal
    divides: bool


class Bias(NamedTuple):
    """A leaf that is added, entry by entry, to the outputs of a layer with one position."""

    leaf: int
    scales: tuple[Scale, ...]


class Layer(NamedTuple):
    r"""A product $z = A W$ that is the only use of the weight W.

    The gradient of an output with respect to W is then $A^\top B$, with B the gradient with respect
    to z. Rows of A and B are positions: one in a dense layer, the pixels in a convolution. A bias
    is a weight on the constant input 1, one more column of A.
    """

    leaf: int  # which of the trained leaves W is
    step: int  # the step of the program that multiplies
    tap: int  # the step whose result is perturbed to get B
    side: int  # which operand of the product the weight is
    scales: tuple[Scale, ...]
    bias: Bias | None

    def inputs(self, step: Step, values: dict[Name, Any]) -> Float[Array, "s k"]:
        """A: what the weight is multiplied with, its scales included."""
        other = read(values, step.operands[1 - self.side])
        if step.eqn.primitive is conv_general_dilated_p:
            rows = _patches(other, step)
        else:
            summed = step.eqn.params["dimension_numbers"][0][1 - self.side]
            free = [axis for axis in range(other.ndim) if axis not in summed]
            count = math.prod(other.shape[axis] for axis in free)
            rows = jnp.transpose(other, (*free, *summed)).reshape(count, -1)
        rows = _scaled(rows, self.scales, values)
        if self.bias is None:
            return rows
        one = _scaled(jnp.ones((1, 1), rows.dtype), self.bias.scales, values)
        return jnp.concatenate([rows, one], axis=1)

    def cotangents(self, step: Step, dz: Float[Array, "c ..."]) -> Float[Array, "c s o"]:
        """B: the gradient of each output with respect to z, positions before channels."""
        positions = _positions(step, self.side)
        if positions == 1:  # the order of the channels does not matter to inner products
            return dz.reshape(dz.shape[0], 1, -1)
        if step.eqn.primitive is conv_general_dilated_p:
            batch, channel, *pixels = step.eqn.params["dimension_numbers"].out_spec
            order = (0, batch + 1, *(axis + 1 for axis in pixels), channel + 1)
            return jnp.transpose(dz, order).reshape(dz.shape[0], positions, -1)
        if self.side == 1:
            return dz.reshape(dz.shape[0], positions, -1)
        return jnp.swapaxes(dz.reshape(dz.shape[0], -1, positions), 1, 2)


def find_layers(program: Program, leaves: int) -> list[Layer]:
    """The layers of those leaves, among the first `leaves` arguments, that are used just so.

    A leaf may be transposed, reshaped or multiplied by a scalar on its way. One that is used twice
    or in another way has no layer, and its gradient must be taken itself.
    """
    uses = _uses(program)
    ends = {k: _follow(program, uses, program.arguments[k]) for k in range(leaves)}
    layers = []
    for leaf, end in ends.items():
        if end is not None and _is_plain_product(program.steps[end.use.step], end.use.side):
            layers.append(_layer(program, uses, leaf, end, ends))
    return layers


def unused_leaves(program: Program, leaves: int) -> set[int]:
    """Which of the first `leaves` arguments the outputs do not depend on at all."""
    uses = _uses(program)
    return {k for k in range(leaves) if not uses.get(program.arguments[k])}


class _Use(NamedTuple):
    step: int  # -1: a result of the program
    side: int


def _uses(program: Program) -> dict[Name, list[_Use]]:
    uses: dict[Name, list[_Use]] = {}
    for k, step in enumerate(program.steps):
        for side, operand in enumerate(step.operands):
            if not isinstance(operand, Literal):
                uses.setdefault(operand, []).append(_Use(k, side))
    for name in program.results:
        if not isinstance(name, Literal):
            uses.setdefault(name, []).append(_Use(-1, 0))
    return uses


class _End(NamedTuple):
    """Where a value is used, after steps that only move or scale its entries."""

    use: _Use
    through: int | None  # the last of those steps
    scales: tuple[Scale, ...]


def _follow(program: Program, uses: dict[Name, list[_Use]], name: Name) -> _End | None:
    """Follow a value from use to use; None where it is used twice, never, or is a result."""
    scales: list[Scale] = []
    through = None
    while len(at := uses.get(name, [])) == 1 and at[0].step >= 0:
        step, side = program.steps[at[0].step], at[0].side
        scale = _as_scale(step, side)
        if scale is not None:
            scales.append(scale)
        elif not _keeps_every_entry(step):
            return _End(at[0], through, tuple(scales))
        through = at[0].step
        (name,) = step.results
    return None


def _layer(
    program: Program,
    uses: dict[Name, list[_Use]],
    leaf: int,
    end: _End,
    ends: dict[int, _End | None],
) -> Layer:
    product, side = program.steps[end.use.step], end.use.side
    layer = Layer(leaf, end.use.step, end.use.step, side, end.scales, None)
    after = _follow(program, uses, product.results[0])
    if after is None or _positions(product, side) != 1:
        return layer
    step = program.steps[after.use.step]
    if step.eqn.primitive is not add_p:
        return layer
    added = _Use(after.use.step, 1 - after.use.side)
    size = product.result().size
    for k, other in ends.items():
        if other is not None and other.use == added and program.sizes[k] == size:
            # B is taken at the sum, which comes after the scales of the product.
            scales, bias = (*layer.scales, *after.scales), Bias(k, other.scales)
            return layer._replace(tap=added.step, scales=scales, bias=bias)
    return layer


def _positions(step: Step, side: int) -> int:
    """How many rows the other operand of the product has."""
    out, weight = step.result(), step.operand(side)
    if step.eqn.primitive is conv_general_dilated_p:
        return out.size // weight.shape[step.eqn.params["dimension_numbers"].rhs_spec[0]]
    summed = step.eqn.params["dimension_numbers"][0][side]
    return out.size * math.prod(weight.shape[axis] for axis in summed) // weight.size


def _scaled(rows: Array, scales: tuple[Scale, ...], values: dict[Name, Any]) -> Array:
    for scale in scales:
        factor = jnp.asarray(read(values, scale.factor), rows.dtype)
        rows = rows / factor if scale.divides else rows * factor
    return rows


def _is_plain_product(step: Step, side: int) -> bool:
    params = step.eqn.params
    if step.eqn.primitive is dot_general_p:
        _, (batch, _) = params["dimension_numbers"]
        return not batch
    if step.eqn.primitive is conv_general_dilated_p:
        groups = params["feature_group_count"], params["batch_group_count"]
        return side == 1 and groups == (1, 1)
    return False


def _as_scale(step: Step, side: int) -> Scale | None:
    """The factor, where the step multiplies or divides by a scalar."""
    if step.eqn.primitive not in (mul_p, div_p):
        return None
    divides = step.eqn.primitive is div_p
    if step.operand(1 - side).shape != () or (divides and side == 1):
        return None
    return Scale(step.operands[1 - side], divides)


def _keeps_every_entry(step: Step) -> bool:
    """Whether the step only moves entries: inner products of gradients are then unchanged."""
    if step.eqn.primitive in (transpose_p, reshape_p, squeeze_p):
        return True
    is_broadcast = step.eqn.primitive is broadcast_in_dim_p
    return is_broadcast and step.operand(0).size == step.result().size


def _patches(x: Array, step: Step) -> Float[Array, "s k"]:
    """What each output pixel of a convolution sees, one row a pixel.

    Cut out by strided slices: lax.conv_general_dilated_patches is itself a convolution, and a slow
    one on a CPU. The order of a row's entries is arbitrary but always the same.
    """
    params = step.eqn.params
    batch, channel, *axes = params["dimension_numbers"].lhs_spec
    _, _, *kernel_axes = params["dimension_numbers"].rhs_spec
    _, _, *out_axes = params["dimension_numbers"].out_spec
    kernel, out = step.operand(1).shape, step.result().shape
    x = jnp.transpose(x, (batch, *axes, channel))
    gaps = [dilation - 1 for dilation in params["lhs_dilation"]]
    edges = [(lo, hi, gap) for (lo, hi), gap in zip(params["padding"], gaps, strict=True)]
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), *edges, (0, 0, 0)])
    steps, sizes = params["window_strides"], [out[axis] for axis in out_axes]
    windows = []
    for offset in itertools.product(*(range(kernel[axis]) for axis in kernel_axes)):
        start = [i * gap for i, gap in zip(offset, params["rhs_dilation"], strict=True)]
        windows.append(_strided(x, start, steps, sizes))
    rows = jnp.concatenate(windows, axis=-1)
    return rows.reshape(math.prod(rows.shape[: len(axes) + 1]), -1)


def _strided(x: Array, start: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> Array:
    stop = [s + step * (size - 1) + 1 for s, step, size in zip(start, steps, sizes, strict=True)]
    first, last = (0, *start, 0), (x.shape[0], *stop, x.shape[-1])
    return jax.lax.slice(x, first, last, (1, *steps, 1))
