# SPDX-License-Identifier: Apache-2.0
"""A loss as a function of one vector, with its gradient and its Hessian's products."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from unlazy.core.checks import check_finite
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.core.loss_calls import Loss, as_pytree, call_loss, check_loss_call, current_loss
from unlazy.core.roles import Role, roles
from unlazy.core.sheltering import sheltered
from unlazy.core.trained import Trained, partition


class Objective(eqx.Module):
    """The loss around `trained`; products with its Hessian take and give flat vectors."""

    loss: Any
    trained: Any  # the point, None where a parameter is frozen
    frozen: Any
    data: Any

    def __call__(self, trained: Any) -> Float[Array, ""]:
        """The loss at other trained parameters."""
        return call_loss(self.loss, eqx.combine(trained, self.frozen), self.data)

    def hessian_product(self, v: Float[Array, " p"]) -> Float[Array, " p"]:
        """The Hessian at the point times a vector, forward over reverse.

        As a bound method of a module it is a pytree: what compiles it gets its arrays as arguments.
        """
        _, unravel = ravel_pytree(self.trained)
        _, product = jax.jvp(jax.grad(self), (self.trained,), (unravel(v),))
        return ravel_pytree(product)[0]


def float64_objective(loss: Loss, params: Any, data: Any, trained: Trained) -> Objective:
    """The objective with every array in float64.

    Call and use it within `float64()` and `jax.numpy_dtype_promotion("standard")`, where float32
    constants of a closure are widened.
    """
    check_loss_call(loss, data)
    loss = as_pytree(sheltered(loss))
    loss, data = (_wide(tree, float) for tree in (loss, data))
    # First apart, then wide: a number in a module is a setting, and no array is made of it.
    arrays, frozen = (_wide(part) for part in partition(params, trained))
    for leaf in jax.tree.leaves(arrays):
        check_finite(leaf, "params")
    loss = current_loss(loss, eqx.combine(arrays, frozen), data)
    objective = Objective(loss, arrays, frozen, data)
    out = jax.eval_shape(objective, arrays)
    check_scalar(out)
    if out.dtype != jnp.float64:
        warnings.warn(
            f"The loss computes in {out.dtype} although its parameters are in float64: curvature "
            "below its rounding is noise. Remove the cast inside the loss.",
            UnlazyWarning,
            stacklevel=user_level(),
        )
    return objective


def check_scalar(out: Any) -> None:
    """Raise unless a loss returns a real scalar."""
    shape = getattr(out, "shape", None)
    if shape != () or not jnp.issubdtype(out.dtype, jnp.floating):
        got = type(out).__name__ if shape is None else f"shape {shape} and dtype {out.dtype}"
        raise ValueError(f"`loss` must return one real number, got {got}. Take the mean or sum.")


def check_alike(tree: Any, params: Any, name: str) -> None:
    """Raise unless `tree` has the leaves of `params`, naming the first that differs.

    It may leave out what is no parameter, such as functions, settings and running statistics.
    """
    theirs, ours, found = (
        {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
        for leaves in map(jax.tree_util.tree_leaves_with_path, (tree, params, roles(params)))
    )
    optional = {path for path, role in found.items() if role is not Role.PARAMETER} - {*theirs}
    theirs, ours = ({path: np.shape(leaf) for path, leaf in of.items()} for of in (theirs, ours))
    for path in [*ours, *theirs]:
        if path not in optional and theirs.get(path) != ours.get(path):
            expected, got = (
                "no leaf" if shape is None else f"shape {shape}"
                for shape in (ours.get(path), theirs.get(path))
            )
            raise ValueError(
                f"`{name}` must have the structure of `params`, got {got} at "
                f"{name}{path} where `params` has {expected}."
            )


def _wide(tree: Any, *numbers: type) -> Any:
    """The tree with its arrays in float64; numbers of these types become arrays too."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, (np.ndarray, np.floating, *numbers)):
            leaf = jnp.asarray(leaf)
        return leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf

    return jax.tree.map(widen, tree)
