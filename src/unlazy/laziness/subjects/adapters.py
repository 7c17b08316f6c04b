# SPDX-License-Identifier: Apache-2.0
"""Models of Equinox, Flax and PyTorch as what every instrument takes: `f(params, x)` and `params`.

Dropout and batch normalisation are in evaluation mode. Running statistics are part of `params`,
so that each snapshot of a model is evaluated with its own; no instrument counts them as trained.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from unlazy.core.checks import short
from unlazy.core.entries import entry

Split = Callable[..., PyTree]
"""The parameters of a model, given as the model itself was."""


class Adapted(NamedTuple):
    """A model as a function and its parameters: `f, params = from_equinox(model)`."""

    f: Callable[[PyTree, Any], Array]
    params: PyTree

    @entry
    def params_of(self, *model: Any) -> PyTree:
        """The parameters of another snapshot of the same model, to which `f` belongs as well.

        Args:
            model: what the adapter was given: the model, with its state if it has one; for Flax
                Linen the `variables`.

        Raises:
            ValueError: that model has other parameters; the path of the first is named.
        """
        found = self.f.params_of(*model)  # pyright: ignore[reportFunctionMemberAccess]  # all below have it
        _check_like(found, self.params)
        return found


def _check_like(found: PyTree, expected: PyTree) -> None:
    """Raise unless both have arrays of the same shapes at the same paths."""
    ours, theirs = (
        {
            jax.tree_util.keystr(path, simple=True, separator="/"): np.shape(leaf)
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        }
        for tree in (expected, found)
    )
    for path in [*ours, *theirs]:
        if ours.get(path) != theirs.get(path):
            raise ValueError(
                "`model` must be a snapshot of the model that was adapted, got "
                f"{_in_words(theirs.get(path))} at {path}, not {_in_words(ours.get(path))}."
            )


def _in_words(shape: tuple[int, ...] | None) -> str:
    return "nothing" if shape is None else f"an array of shape {shape}"


@entry
def from_equinox(model: Any, state: Any = None, **settings: Any) -> Adapted:
    """An Equinox model, which takes one sample, as a function of a whole batch.

    Args:
        model: an `eqx.Module`, called as `model(x)`, or `model(x, state)` if a state is given. It
            is examined in `eqx.nn.inference_mode`; the model itself is not changed.
        state: its `eqx.nn.State`, if it has one; what the model returns beside its output is then
            dropped, and `params` are a pair of parameters and state.
        settings: further arguments by name for each call, such as `key=None`.

    Returns:
        The pair `(f, params)`, whose `params_of` gives the parameters of another snapshot.

    Raises:
        TypeError: `model` is no Equinox module, or `state` no state.

    Example:
        >>> mlp = eqx.nn.MLP(3, 2, width_size=8, depth=1, key=jax.random.key(0))
        >>> f, params = from_equinox(mlp)
        >>> print(f(params, np.ones((5, 3), np.float32)).shape)
        (5, 2)
    """
    if not isinstance(model, eqx.Module):
        raise TypeError(f"`model` must be an equinox.Module, got model={short(model)}.")
    if state is not None and not isinstance(state, eqx.nn.State):
        raise TypeError(f"`state` must be an equinox.nn.State or None, got state={short(state)}.")
    rest = eqx.filter(eqx.nn.inference_mode(model), eqx.is_inexact_array, inverse=True)
    f = EquinoxFunction(rest, state is not None, settings)
    return Adapted(f, f.params_of(model, *([] if state is None else [state])))


@dataclasses.dataclass(frozen=True, eq=False)
class EquinoxFunction:
    """An Equinox model without its parameters, as a function of them and of a batch."""

    rest: PyTree
    has_state: bool
    settings: Mapping[str, Any]

    def __call__(self, params: PyTree, x: PyTree) -> Array:
        """The outputs at all rows."""
        weights, *state = params if self.has_state else (params,)
        model = eqx.combine(weights, self.rest)

        def of_row(row: Any) -> Any:
            found = model(row, *state, **self.settings)
            return found[0] if self.has_state and isinstance(found, tuple) else found

        return jax.vmap(of_row)(x)

    def params_of(self, model: Any, state: Any = None) -> PyTree:
        """Its parameters, with the state if there is one."""
        weights = eqx.filter(model, eqx.is_inexact_array)
        return (weights, state) if self.has_state else weights


@entry
def from_linen(module: Any, variables: Any, **settings: Any) -> Adapted:
    """A Flax Linen module and its variables as a function and its parameters.

    Args:
        module: a `flax.linen.Module`.
        variables: what its `init` returned: "params" and other collections. They are the
            parameters; of these only the collection "params" is trained.
        settings: arguments by name for each call, among them those that turn dropout and batch
            normalisation to evaluation mode: `train=False`, `deterministic=True`.

    Returns:
        The pair `(f, params)`, whose `params_of` takes the variables of another snapshot.

    Raises:
        TypeError: `module` is no Linen module, or `variables` no collections.
        ValueError: at a call of `f`, where dropout or batch normalisation is in training mode.

    Example:
        >>> import flax.linen as nn
        >>> dense, x = nn.Dense(2), np.ones((5, 3), np.float32)
        >>> f, params = from_linen(dense, dense.init(jax.random.key(0), x))
        >>> print(f(params, x).shape)
        (5, 2)
    """
    if not _is_flax(module, "flax.linen.module"):
        raise TypeError(f"`module` must be a flax.linen.Module, got module={short(module)}.")
    f = LinenFunction(module, settings)
    return Adapted(f, f.params_of(variables))


@dataclasses.dataclass(frozen=True, eq=False)
class LinenFunction:
    """A Linen module as a function of its variables and of a batch."""

    module: Any
    settings: Mapping[str, Any]

    def __call__(self, params: PyTree, x: PyTree) -> Array:
        """The outputs at all rows."""
        try:
            return self.module.apply(params, x, **self.settings)
        except Exception as error:
            if type(error).__name__ not in ("InvalidRngError", "ModifyScopeVariableError"):
                raise
            raise ValueError(
                "`module` must be in evaluation mode, got dropout or batch normalisation in "
                "training mode. Pass from_linen the argument that says so, such as train=False "
                f"or deterministic=True. Flax says: {str(error).splitlines()[0]}"
            ) from error

    def params_of(self, variables: Any) -> PyTree:
        """The variables themselves."""
        if not isinstance(variables, Mapping) or "params" not in variables:
            raise TypeError(
                "`variables` must be the collections of a Linen module, with 'params' among them, "
                f"got variables={short(variables)}."
            )
        return variables


@entry
def from_nnx(model: Any, **settings: Any) -> Adapted:
    """A Flax NNX model as a function and its parameters.

    Args:
        model: an `nnx.Module`. A copy of it in evaluation mode, as `model.eval()` sets it, is
            examined; the model itself is not changed.
        settings: arguments by name for each call.

    Returns:
        The pair `(f, params)`, whose `params_of` gives the parameters of another snapshot. They
        are an `nnx.State` of everything but random keys; only `nnx.Param` is trained.

    Raises:
        TypeError: `model` is no NNX module.
        ValueError: at a call of `f`, where batch normalisation is in training mode all the same.

    Example:
        >>> from flax import nnx
        >>> f, params = from_nnx(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))
        >>> print(f(params, np.ones((5, 3), np.float32)).shape)
        (5, 2)
    """
    if not _is_flax(model, "flax.nnx.module"):
        raise TypeError(f"`model` must be a flax.nnx.Module, got model={short(model)}.")
    graph, params, rest = _split_nnx(model)
    return Adapted(NnxFunction(graph, rest, settings), params)


@dataclasses.dataclass(frozen=True, eq=False)
class NnxFunction:
    """An NNX model without its parameters, as a function of them and of a batch."""

    graph: Any
    rest: Any
    settings: Mapping[str, Any]

    def __call__(self, params: PyTree, x: PyTree) -> Array:
        """The outputs at all rows."""
        from flax import nnx

        model = nnx.merge(self.graph, params, self.rest)
        before = jax.tree.leaves(nnx.state(model, nnx.BatchStat))
        found = model(x, **self.settings)
        after = jax.tree.leaves(nnx.state(model, nnx.BatchStat))
        if any(old is not new for old, new in zip(before, after, strict=True)):
            raise ValueError(
                "`model` must be in evaluation mode, got batch normalisation that updates its "
                "running statistics. Let model.eval() decide, or pass from_nnx the argument."
            )
        return found

    def params_of(self, model: Any) -> PyTree:
        """Everything but the structure and random keys."""
        return _split_nnx(model)[1]


def _split_nnx(model: Any) -> tuple[Any, Any, Any]:
    """The structure in evaluation mode, the state without random keys, and these."""
    from flax import nnx

    copy = nnx.clone(model)
    copy.eval()
    graph, params, *rest = nnx.split(copy, nnx.Not(nnx.RngState), ...)
    return graph, params, rest[0]


def is_flax_module(value: Any) -> bool:
    """Whether this is a module of Flax, Linen or NNX."""
    return _is_flax(value, "flax.linen.module") or _is_flax(value, "flax.nnx.module")


def _is_flax(value: Any, where: str) -> bool:
    """Whether this is a module of Flax, asked without importing it."""
    bases = ((base.__module__, base.__name__) for base in type(value).__mro__)
    return (where, "Module") in bases


def from_torch(module: Any, *, trained: Any = None, memory: int | None = None) -> Any:
    """A PyTorch module as a `TorchSubject`; for arguments and errors see there."""
    from unlazy.laziness.subjects.pytorch.modules import check_torch_module

    check_torch_module(module)
    from unlazy.laziness.subjects.pytorch.subject import TorchSubject  # PyTorch is there by now

    return TorchSubject(module, trained=trained, memory=memory)
