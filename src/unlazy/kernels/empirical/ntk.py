# SPDX-License-Identifier: Apache-2.0
"""The tangent kernel of a network of finite width."""

import contextlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from unlazy.core.checks import check_finite, check_name, check_positive, check_real
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.trained import Trained, partition
from unlazy.kernels.empirical import blocks
from unlazy.kernels.empirical.model import Apply, Model, check_rowwise
from unlazy.taylor.movement import is_wide

Implementation = Literal["auto", "layerwise", "jacobian", "ntk-vector"]
_IMPLEMENTATIONS = ("auto", "layerwise", "jacobian", "ntk-vector")
_MEMORY = 2**30  # bytes: a block of a thousand rows for most networks, and little on any machine


@runtime_checkable
class HasLastLayer(Protocol):
    """A network whose last layer is a model of its own, as where its weights are used twice."""

    def last_layer(self, params: Any) -> Any:
        """The model `f(weights, x)` of the last layer, with its weights in the field `start`."""
        ...


@entry
def empirical_ntk(
    f: Apply,
    params: PyTree,
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    trained: Trained = None,
    implementation: Implementation = "auto",
    memory: int | float = _MEMORY,
) -> Float[Array, "n1 n2 c c"]:
    r"""The tangent kernel of any network at its present parameters.

    $$\Theta_{ijab} = \sum_p \frac{\partial f_a(x_i)}{\partial\theta_p}
    \frac{\partial f_b(x_j)}{\partial\theta_p}$$

    Where a weight enters the network through one matrix product or convolution, no Jacobian is
    formed: with $A_l$ the layer's inputs and $B_l$ the gradients of the outputs with respect to its
    pre-activations,

    $$\Theta = \sum_l (A_l A_l^\top) \circ (B_l B_l^\top).$$

    Such weights are found by tracing `f`; one that multiplies several inputs along the same axes
    has a row of $A_l$ and $B_l$ for each, to be summed over. Every other parameter (in a scan, in a
    normalisation) is differentiated, with the same result to rounding. For a two-layer network this
    is $H = K \circ (A A^\top)/m$ with $A_{ir} = a_r \sigma'(w_r^\top x_i)$; for a `ResNet3` it is
    the closed form with $M_x = I + A D_V V$, its A used twice.

    Symmetric to the last bit when `x2` is None. Computed in the dtype of the trained parameters,
    products in full precision (never TF32 on a GPU) inside `f` as well; float64 parameters give a
    float64 kernel whatever JAX's global setting is, half precision gives float32.

    Source: AR-5 and AR-43 for two layers, arXiv:1901.08584 eq. (5); RN-18 for residual networks,
    arXiv:1905.10337; the sum over layers is derived from the chain rule.

    Args:
        f: the network: `f(params, x)` of shape (n,) or (n, c), each row computed by itself. An
            Equinox model: `lambda model, x: jax.vmap(model)(x)`; a Flax linen model: `model.apply`;
            Flax nnx: `lambda state, x: nnx.merge(graphdef, state)(x)`.
        params: any pytree; what is not an array of floats is kept fixed.
        x1: samples along the first axis.
        x2: other samples, for the cross kernel; None means `x1`.
        trained: which parameters count. None: all; "hidden", "weights" or "last", for the learners
            of `unlazy.nets` ("last" of a `ResNet3`: the outer use of A alone); booleans in the
            structure of `params`; or a function of a leaf's path, such as
            `lambda path: path.endswith("weight")`.
        implementation: "layerwise" as above; "jacobian", which differentiates every parameter;
            "ntk-vector", one forward derivative a column, slow and small; "auto" chooses
            "layerwise", or "ntk-vector" where the gradients of two samples exceed `memory`.
        memory: bytes for temporary arrays, beside the kernel itself; an estimate, not a promise.

    Returns:
        The kernel, with c = 1 for a network of one output.

    Raises:
        ValueError: `f` mixes rows or returns another shape; an argument does not fit `params`.

    Example:
        >>> import equinox as eqx
        >>> model = eqx.nn.MLP(2, 3, width_size=8, depth=2, key=jax.random.key(0))
        >>> K = empirical_ntk(lambda model, x: jax.vmap(model)(x), model, jnp.eye(2))
        >>> K.shape
        (2, 2, 3, 3)
    """
    return _kernel(f, params, x1, x2, trained, implementation, memory, traced=False)


@entry
def empirical_ntk_traced(
    f: Apply,
    params: PyTree,
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    trained: Trained = None,
    implementation: Implementation = "auto",
    memory: int | float = _MEMORY,
) -> Float[Array, "n1 n2"]:
    r"""The tangent kernel summed (not averaged) over the outputs.

    $$\Theta_{ij} = \sum_a \Theta_{ijaa}$$

    without the full kernel in between. Arguments and precision as for `empirical_ntk`.

    Source: AR-5, arXiv:1901.08584 eq. (5), where there is one output.

    Example:
        >>> K = empirical_ntk_traced(lambda w, x: x @ w, jnp.ones((2, 3)), 2 * jnp.eye(2))
        >>> print(K)
        [[12.  0.]
         [ 0. 12.]]
    """
    return _kernel(f, params, x1, x2, trained, implementation, memory, traced=True)


@entry
def empirical_ntk_diagonal(
    f: Apply,
    params: PyTree,
    x: Shaped[Array | np.ndarray, "n ..."],
    *,
    trained: Trained = None,
    implementation: Implementation = "auto",
    memory: int | float = _MEMORY,
) -> Float[Array, "n c c"]:
    r"""The tangent kernel of each sample with itself, $\Theta_{iiab}$, at linear cost in n.

    Arguments and precision as for `empirical_ntk`.

    Example:
        >>> K = empirical_ntk_diagonal(lambda w, x: x @ w, jnp.ones(2), jnp.array([[3.0, 4.0]]))
        >>> print(K)
        [[[25.]]]
    """
    problem = _prepare(f, params, {"x": x}, trained, implementation, memory)
    with problem.precision():
        model, arrays, method = problem.model, problem.arrays, problem.method(traced=False)
        rows = problem.samples("x")
        cost = blocks.survey(model, arrays, rows, method)
        check_rowwise(model, arrays, _some_rows(rows))
        block = int(memory / (cost.row + cost.pair))
        if problem.uses_products(block):
            return blocks.diagonal_from_products(model, arrays, rows, method)
        return blocks.diagonal(model, arrays, rows, method, block)


def _kernel(f, params, x1, x2, trained, implementation, memory, *, traced: bool) -> Array:
    inputs = {"x1": x1} if x2 is None else {"x1": x1, "x2": x2}
    problem = _prepare(f, params, inputs, trained, implementation, memory)
    with problem.precision():
        model, arrays, method = problem.model, problem.arrays, problem.method(traced=traced)
        rows1 = problem.samples("x1")
        rows2 = None if x2 is None else problem.samples("x2")
        cost = blocks.survey(model, arrays, rows1, method)
        check_rowwise(model, arrays, _some_rows(rows1, rows2))
        if problem.uses_products(cost.block(memory)):
            return blocks.from_products(model, arrays, rows1, rows2, method)
        most = max(rows1.shape[0], 0 if rows2 is None else rows2.shape[0])
        return blocks.kernel(model, arrays, rows1, rows2, method, cost.blocks(most, memory))


class _Problem(NamedTuple):
    """The checked arguments."""

    model: Model
    arrays: PyTree  # the trained parameters
    inputs: dict[str, Any]
    implementation: str
    dtype: np.dtype  # of the kernel
    is_wide: bool  # whether anything is float64

    @contextlib.contextmanager
    def precision(self) -> Iterator[None]:
        """What the kernel is computed in, whatever the global settings are."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(jax.default_matmul_precision("highest"))
            if self.is_wide:
                stack.enter_context(float64())
            yield

    def method(self, *, traced: bool) -> blocks.Method:
        return blocks.Method(self.implementation != "jacobian", traced, self.dtype)

    def samples(self, name: str) -> Array:
        """The inputs as an array of the parameters' precision."""
        x = jnp.asarray(self.inputs[name])
        is_float = jnp.issubdtype(x.dtype, jnp.floating)
        if is_float and (x.dtype == jnp.float64) != (self.dtype == jnp.float64):
            return x.astype(self.dtype)
        return x

    def uses_products(self, block: int) -> bool:
        return self.implementation == "ntk-vector" or (self.implementation == "auto" and block < 1)


def _prepare(f, params, inputs: dict[str, Any], trained, implementation, memory) -> _Problem:
    check_name(implementation, _IMPLEMENTATIONS, "implementation")
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
    with float64() if wide else contextlib.nullcontext():
        arrays, frozen = partition(params, trained)
    is_double = any(_is_float64(leaf) for leaf in jax.tree.leaves(arrays))
    dtype = np.dtype(np.float64 if is_double else np.float32)
    return _Problem(Model(f, frozen), arrays, inputs, implementation, dtype, wide)


def _is_float64(leaf: Any) -> bool:
    return getattr(leaf, "dtype", None) == np.float64


def _some_rows(x1: Array, x2: Array | None = None) -> Array:
    """A few samples, as different as can be had without looking."""
    first = x1[: x1.shape[0] : max(x1.shape[0] // 3, 1)][:4]
    return first if x2 is None else jnp.concatenate([first, x2[-1:].astype(x1.dtype)])
