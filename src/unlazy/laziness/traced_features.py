# SPDX-License-Identifier: Apache-2.0
r"""The features of a network: what each of its weight layers puts out, found by tracing.

A feature is a pre-activation: the product of a layer's weight with its input, after the factors
and biases beside it that do not depend on the input. The factor $1/\sqrt m$ of $a^\top h / \sqrt m$
belongs to the feature, whether it is written beside the weight or after the product.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jax.extend.core.primitives import (
    add_p,
    broadcast_in_dim_p,
    convert_element_type_p,
    div_p,
    mul_p,
    reshape_p,
    squeeze_p,
    sub_p,
    transpose_p,
)
from jaxtyping import Array, Float, PyTree

from unlazy.core.jaxprs import Name, Program, read, shaped, trace
from unlazy.core.trained import partition
from unlazy.kernels.empirical.layers import find_layers

OUTPUT = "output"
"""The name of the model's own outputs among the features."""

_MOVES = (transpose_p, reshape_p, squeeze_p, broadcast_in_dim_p, convert_element_type_p)
_ARITHMETIC = (add_p, sub_p, mul_p, div_p)


class Features(NamedTuple):
    """Where the features are in the program of a network at one sample."""

    program: Program
    places: dict[str, list[Name | Literal]]  # by the path of the weight, the outputs last
    units: dict[str, int]  # entries per sample
    missing: tuple[str, ...]  # weights whose products were not found

    def at(self, params: PyTree, x: Float[Array, "n ..."]) -> list[Float[Array, "n k"]]:
        """The features at the rows of `x`, in the order of `places`."""
        leaves = jax.tree.leaves(partition(params, None)[0])

        # A list: JAX sorts the names of a dict, and layers would be taken for each other.
        def of(row: Array) -> list[Float[Array, " k"]]:
            values = self.program.run([*leaves, row])
            return [
                jnp.concatenate([jnp.ravel(read(values, place)) for place in places])
                for places in self.places.values()
            ]

        return jax.vmap(of)(x)


def find_features(f: Callable[[Any, Any], Array], params: PyTree, x: Array) -> Features:
    """Trace the network at one row of `x`, and find what its layers put out."""
    arrays, frozen = partition(params, None)
    leaves, structure = jax.tree.flatten(arrays)
    with_paths = jax.tree_util.tree_leaves_with_path(arrays)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in with_paths]

    def sample(leaves: list[Array], row: Array) -> Array:
        return f(_joined(jax.tree.unflatten(structure, leaves), frozen), row[None])

    program = trace(sample, leaves, jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
    uses, of_sample = _uses(program), _dependents(program)
    places: dict[str, list[Name | Literal]] = {}
    layers = sorted(find_layers(program, len(leaves)), key=lambda layer: layer.step)
    for layer in layers:
        product = program.steps[layer.step].results[0]
        place = _preactivation(program, uses, of_sample, product)
        if place not in program.results:  # the last layer's are the outputs
            places.setdefault(names[layer.leaf], []).append(place)
    places[OUTPUT] = list(program.results)
    found = {layer.leaf for layer in layers}
    missing = tuple(
        name
        for k, (name, leaf) in enumerate(zip(names, leaves, strict=True))
        if jnp.ndim(leaf) > 1 and k not in found
    )
    return Features(program, places, _units(program, places), missing)


def _joined(arrays: PyTree, frozen: PyTree) -> PyTree:
    return jax.tree.map(
        lambda one, other: other if one is None else one,
        *(arrays, frozen),
        is_leaf=lambda leaf: leaf is None,
    )


def _units(program: Program, places: dict[str, list[Name | Literal]]) -> dict[str, int]:
    sizes = {
        name: math.prod(shaped(var).shape)
        for step in program.steps
        for name, var in zip(step.results, step.eqn.outvars, strict=True)
    }
    return {path: sum(sizes.get(_key(n), 1) for n in names) for path, names in places.items()}


def _preactivation(
    program: Program, uses: dict[Name, list[int]], of_sample: set[Name], name: Name
) -> Name:
    """Follow a product through factors, biases and reshapes to the place where it is used."""
    while len(uses.get(name, [])) == 1:
        step = program.steps[uses[name][0]]
        others = {_key(operand) for operand in step.operands} - {name}
        is_affine = step.eqn.primitive in _ARITHMETIC and not others & of_sample
        if not is_affine and step.eqn.primitive not in _MOVES:
            break
        name = step.results[0]
    return name


def _uses(program: Program) -> dict[Name, list[int]]:
    """The steps that use each value, one entry per operand; no steps after a result is one."""
    uses: dict[Name, list[int]] = {}
    for k, step in enumerate(program.steps):
        for operand in step.operands:
            if not isinstance(operand, Literal):
                uses.setdefault(operand, []).append(k)
    return {name: found for name, found in uses.items() if name not in program.results}


def _dependents(program: Program) -> set[Name]:
    """The values that depend on the sample, the last argument of the program."""
    found = {program.arguments[-1]}
    for step in program.steps:
        if not found.isdisjoint(map(_key, step.operands)):
            found.update(step.results)
    return found


def _key(name: Name | Literal) -> Name:
    return -1 if isinstance(name, Literal) else name
