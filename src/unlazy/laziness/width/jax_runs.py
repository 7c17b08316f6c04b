# SPDX-License-Identifier: Apache-2.0
"""Training runs of the width check for JAX models: a few steps, the features seen at each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from unlazy.core.checks import calling, check_finite, check_real
from unlazy.core.compiling import jit_network
from unlazy.core.convolutions import looped
from unlazy.core.current import current, program_of, unwrapped
from unlazy.core.trained import partition
from unlazy.kernels.empirical.model import Model, check_outputs, check_rowwise
from unlazy.laziness.output_losses import as_output_loss, check_scalar_loss
from unlazy.laziness.traced_features import find_features
from unlazy.laziness.width.runs import Recipe, Run, rounded_away


class Made(NamedTuple):
    """A model as `make` gave it."""

    f: Callable[[Any, Any], Array]
    params: PyTree


class JaxFamily:
    """The models of one `make`, trained one at a time; equal programs are compiled once."""

    where = "JAX"

    def __init__(self, x: Any, y: Any, recipe: Recipe) -> None:
        for name, value in (("x", x), ("y", y)):
            check_real(value, name)
            check_finite(value, name)
        self.x, self.y, self.recipe = jnp.asarray(x), jnp.asarray(y), recipe
        self.loss = as_output_loss(recipe.loss, y)
        self._known: dict[int, tuple[Any, Any, Any]] = {}  # by width: program, f and optimiser

    def run(self, made: Made, width: int) -> Run:
        """Train this model of that width."""
        x = _of_dtype(self.x, made.params)
        f, optimizer = self._compiled_alike(made, width, x)
        params, rest = partition(made.params, self.recipe.trained)
        with jax.default_matmul_precision("highest"):
            y = self._labels(f, made.params, x)
            features = find_features(f, made.params, x)
            settings = optimizer, self.recipe.steps, self.recipe.centred
            found = _train(f, self.loss, *settings, params, rest, x, y)
        loss, movement, start, spread = (np.asarray(array, np.float64) for array in found)
        eps = float(jnp.finfo(jnp.result_type(*jax.tree.leaves(params))).eps)
        return Run(
            layers=tuple(features.places),
            units=tuple(features.units[name] for name in features.places),
            missing=features.missing,
            loss=loss,
            movement=rounded_away(movement.T, start, eps),
            start=start,
            spread=spread.T,
        )

    def _compiled_alike(self, made: Made, width: int, x: Array) -> tuple[Any, Any]:
        """The model's function, or an earlier one of this width that computes the same."""
        program = program_of(made.f, made.params, jax.ShapeDtypeStruct(x.shape, x.dtype))
        if width in self._known and self._known[width][0] == program:
            return self._known[width][1:]
        f = current(unwrapped(made.f), made.params, jax.ShapeDtypeStruct(x.shape, x.dtype))
        self._known[width] = program, f, self._optimizer(width)
        arrays, others = partition(made.params, None)
        check_outputs(Model(f, others), arrays, jax.ShapeDtypeStruct(x.shape, x.dtype))
        check_rowwise(Model(f, others), arrays, x)()
        return self._known[width][1:]

    def _optimizer(self, width: int) -> optax.GradientTransformation:
        given = self.recipe.optimizer
        if given is None:
            return optax.sgd(self.recipe.rate(width))
        if not isinstance(given, optax.GradientTransformation) and callable(given):
            with calling("optimizer", "a width"):
                given = given(width)
        if not isinstance(given, optax.GradientTransformation):
            raise TypeError(
                "`optimizer` must be an optax optimiser, such as optax.adam(1e-3), or a function "
                f"of the width that makes one, got {type(given).__name__}."
            )
        return given

    def _labels(self, f: Callable, params: PyTree, x: Array) -> Array:
        outputs = jax.eval_shape(f, params, x)
        y = self.y
        if jnp.issubdtype(y.dtype, jnp.floating) or isinstance(self.recipe.loss, str):
            y = y.astype(outputs.dtype)
        jax.eval_shape(lambda z, y: check_scalar_loss(self.loss, z, y), outputs, y)
        return y


def _of_dtype(x: Array, params: PyTree) -> Array:
    """The inputs in the precision of the parameters; integers, such as tokens, as they are."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    leaves = jax.tree.leaves(partition(params, None)[0])
    return x.astype(jnp.result_type(*(leaf.dtype for leaf in leaves)))


@jit_network
def _train(
    f: Callable,
    loss: Callable,
    optimizer: optax.GradientTransformation,
    steps: int,
    centred: bool,
    trainable: PyTree,
    frozen: PyTree,
    x: Array,
    y: Array,
) -> tuple[
    Float[Array, " times"], Float[Array, "times l"], Float[Array, " l"], Float[Array, "times l"]
]:
    """The loss, the movement, the size at the start and the mean absolute value of features."""
    find = find_features(f, eqx.combine(trainable, frozen), x)
    first = find.at(eqx.combine(trainable, frozen), x)
    origin = f(eqx.combine(trainable, frozen), x)

    def objective(trainable: PyTree) -> Array:
        outputs = f(eqx.combine(trainable, frozen), x)
        return loss(outputs - origin if centred else outputs, y)

    def step(carry: tuple[PyTree, Any], _: None) -> tuple[tuple[PyTree, Any], tuple]:
        trainable, state = carry
        value, gradient = jax.value_and_grad(objective)(trainable)
        now = find.at(eqx.combine(trainable, frozen), x)
        moved = jnp.stack([_rms(h - h0) for h, h0 in zip(now, first, strict=True)])
        spread = jnp.stack([jnp.mean(jnp.abs(h)) for h in now])
        with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic is not strict
            update, after = optimizer.update(gradient, state, trainable)
            trainable = optax.apply_updates(trainable, update)
        after = jax.tree.map(
            lambda new, old: jnp.asarray(new, jnp.asarray(old).dtype), after, state
        )
        return (trainable, after), (value, moved, spread)

    with jax.numpy_dtype_promotion("standard"):
        carry = trainable, optimizer.init(trainable)
    _, (values, moved, spread) = jax.lax.scan(looped(step), carry, None, length=steps + 1)
    return values, moved, jnp.stack([_rms(h) for h in first]), spread


def _rms(h: Float[Array, "n k"]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(h**2))
