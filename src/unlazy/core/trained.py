# SPDX-License-Identifier: Apache-2.0
"""Which parameters are trained: one meaning of `trained` for every function that takes it."""

import functools
from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from unlazy.core.checks import check_name
from unlazy.core.entries import entry
from unlazy.core.roles import Role, roles

TRAINED = ("hidden", "weights", "last", "all")


@runtime_checkable
class PathFilter(Protocol):
    """Says whether the parameter at a path, such as `layers/0/weight`, is trained."""

    def __call__(self, path: str, /) -> bool:
        """Whether that parameter is trained."""
        ...


Trained = str | PathFilter | PyTree[bool] | None
"""None for all, a name for our learners, booleans as a prefix of `params`, or a function of a path.

Chosen leaves that are not floating-point arrays are not trained; running statistics are refused.
"""


@runtime_checkable
class LayeredParams(Protocol):
    """Parameters of a learner, which know their last layer."""

    def is_last(self) -> "LayeredParams":
        """The same structure with True at the leaves of the last layer, False elsewhere."""
        ...


@runtime_checkable
class BiasedParams(Protocol):
    """Parameters of a learner with biases, which know their hidden weights."""

    def is_weight(self) -> "BiasedParams":
        """The same structure with True at the hidden weights, False elsewhere."""
        ...


P = TypeVar("P")


@entry
def partition(params: P, trained: Trained) -> tuple[P, P]:
    """Split `params` into those to train and the frozen rest.

    Both have the structure of `params`, with None where a leaf is in the other part: differentiate
    with respect to the first, and join them again with `combine`. Every function with an argument
    `trained` reads it as this one does.

    Args:
        params: any pytree: an Equinox model, the `variables` or the "params" of a Flax Linen model,
            the state of an `nnx.split`. NumPy arrays become JAX arrays, and so do numbers outside
            of Equinox modules (inside, they are settings); integers, keys and functions are never
            trained.
        trained: None or "all": every parameter; a weight that is used twice gets the gradient of
            both uses. What a model keeps beside its parameters is frozen: running statistics of
            batch normalisation, collections of a Linen model other than "params", variables of an
            NNX state that are no `nnx.Param`, an `eqx.nn.State`. For the learners of `unlazy.nets`
            "hidden": all but the last layer, biases included; "weights": the hidden weights without
            their biases, which is the same for a learner without biases; "last": the output
            weights. For any `params`: booleans in their structure or a prefix of it, or a function
            of a leaf's path, such as `lambda path: path.endswith("/weight")` (in a state of Flax
            nnx, paths end in "/value"). These may choose another collection or variable, but no
            running statistic.

    Raises:
        ValueError: nothing is trained, or `trained` does not fit `params` or chooses running
            statistics; "last" for a `ResNet3` in bottleneck form, whose output weights are also in
            the hidden layers.
        UnknownNameError: `trained` is not a known name.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> params = TwoLayer(inputs=3, width=4).init(key=jax.random.key(0))
        >>> trainable, frozen = partition(params, "hidden")
        >>> print(trainable.a, frozen.W, combine(trainable, frozen).W.shape)
        None None (4, 3)
    """
    leaves, structure = jax.tree.flatten(params)
    chosen = _chosen_leaves(params, trained, leaves, structure)
    if not any(chosen):
        words = [_word(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
        raise ValueError(
            "`trained` must choose at least one floating-point array of `params`, "
            f"got trained={trained!r}, which chooses none. Leaves: {_listed(words)}."
        )
    pairs = list(zip(chosen, leaves, strict=True))
    trainable = structure.unflatten([_as_array(leaf) if yes else None for yes, leaf in pairs])
    frozen = structure.unflatten([None if yes else _as_kept(leaf) for yes, leaf in pairs])
    _check_real(trainable)
    return trainable, frozen


@entry
def combine(trainable: P, frozen: P) -> P:
    """Join the two parts of `partition` again.

    Raises:
        ValueError: they are not the parts of one set of parameters.
    """
    try:
        return eqx.combine(trainable, frozen)
    except ValueError as error:
        raise ValueError(
            "`trainable` and `frozen` must be the two parts of one set of parameters, got "
            f"{type(trainable).__name__} and {type(frozen).__name__} of different structure."
        ) from error


_MOST = 64  # structures whose choice is known
_CHOICES: dict[Any, list[bool]] = {}
_NUMBERS = (Array, np.ndarray, np.generic, int, float, complex)


def _chosen_leaves(params: PyTree, trained: Trained, leaves: list[Any], structure: Any) -> Any:
    """A boolean for each leaf.

    To look for the roles of a hundred leaves takes a millisecond. They depend on the structure and
    on the kinds of numbers alone.
    """
    if trained is not None or not all(isinstance(leaf, _NUMBERS) for leaf in leaves):
        return jax.tree.leaves(_chosen(params, trained))
    key = structure, tuple([getattr(leaf, "dtype", type(leaf)) for leaf in leaves])
    try:
        found = _CHOICES.get(key)
    except (TypeError, ValueError):  # a setting of a module without a hash, or an array among them
        return jax.tree.leaves(_chosen(params, trained))
    if found is None:
        if len(_CHOICES) >= _MOST:
            _CHOICES.clear()
        found = _CHOICES[key] = jax.tree.leaves(_chosen(params, trained))
    return found


def _chosen(params: PyTree, trained: Trained) -> PyTree:
    """A boolean for each leaf."""
    found = roles(params)
    if trained is None or (isinstance(trained, str) and trained == "all"):
        return jax.tree.map(lambda role: role is Role.PARAMETER, found)
    asked = _asked(params, trained)
    _check_no_statistics(params, found, asked)
    return jax.tree.map(lambda role, yes: yes and role is not Role.FIXED, found, asked)


def _check_no_statistics(params: PyTree, found: PyTree, asked: PyTree) -> None:
    paths = [_word(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    pairs = zip(paths, jax.tree.leaves(found), jax.tree.leaves(asked), strict=True)
    wrong = [path for path, role, yes in pairs if yes and role is Role.STATISTIC]
    if wrong:
        raise ValueError(
            "`trained` must leave out running statistics, which averages set and no gradient "
            f"trains, got a choice of {_listed(wrong)}. Let it be False there."
        )


def _asked(params: PyTree, trained: Trained) -> PyTree:
    """What `trained` says of each leaf."""
    if isinstance(trained, str):
        return _by_name(params, trained)
    if _is_mask(trained):
        return _by_mask(params, trained)
    if callable(trained):
        return jax.tree_util.tree_map_with_path(lambda path, _: bool(trained(_word(path))), params)
    raise ValueError(
        "`trained` must be None, a name, booleans in the structure of `params` or a function "
        f"of a leaf's path, got trained={trained!r}."
    )


def _by_name(params: PyTree, trained: str) -> PyTree:
    check_name(trained, TRAINED, "trained")
    if not isinstance(params, LayeredParams):
        raise ValueError(
            f"`trained` must be None or a filter for these `params`, got trained={trained!r}. The "
            "names are for the learners of unlazy.nets; give booleans or a function of the path."
        )
    if trained == "weights" and isinstance(params, BiasedParams):
        return params.is_weight()
    if trained == "last" and getattr(params, "last_is_shared", False):
        raise ValueError(
            "`trained` must be another for a network whose output weights are used twice, got "
            "trained='last'. Train the linear model net.last_layer(params), from params.A on."
        )
    return jax.tree.map(lambda last: last == (trained == "last"), params.is_last())


def _is_mask(trained: Any) -> bool:
    leaves = jax.tree.leaves(trained)
    return bool(leaves) and all(isinstance(leaf, bool | np.bool_) for leaf in leaves)


def _by_mask(params: PyTree, mask: PyTree) -> PyTree:
    try:
        return jax.tree.map(lambda yes, part: jax.tree.map(lambda _: bool(yes), part), mask, params)
    except ValueError as error:
        raise ValueError(
            "`trained` must be booleans in the structure of `params`, "
            f"got another structure: {error}"
        ) from error


def _is_numpy(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic) and jnp.issubdtype(leaf.dtype, jnp.number)


def _as_array(leaf: Any) -> Any:
    return leaf if isinstance(leaf, Array) else jnp.asarray(leaf)


def _as_kept(leaf: Any) -> Any:
    return _as_array(leaf) if _is_numpy(leaf) else leaf


def _check_real(arrays: PyTree) -> None:
    if all(_is_real(leaf.dtype) for leaf in jax.tree.leaves(arrays)):
        return
    for path, leaf in jax.tree_util.tree_leaves_with_path(arrays):
        if not _is_real(leaf.dtype):
            raise ValueError(
                f"`params` must be real where they are trained, got dtype {leaf.dtype} at "
                f"{_word(path)}. Give real and imaginary parts as two arrays."
            )


@functools.cache
def _is_real(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _listed(words: list[str]) -> str:
    return ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")


def _word(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
