# SPDX-License-Identifier: Apache-2.0
"""The checked arguments of an empirical kernel: network, trained parameters and samples."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args, runtime_checkable

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
from unlazy.core.compiling import jit_network
from unlazy.core.current import current, unwrapped
from unlazy.core.guesses import begun
from unlazy.core.machine import free_memory
from unlazy.core.trained import Trained, partition
from unlazy.linalg.iterative import Progress
from unlazy.taylor.movement import float64_if, is_wide

Apply = Callable[[Any, Any], Array]
"""A network `f(params, x)`, with x of shape (n, ...) and outputs (n,) or (n, c)."""

Implementation = Literal["auto", "layerwise", "jacobian", "ntk-vector"]

T = TypeVar("T")

_SURELY_FREE = 2**28

SIGNS = {None: (False, False), "both": (True, True), "second": (False, True)}
"""Which of the two gradients of a kernel enter by their signs."""


class Options(NamedTuple):
    """The arguments that all empirical kernels share."""

    trained: Trained = None
    sum_of_outputs: bool = False
    sign: str | None = None
    implementation: str = "auto"
    memory: int | float | None = None
    progress: Progress | None = None


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
    is_summed: bool = False  # whether the sum of the outputs stands for them

    def batch(self, trained: PyTree, x: Array) -> Float[Array, "n c"]:
        """The outputs at the rows of `x`, one column at least."""
        out = self.f(eqx.combine(trained, self.frozen), x).reshape(x.shape[0], -1)
        return jnp.sum(out, axis=1, keepdims=True) if self.is_summed else out

    def __call__(self, trained: PyTree, x: Array) -> Float[Array, " c"]:
        """The outputs at one sample."""
        return self.batch(trained, x[None])[0]

    def as_it_is_now(self, trained: PyTree, x: Array | jax.ShapeDtypeStruct) -> "Model":
        """The model with what `f` reads from its surroundings at this moment."""
        f = current(unwrapped(self.f), *_example(self, trained, x))
        return Model(f, self.frozen, self.is_summed)


# No method: Equinox makes a module of one whenever it is looked up.
def _example(model: Model, trained: PyTree, x: Array | jax.ShapeDtypeStruct) -> tuple:
    """What `f` is traced with to see whether it has changed."""
    frozen = model.frozen
    params = eqx.combine(trained, frozen) if jax.tree.leaves(frozen) else trained
    return params, jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype)


class Task(NamedTuple):
    """What is computed, and how."""

    model: Model
    trained: PyTree
    layerwise: bool
    traced: bool
    dtype: np.dtype  # of the kernel
    signs: tuple[bool, bool] = (
        False,
        False,
    )  # whose gradients enter by sign

    @property
    def is_symmetric(self) -> bool:
        """Whether exchanging the samples leaves the kernel as it is."""
        return self.signs[0] == self.signs[1]


class Problem(NamedTuple):
    """The checked arguments."""

    task: Task
    inputs: dict[str, Any]
    implementation: str
    is_wide: bool  # whether anything is float64
    given: int | float | None  # bytes of memory
    progress: Progress | None

    def memory(self, wanted: int | float) -> int | float:
        """The bytes for temporary arrays, if so many are wanted: few are there without asking."""
        if self.given is not None:
            return self.given
        return _SURELY_FREE if wanted <= _SURELY_FREE else free_memory()

    @contextlib.contextmanager
    def precision(self) -> Iterator[None]:
        """The scope in which the kernel is computed, whatever the global settings are."""
        with jax.default_matmul_precision("highest"), float64_if(self.is_wide):
            yield

    def samples(self, name: str) -> Array:
        """The inputs as an array of the parameters' precision."""
        x = self.inputs[name]
        x = x if isinstance(x, Array) else jnp.asarray(x)
        dtype = self._dtype_of(x)
        return x if x.dtype == dtype else x.astype(dtype)

    def as_it_is_now(self) -> "Problem":
        """The problem of the network with what it reads from its surroundings at this moment."""
        task = self.task
        with self.precision():
            model = task.model.as_it_is_now(task.trained, self._row_like())
        return self._replace(task=task._replace(model=model))

    def begun(self, launch: Callable[[Task], T]) -> T:
        """`launch(task)` of the network as it is now, begun as it was before (`core.guesses`)."""
        task, row = self.task, self._row_like()
        model, example = task.model, _example(task.model, task.trained, row)

        def launched(f: Apply) -> T:
            return launch(task._replace(model=Model(f, model.frozen, model.is_summed)))

        key, wait = (row.shape[1:], row.dtype), self.progress is not None
        return begun(launched, unwrapped(model.f), example, key, wait=wait)

    def _row_like(self) -> jax.ShapeDtypeStruct:
        x = next(iter(self.inputs.values()))
        return jax.ShapeDtypeStruct(x.shape, jax.dtypes.canonicalize_dtype(self._dtype_of(x)))

    def _dtype_of(self, x: Any) -> Any:
        dtype = self.task.dtype
        is_float = jnp.issubdtype(x.dtype, jnp.floating)
        return dtype if is_float and (x.dtype == np.float64) != (dtype == np.float64) else x.dtype

    def check_finite(self) -> None:
        """Raise if an entry of the inputs is not finite."""
        for name, x in self.inputs.items():
            _check_entries(x, name)

    def uses_products(self, block: int) -> bool:
        """Whether the kernel is computed column by column, if features of `block` rows fit."""
        if any(self.task.signs):
            return False
        return self.implementation == "ntk-vector" or (self.implementation == "auto" and block < 1)


def check_problem(
    f: Apply, params: PyTree, inputs: dict[str, Any], options: Options, *, traced: bool
) -> Problem:
    """As `check_arguments`, and trace `f` as it is now."""
    return check_arguments(f, params, inputs, options, traced=traced).as_it_is_now()


def check_arguments(
    f: Apply,
    params: PyTree,
    inputs: dict[str, Any],
    options: Options,
    *,
    traced: bool,
    finite: bool = True,
) -> Problem:
    """Raise unless the arguments fit each other; `inputs` are arrays of samples by their names.

    Args:
        f: the network.
        params: its parameters.
        inputs: the samples.
        options: what all kernels are asked.
        traced: whether the kernel is summed over the outputs.
        finite: check the entries of the inputs too, for which a device is waited for; else the
            caller does, with `Problem.check_finite`.
    """
    trained, implementation = options.trained, options.implementation
    check_name(implementation, get_args(Implementation), "implementation")
    if options.memory is not None:
        check_positive(options.memory, "memory")
    if options.sign is not None:
        check_name(options.sign, tuple(name for name in SIGNS if name), "sign")
        if implementation == "ntk-vector":
            raise ValueError(
                "`implementation` must be another where `sign` is given, got "
                "implementation='ntk-vector': a product with a vector sums up what has a sign."
            )
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
        if finite:
            _check_entries(x, name)
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
    model = Model(f, frozen, bool(options.sum_of_outputs))
    task = Task(model, arrays, implementation != "jacobian", traced, dtype, SIGNS[options.sign])
    return Problem(task, inputs, implementation, wide, options.memory, options.progress)


def _check_entries(x: Any, name: str) -> None:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        check_finite(x, name)


def check_outputs(model: Model, trained: PyTree, x: jax.ShapeDtypeStruct) -> None:
    """Raise unless `f` returns real outputs of shape (n,) or (n, c) for n rows."""
    rows = jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype)
    with calling("f", "these `params` and a batch of samples"):
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


def check_rowwise(
    model: Model,
    trained: PyTree,
    x1: Array,
    x2: Array | None = None,
    check_inputs: Callable[[], None] | None = None,
) -> Callable[[], None]:
    """Compare outputs at rows alone and among others, as batch normalisation mixes them.

    Returns the check, which raises; call it once the work that it guards is under way, so that a
    device need not wait for it. `check_inputs` is called in it if an entry of the inputs is not
    finite, or if that is not known, to say which.
    """
    count = x1.shape[0] + (0 if x2 is None else 1)
    if count < 2 or not all(is_known(leaf) for leaf in jax.tree.leaves((x1, x2, trained))):
        return check_inputs or (lambda: None)
    # On a GPU, TF32 rounds a row by itself otherwise than the same row among others.
    with jax.default_matmul_precision("highest"):
        found = _rowwise_gap(model, trained, x1, x2)

    def check() -> None:
        gap, scale, eps, is_finite = np.asarray(found).tolist()
        if check_inputs is not None and not is_finite:
            check_inputs()
        _raise_unless_rowwise(gap, scale, eps)

    return check


def _raise_unless_rowwise(gap: float, scale: float, eps: float) -> None:
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


@jit_network
def _rowwise_gap(model: Model, trained: PyTree, x1: Array, x2: Array | None) -> Float[Array, "4"]:
    is_finite = jnp.all(jnp.isfinite(x1)) & (x2 is None or jnp.all(jnp.isfinite(x2)))
    x = x1[: x1.shape[0] : max(x1.shape[0] // 3, 1)][:4]  # a few samples, spread over the rows
    x = x if x2 is None else jnp.concatenate([x, x2[-1:].astype(x.dtype)])
    # Beside the parameters: at a start whose halves cancel the outputs are rounding, no scale.
    trained = jax.tree.map(_beside, trained)
    together, alone = model.batch(trained, x), model.batch(trained, x[:1])
    scale = jnp.max(jnp.abs(together))
    eps = jnp.asarray(jnp.finfo(scale.dtype).eps, scale.dtype)
    gap = jnp.max(jnp.abs(together[0] - alone[0]))
    return jnp.stack([gap, scale, eps, is_finite.astype(scale.dtype)])


def _beside(leaf: Array) -> Array:
    """Perturb each entry by up to 10%, neighbours by different amounts."""
    # Multiples of the golden section modulo one: on a CPU, cosines took longer than small kernels.
    steps = jnp.arange(leaf.size, dtype=jnp.uint32) * jnp.uint32(2654435769)
    wave = (steps >> 17).astype(leaf.dtype) / 2**14 - 1
    return leaf * (1 + wave.reshape(leaf.shape) / 10)
