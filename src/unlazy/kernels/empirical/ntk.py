# SPDX-License-Identifier: Apache-2.0
"""The tangent kernel of a network of finite width.

The arguments are checked (`model`), the network is traced and its layers are found (`layers`). Then
block by block of the samples (`blockwise`), so that temporary arrays stay within the memory, the
gradients of the outputs are computed as factors (`features`), and the factors are contracted
(`contraction`).
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from unlazy.core.checks import is_known
from unlazy.core.current import settle
from unlazy.core.entries import entry
from unlazy.core.filtering import remembered
from unlazy.core.trained import Trained
from unlazy.kernels.empirical import contraction
from unlazy.kernels.empirical.blockwise import (
    Part,
    assembled,
    blockwise,
    features_of,
    recipe_of,
    starts,
)
from unlazy.kernels.empirical.features import Cost, cost
from unlazy.kernels.empirical.model import (
    Apply,
    Implementation,
    Options,
    Problem,
    Task,
    check_arguments,
    check_outputs,
    check_problem,
    check_rowwise,
)
from unlazy.linalg.iterative import Progress

Sign = Literal["both", "second"]


@entry
def empirical_ntk(
    f: Apply,
    params: PyTree,
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    trained: Trained = None,
    sum_of_outputs: bool = False,
    sign: Sign | None = None,
    implementation: Implementation = "auto",
    memory: int | float | None = None,
    progress: Progress | None = None,
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
    is $H = K \circ (A A^\top)/m$ with $A_{ir} = a_r \sigma'(w_r^\top x_i)$.

    Symmetric to the last bit when `x2` is None. Computed in the dtype of the trained parameters,
    products in full precision (never TF32 on a GPU) inside `f` as well; float64 parameters give a
    float64 kernel whatever JAX's global setting is, half precision gives float32. On a GPU the
    float32 gradients of 128 samples or more are rounded to 16 bits before the sum over p (their
    layers' factors are not): an entry is off by $2^{-16} = 1.5 \times 10^{-5}$ of the norms of its
    two gradients at most, beside the rounding of sums. These gradients are computed by products of
    halves as well, each off by some $5 \times 10^{-6}$ of the norm of its result.

    Source: AR-5 and AR-43 for two layers, arXiv:1901.08584 eq. (5); RN-18 for residual networks,
    arXiv:1905.10337; the sum over layers is derived from the chain rule.

    Args:
        f: the network: `f(params, x)` of shape (n,) or (n, c), each row computed by itself. An
            Equinox model: `lambda model, x: jax.vmap(model)(x)`; a Flax linen model: `model.apply`;
            Flax nnx: `lambda state, x: nnx.merge(graphdef, state)(x)`. It is traced at each call,
            so that a change of what it reads is noticed (15 ms for a transformer of six layers);
            the trace of `jax.jit(f)` is kept by JAX, which notices none (0.4 ms).
        params: any pytree: an Equinox model, the `variables` of a Flax linen model, the state of
            Flax nnx; running statistics, settings and all that is no array of floats are kept
            fixed, as `nets.partition` says.
        x1: samples along the first axis.
        x2: other samples, for the cross kernel; None means `x1`.
        trained: which parameters count, as for `nets.partition`; None for all. With "last",
            output weights that are also used inside the network count in the output layer only.
            Adapters alone: `lambda path: "lora" in path`; biases alone:
            `lambda path: path.endswith("bias")`.
        sum_of_outputs: take the kernel of the one output $\sum_a f_a$, which needs one gradient
            per sample. Divided by c, it is an estimate of the kernel of each output of a wide
            network (arXiv:2206.12543).
        sign: "both" for $\langle \operatorname{sign} g, \operatorname{sign} g'\rangle$, "second"
            for $\langle g, \operatorname{sign} g'\rangle$, which is not symmetric: a step of
            descent by the sign of the gradient at x' moves the outputs at x by minus the learning
            rate times that, and so do the first steps of Adam (arXiv:2210.05643). A gradient that
            vanishes up to rounding has a sign all the same.
        implementation: "layerwise" as above; "jacobian", which differentiates every parameter;
            "ntk-vector", one forward derivative per column, slow and small; "auto" chooses
            "layerwise", or "ntk-vector" where the gradients of two samples exceed `memory`.
        memory: bytes for temporary arrays, beside the kernel itself; an estimate, not a promise.
            None for half of the machine's free memory, or four fifths of an accelerator's.
        progress: called as `progress(done, expected)`, with entries of the kernel. Without it, a
            warning gives an estimate of the time of a call that will take more than a minute.

    Returns:
        The kernel, with c = 1 for a network of one output.

    Example:
        >>> import equinox as eqx
        >>> import jax.numpy as jnp
        >>> model = eqx.nn.MLP(2, 3, width_size=8, depth=2, key=jax.random.key(0))
        >>> K = empirical_ntk(lambda model, x: jax.vmap(model)(x), model, jnp.eye(2))
        >>> K.shape
        (2, 2, 3, 3)
    """
    options = Options(trained, sum_of_outputs, sign, implementation, memory, progress)
    return _kernel(f, params, x1, x2, options, traced=False)


@entry
def empirical_ntk_traced(
    f: Apply,
    params: PyTree,
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    trained: Trained = None,
    sum_of_outputs: bool = False,
    sign: Sign | None = None,
    implementation: Implementation = "auto",
    memory: int | float | None = None,
    progress: Progress | None = None,
) -> Float[Array, "n1 n2"]:
    r"""The tangent kernel summed (not averaged) over the outputs.

    $$\Theta_{ij} = \sum_a \Theta_{ijaa}$$

    without the full kernel in between. Arguments and precision as for `empirical_ntk`.

    Source: AR-5, arXiv:1901.08584 eq. (5), where there is one output.

    Example:
        >>> import jax.numpy as jnp
        >>> K = empirical_ntk_traced(lambda w, x: x @ w, jnp.ones((2, 3)), 2 * jnp.eye(2))
        >>> print(K)
        [[12.  0.]
         [ 0. 12.]]
    """
    options = Options(trained, sum_of_outputs, sign, implementation, memory, progress)
    return _kernel(f, params, x1, x2, options, traced=True)


@entry
def empirical_ntk_diagonal(
    f: Apply,
    params: PyTree,
    x: Shaped[Array | np.ndarray, "n ..."],
    *,
    trained: Trained = None,
    sum_of_outputs: bool = False,
    implementation: Implementation = "auto",
    memory: int | float | None = None,
    progress: Progress | None = None,
) -> Float[Array, "n c c"]:
    r"""The tangent kernel of each sample with itself, $\Theta_{iiab}$, at linear cost in n.

    Arguments and precision as for `empirical_ntk`.

    Example:
        >>> import jax.numpy as jnp
        >>> K = empirical_ntk_diagonal(lambda w, x: x @ w, jnp.ones(2), jnp.array([[3.0, 4.0]]))
        >>> print(K)
        [[[25.]]]
    """
    options = Options(trained, sum_of_outputs, None, implementation, memory, progress)
    problem = check_problem(f, params, {"x": x}, options, traced=False)
    with problem.precision():
        task, rows = problem.task, problem.samples("x")
        n, need = rows.shape[0], survey(task, rows)
        check = check_rowwise(task.model, task.trained, rows)
        block = int(problem.memory(n * (need.row + need.pair)) / (need.row + need.pair))
        if problem.uses_products(block):
            K = contraction.diagonal_from_products(task, rows)
        else:
            begins, size = starts(n, block)
            parts = (
                Part((i,), contraction.diagonal(features_of(task, rows[i : i + size])))
                for i in begins
            )
            K = assembled(parts, (n,), problem.progress)
        check()
        return K


def _kernel(
    f: Apply, params: PyTree, x1: Any, x2: Any | None, options: Options, *, traced: bool
) -> Array:
    inputs = {"x1": x1} if x2 is None else {"x1": x1, "x2": x2}
    problem = check_arguments(f, params, inputs, options, traced=traced, finite=False)
    with problem.precision():
        rows1, rows2 = problem.samples("x1"), None if x2 is None else problem.samples("x2")
        K, check = problem.begun(lambda task: _launched(problem, task, rows1, rows2))
        check()
        return K


def _launched(
    problem: Problem, task: Task, x1: Array, x2: Array | None
) -> tuple[Array, Callable[[], None]]:
    """The kernel, on its way, and a check that raises, to be called afterwards."""
    need = survey(task, x1)
    check = check_rowwise(task.model, task.trained, x1, x2, problem.check_finite)
    most = max(x1.shape[0], 0 if x2 is None else x2.shape[0])
    memory = problem.memory(need.whole(most))
    if problem.uses_products(need.block(memory)):
        settle()
        check()
        return contraction.from_products(task, x1, x2), check
    layout = need.blocks(most, memory, 1 if x2 is None and task.is_symmetric else 2)
    if layout.rows < most or problem.progress is not None:  # it takes long
        settle()
        check()
    return blockwise(task, x1, x2, layout, problem.progress), check


def survey(task: Task, x: Array) -> Cost:
    """Check what `f` returns, and estimate the memory for a row and for a pair of rows."""
    known = all(is_known(leaf) for leaf in (x, *jax.tree.leaves(task.trained)))
    # The trace takes far longer than small kernels do: its outcome is kept.
    return (_survey_once if known else _survey_now)(task, jax.ShapeDtypeStruct(x.shape, x.dtype))


def _survey_now(task: Task, x: jax.ShapeDtypeStruct) -> Cost:
    check_outputs(task.model, task.trained, x)
    return cost(recipe_of(task, x), task.trained, x, task.dtype)


_survey_once = remembered(_survey_now)
