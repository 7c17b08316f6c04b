# SPDX-License-Identifier: Apache-2.0
"""The checked arguments of an empirical kernel: network, trained parameters and samples."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from unlazy.core.checks import (
    calling,
    check_finite,
    check_name,
    check_positive,
    check_real,
    is_known,
)
from unlazy.core.compiling import jit_untuned
from unlazy.core.trained import Trained, partition
from unlazy.taylor.movement import float64_if, is_wide

Apply = Callable[[Any, Any], Array]
"""A network `f(params, x)`, with x of shape (n, ...) and outputs (n,) or (n, c)."""

Implementation = Literal["auto", "layerwise", "jacobian", "ntk-vector"]


@runtime_checkable
class HasLastLayer(Protocol):
    """A network whose last layer is a model of its own, as where its weights are used twice."""

    def last_layer(self, params: Any) -> Any:
        """The model `f(weights, x)` of the last layer, with its weights in the field `start`."""
        ...


class Model(eqx.Module):
    """The network, with the parameters that are not trained."""

    f: Apply
    frozen: PyTree

    def batch(self, trained: PyTree, x: Array) -> Float[Array, "n c"]:
        """The outputs at the rows of `x`, one column at least."""
        out = self.f(eqx.combine(trained, self.frozen), x)
        return out.reshape(x.shape[0], -1)

    def __call__(self, trained: PyTree, x: Array) -> Float[Array, " c"]:
        """The outputs at one sample."""
        return self.batch(trained, x[None])[0]


class Task(NamedTuple):
    """What is computed, and how."""

    model: Model
    trained: PyTree
    layerwise: bool
    traced: bool
    dtype: np.dtype  # of the kernel


class Problem(NamedTuple):
    """The checked arguments."""

    task: Task
    inputs: dict[str, Any]
    implementation: str
    is_wide: bool  # whether anything is float64

    @contextlib.contextmanager
    def precision(self) -> Iterator[None]:
        """The scope in which the kernel is computed, whatever the global settings are."""
        with jax.default_matmul_precision("highest"), float64_if(self.is_wide):
            yield

    def samples(self, name: str) -> Array:
        """The inputs as an array of the parameters' precision."""
        x, dtype = jnp.asarray(self.inputs[name]), self.task.dtype
        is_float = jnp.issubdtype(x.dtype, jnp.floating)
        return (
            x.astype(dtype)
            if is_float and (x.dtype == jnp.float64) != (dtype == jnp.float64)
            else x
        )

    def uses_products(self, block: int) -> bool:
        """Whether the kernel is computed column by column, if features of `block` rows fit."""
        return self.implementation == "ntk-vector" or (self.implementation == "auto" and block < 1)


def check_problem(
    f: Apply,
    params: PyTree,
    inputs: dict[str, Any],
    trained: Trained,
    implementation: str,
    memory: int | float,
    *,
    traced: bool,
) -> Problem:
    """Raise unless the arguments fit each other; `inputs` are arrays of samples by their names."""
    check_name(implementation, get_args(Implementation), "implementation")
    check_positive(memory, "memory")
    for name, x in inputs.items():
        check_real(x, name)
    inputs = {  # lists keep their kind: integers may be tokens
        name: x if isinstance(x, Array) else np.asarray(x) for name, x in inputs.items()
    }
    for name, x in inputs.items():
        if np.ndim(x) == 0 or x.shape[0] == 0:
            raise ValueError(
                f"`{name}` must have samples along its first axis, one at least, "
                f"got {name}.shape={np.shape(x)}."
            )
        if jnp.issubdtype(x.dtype, jnp.inexact):
            check_finite(x, name)
    shapes = {name: x.shape[1:] for name, x in inputs.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(
            "`x1` and `x2` must hold samples of one shape, "
            f"got x1.shape={inputs['x1'].shape} and x2.shape={inputs['x2'].shape}."
        )
    is_last = isinstance(trained, str) and trained == "last"
    if is_last and isinstance(f, HasLastLayer):
        last = f.last_layer(params)
        f, params, trained = last, last.start, None
    # Float64 arrays of NumPy keep their digits whatever the global setting is.
    wide = is_wide(params)
    with float64_if(wide):
        arrays, frozen = partition(params, trained)
    dtype = np.dtype(np.float64 if is_wide(arrays) else np.float32)
    task = Task(Model(f, frozen), arrays, implementation != "jacobian", traced, dtype)
    return Problem(task, inputs, implementation, wide)


def check_outputs(model: Model, trained: PyTree, x: Array) -> None:
    """Raise unless `f` returns real outputs of shape (n,) or (n, c) for n rows."""
    rows = jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype)
    with calling("f", "these `params` and rows of `x`, or `x1` and `x2`"):
        out = jax.eval_shape(lambda rows: model.f(eqx.combine(trained, model.frozen), rows), rows)
    shape = getattr(out, "shape", None)
    if shape is None or len(shape) not in (1, 2) or shape[0] != 2 or shape[-1] == 0:
        raise ValueError(
            "`f` must return an array of shape (n,) or (n, c) for n inputs, got "
            f"{shape if shape is not None else type(out).__name__} for n=2. "
            "Flatten the outputs of a sample to one axis; wrap a model of one sample in jax.vmap."
        )
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise ValueError(f"`f` must return real floating-point outputs, got dtype {out.dtype}.")


def check_rowwise(model: Model, trained: PyTree, x: Array) -> None:
    """Raise if the output at a row depends on the other rows, as with batch normalisation."""
    if x.shape[0] < 2 or not all(is_known(leaf) for leaf in (x, *jax.tree.leaves(trained))):
        return
    gap, scale, eps = (float(value) for value in _rowwise_gap(model, trained, x))
    if not np.isfinite(scale):
        raise ValueError(
            "`f` must give finite outputs, got nan or inf at some rows of `x`. Look at `params`."
        )
    if not gap <= eps**0.5 * scale:  # nan counts as a difference: the variance of one row is 0
        raise ValueError(
            "`f` must treat each row of `x` by itself, got an output that changes by "
            f"{gap:.3g} when other rows join the batch. Put batch normalisation and dropout into "
            "evaluation mode."
        )


@jit_untuned
def _rowwise_gap(model: Model, trained: PyTree, x: Array) -> tuple[Array, Array, float]:
    # Beside the parameters: at a start whose halves cancel the outputs are rounding, no scale.
    trained = jax.tree.map(_beside, trained)
    together, alone = model.batch(trained, x), model.batch(trained, x[:1])
    scale = jnp.max(jnp.abs(together))
    return jnp.max(jnp.abs(together[0] - alone[0])), scale, float(jnp.finfo(scale.dtype).eps)


def _beside(leaf: Array) -> Array:
    """Perturb each entry by up to 10%, neighbours by different amounts."""
    wave = jnp.cos(jnp.arange(leaf.size, dtype=leaf.dtype)).reshape(leaf.shape)
    return leaf * (1 + wave / 10)
