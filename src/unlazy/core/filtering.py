# SPDX-License-Identifier: Apache-2.0
"""Compiled functions of any arguments, whose calls return while the device still computes.

`eqx.filter_jit` waits for the device at the end of each call, to turn errors of the run into
readable ones. A computation of several programs then pays for the host between each two of them.
On one H200 a kernel of 50 samples that keeps the device busy for 0.13 ms took 6.8 ms; without
waiting, and traced while the device computes (`guesses`), it took 4.3 ms.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import equinox as eqx
import jax

_MOST = 64  # outcomes that a function remembers
# Settings that dtypes, and so shapes of what is computed, depend on, and with them what is refused.
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
)
_IN_ORDER = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

P = ParamSpec("P")
T = TypeVar("T")


@jax.tree_util.register_static
class Rest(NamedTuple):
    """What a pytree holds beside its arrays."""

    structure: Any
    values: tuple[Any, ...]  # one per leaf, None in the place of an array
    places: tuple[int, ...]  # of the arrays

    def joined(self, arrays: list[Any]) -> Any:
        """The pytree with these arrays."""
        leaves = list(self.values)
        for k, array in zip(self.places, arrays, strict=True):
            leaves[k] = array
        return jax.tree.unflatten(self.structure, leaves)


def parted(tree: Any) -> tuple[list[Any], Rest]:
    """The arrays of a pytree, JAX's and NumPy's, and the rest."""
    leaves, structure = jax.tree.flatten(tree)
    places = tuple(k for k, leaf in enumerate(leaves) if eqx.is_array(leaf))
    arrays = [leaves[k] for k in places]
    for k in places:
        leaves[k] = None
    return arrays, Rest(structure, tuple(leaves), places)


def jit_filtered(function: Callable[P, T], **options: Any) -> Callable[P, T]:
    """`jax.jit` for arguments and results of any kind: what is no array is static.

    Args:
        function: what is compiled, for each structure, shape and static value of its arguments.
        options: those of `jax.jit`.
    """
    return _called(function, _jitted(function, options))


def remembered(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose outcome depends on structures and shapes alone: it is kept.

    Where it returns arrays, their shapes are what is kept. Nothing is compiled, and nothing runs.
    """
    shapes_of = _jitted(function, {}).eval_shape
    known: dict[Any, tuple[Any, Rest]] = {}

    def run(rest: Rest, arrays: list[Any]) -> tuple[Any, Rest]:
        # JAX keeps the trace, but looks it up in milliseconds where there are a hundred arrays.
        settings = tuple([getattr(jax.config, name) for name in _SETTINGS])
        key = rest, settings, tuple([_kind(array) for array in arrays])
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST:
                known.clear()
            found = known[key] = shapes_of(rest, arrays)
        return found

    return _called(function, run)


def _kind(array: Any) -> tuple[Any, ...]:
    return array.shape, array.dtype, getattr(array, "weak_type", False)


def _jitted(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    def run(rest: Rest, arrays: list[Any]) -> tuple[list[Any], Rest]:
        args, kwargs = rest.joined(arrays)
        return parted(function(*args, **kwargs))

    run.__name__, run.__qualname__ = function.__name__, function.__qualname__  # for JAX's logs
    return jax.jit(run, static_argnums=0, **options)


def _called(function: Callable[P, T], run: Callable[..., Any]) -> Callable[P, T]:
    signature = inspect.signature(function)
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    in_order = len(kinds) if all(kind in _IN_ORDER for kind in kinds) else -1

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if kwargs or len(args) != in_order:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()  # one program however an argument is passed
            arrays, rest = parted((bound.args, bound.kwargs))
        else:
            arrays, rest = parted((args, {}))
        found, others = run(rest, arrays)
        return others.joined(found)

    return call
