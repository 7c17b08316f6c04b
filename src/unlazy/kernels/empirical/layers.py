# SPDX-License-Identifier: Apache-2.0
"""Find where a network multiplies an input by a weight: these layers need no Jacobian."""

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
    sub_p,
    transpose_p,
)
from jaxtyping import Array, Float

from unlazy.core.jaxprs import Name, Program, Step, read


class Scale(NamedTuple):
    """A factor that a weight is multiplied with, or divided by, on its way to the product."""

    factor: Name | Literal
    divides: bool


class Bias(NamedTuple):
    """A leaf that is added, entry by entry, to the outputs of a layer with one position."""

    leaf: int
    scales: tuple[Scale, ...]


class Layer(NamedTuple):
    r"""A product $z = A W$: the only use of the weight W, or one of several of the same kind.

    The gradient of an output with respect to W is then $A^\top B$, with B the gradient with respect
    to z. Rows of A and B are positions: one in a dense layer, the pixels in a convolution. A weight
    that is used twice has one layer for each use, and their positions add up. A bias is a weight on
    the constant input 1, one more column of A.
    """

    leaf: int  # which of the trained leaves W is
    step: int  # the step of the program that multiplies
    tap: int  # the step whose result is perturbed to get B
    side: int  # which operand of the product the weight is
    scales: tuple[Scale, ...]
    bias: Bias | None

    def activations(self, step: Step, values: dict[Name, Any]) -> Array:
        """What the product takes in beside the weight, as it is."""
        return read(values, step.operands[1 - self.side])

    def inputs(self, step: Step, values: dict[Name, Any]) -> Float[Array, "s k"]:
        """A: what the weight is multiplied with, its scales included."""
        other = self.activations(step, values)
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
    """The layers of those among the first `leaves` arguments that are used in products alone.

    A leaf may be transposed, reshaped or multiplied by a scalar on its way, and multiply several
    inputs, if always along the same of its axes. One that is used in another way has no layer: its
    gradient must be computed as such.
    """
    uses = _uses(program)
    ends = {k: _ends(program, uses, program.arguments[k]) for k in range(leaves)}
    layers = []
    for leaf, found in ends.items():
        if not found or not all(_is_plain_product(*_product(program, end)) for end in found):
            continue
        if len(found) == 1:
            layers.append(_layer(program, uses, leaf, found[0], ends))
        elif _are_alike(program, found):
            layers += [_layer_without_bias(leaf, end) for end in found]
    return layers


def weight_matrix(program: Program, layer: Layer, value: Array) -> Float[Array, "o k"]:
    """The weight of a layer, in the form of its leaf, as a matrix with one row per output."""
    step = program.steps[layer.step]
    for end in _ends(program, _uses(program), program.arguments[layer.leaf]) or []:
        if end.use.step == layer.step:
            for k in end.moves:
                (value,) = program.steps[k](value)
    numbers = step.eqn.params["dimension_numbers"]
    if step.eqn.primitive is conv_general_dilated_p:
        return jnp.moveaxis(value, numbers.rhs_spec[0], 0).reshape(
            value.shape[numbers.rhs_spec[0]], -1
        )
    summed = numbers[0][layer.side]
    free = [axis for axis in range(value.ndim) if axis not in summed]
    count = math.prod(value.shape[axis] for axis in free)
    return jnp.transpose(value, (*free, *summed)).reshape(count, -1)


def unused_leaves(program: Program, leaves: int) -> set[int]:
    """Which of the first `leaves` arguments the outputs do not depend on at all."""
    uses = _uses(program)
    return {k for k in range(leaves) if not uses.get(program.arguments[k])}


def used_after(program: Program, leaves: int, step: int) -> set[int]:
    """Which of the first `leaves` arguments do more after a step than to be added or multiplied."""
    uses, found = _uses(program), set()
    for k in range(leaves):
        ends = _ends(program, uses, program.arguments[k]) or []
        later = [program.steps[end.use.step].eqn for end in ends if end.use.step > step]
        if any(eqn.primitive not in (add_p, sub_p, mul_p, div_p) for eqn in later):
            found.add(k)
    return found


class _Use(NamedTuple):
    step: int  # -1: a result of the program
    side: int


_RESULT = _Use(-1, 0)


def _uses(program: Program) -> dict[Name, list[_Use]]:
    uses: dict[Name, list[_Use]] = {}
    for k, step in enumerate(program.steps):
        for side, operand in enumerate(step.operands):
            if not isinstance(operand, Literal):
                uses.setdefault(operand, []).append(_Use(k, side))
    for name in program.results:
        if not isinstance(name, Literal):
            uses.setdefault(name, []).append(_RESULT)
    return uses


class _End(NamedTuple):
    """Where a value is used, after steps that only move or scale its entries."""

    use: _Use
    moves: tuple[int, ...]  # those of the steps that move
    scales: tuple[Scale, ...]


def _ends(program: Program, uses: dict[Name, list[_Use]], name: Name) -> list[_End] | None:
    """Follow a value to all its uses; None where it is a result of the program, or dropped."""
    found: list[_End] = []
    ahead: list[tuple[Name, tuple[int, ...], tuple[Scale, ...]]] = [(name, (), ())]
    while ahead:
        name, moves, scales = ahead.pop()
        for use in uses.get(name, [_RESULT]):
            if use == _RESULT:
                return None
            step = program.steps[use.step]
            scale = _as_scale(step, use.side)
            if scale is not None:
                ahead.append((step.results[0], moves, (*scales, scale)))
            elif _keeps_every_entry(step):
                ahead.append((step.results[0], (*moves, use.step), scales))
            else:
                found.append(_End(use, moves, scales))
    return found


def _product(program: Program, end: _End) -> tuple[Step, int]:
    return program.steps[end.use.step], end.use.side


def _are_alike(program: Program, found: list[_End]) -> bool:
    """Whether the uses of one weight are worth adding up: few, and its entries lie alike."""
    step, side = _product(program, found[0])
    rows = step.operand(side).size * _positions(step, side) // step.result().size
    # With more positions than the weight has rows, its gradient is smaller than the factors.
    if sum(_positions(*_product(program, end)) for end in found) > rows:
        return False
    return all(_layout(program, end) == _layout(program, found[0]) for end in found)


def _layout(program: Program, end: _End) -> tuple[Any, ...]:
    """How the entries of a weight lie in a product: its gradients add up only if they lie alike."""
    step, side = _product(program, end)
    numbers = step.eqn.params["dimension_numbers"]
    axes = numbers[0][side] if step.eqn.primitive is dot_general_p else numbers.rhs_spec
    moves = [program.steps[k].eqn for k in end.moves]
    return (step.eqn.primitive, axes, [(eqn.primitive, eqn.params) for eqn in moves])


def _layer_without_bias(leaf: int, end: _End) -> Layer:
    return Layer(leaf, end.use.step, end.use.step, end.use.side, end.scales, None)


def _layer(
    program: Program,
    uses: dict[Name, list[_Use]],
    leaf: int,
    end: _End,
    ends: dict[int, list[_End] | None],
) -> Layer:
    product = program.steps[end.use.step]
    layer = _layer_without_bias(leaf, end)
    following = _ends(program, uses, product.results[0])
    if following is None or len(following) != 1 or _positions(product, end.use.side) != 1:
        return layer
    after = following[0]
    step = program.steps[after.use.step]
    if step.eqn.primitive is not add_p:
        return layer
    added = _Use(after.use.step, 1 - after.use.side)
    size = product.result().size
    for k, other in ends.items():
        if other is None or len(other) != 1 or program.sizes[k] != size:
            continue
        if other[0].use == added:
            # B is taken at the sum, which comes after the scales of the product.
            scales, bias = (*layer.scales, *after.scales), Bias(k, other[0].scales)
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
    """What each output pixel of a convolution sees, one row per pixel.

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
