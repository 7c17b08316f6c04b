# SPDX-License-Identifier: Apache-2.0
"""The tangent kernel of a network as an operator, whose products need neither it nor a Jacobian."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Int, PyTree, Shaped

from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.machine import default_memory
from unlazy.core.trained import Trained
from unlazy.kernels.empirical.model import (
    Apply,
    Options,
    check_outputs,
    check_problem,
    check_rowwise,
)
from unlazy.kernels.empirical.ntk import (
    empirical_ntk,
    empirical_ntk_diagonal,
    empirical_ntk_traced,
)
from unlazy.kernels.empirical.products import Products, least_rows, product_cost, rounding_of
from unlazy.kernels.operators import KernelOperator
from unlazy.kernels.tiles import Tiles
from unlazy.linalg.iterative import Matmat, Progress


@entry
def empirical_operator(
    f: Apply,
    params: PyTree,
    x: Shaped[Array | np.ndarray, "n ..."],
    *,
    trained: Trained = None,
    traced: bool = False,
    sum_of_outputs: bool = False,
    memory: int | float | None = None,
    progress: Progress | None = None,
) -> KernelOperator:
    r"""The tangent kernel of a network as an operator: products without the matrix.

    $$\Theta v = J (J^\top v), \qquad J = \frac{\partial f(x)}{\partial\theta}$$

    A product takes one gradient of a weighted sum of all outputs and one derivative of the outputs
    along it, both over blocks of samples: a backward and a forward-mode pass over the data, and
    the memory of a block and of a few gradients. Neither the kernel nor a Jacobian is held, so that
    60000 samples of a network with millions of parameters need no more memory than training does.

    The matrix has a row for each sample and output, the outputs of a sample side by side: of c
    outputs, `shape` is (n c, n c), labels of shape (n, c) are `y.reshape(-1)`, and `dense()` is
    `empirical_ntk(f, params, x)` with its axes in the order (0, 2, 1, 3). With one output, or with
    `sum_of_outputs` or `traced`, it is (n, n).

    `solve` uses conjugate gradients, with a preconditioner of up to 256 columns of the kernel,
    unless `method` asks for a factorisation. Where the matrix fits the memory, `dense` computes it,
    and `operator(functools.partial(empirical_ntk_traced, f, params), x)` works on it.

    Products are as precise as the parameters: in float32 (matrix products in full precision, sums
    over blocks in float64) a solve reaches a residual of about
    $10^{-7} \|\Theta\| \|\alpha\| / \|y\|$ and not the default `tolerance`: it then counts as
    converged, and a warning tells if that moves the solution by more than a hundredth. Give a
    `ridge`, or float64 parameters. The same holds for `top_eigen`, which reaches 5e-7.

    Source: derived from the chain rule; the kernel is that of arXiv:1901.08584 eq. (5).

    Args:
        f: the network, as for `empirical_ntk`. It must have derivatives in forward mode.
        params: any pytree.
        x: samples along the first axis.
        trained: which parameters count, as for `empirical_ntk`.
        traced: take the sum over the outputs $\sum_a \Theta_{ijaa}$ of `empirical_ntk_traced`. A
            product is then c products.
        sum_of_outputs: take the kernel of the one output $\sum_a f_a$.
        memory: bytes for the operator, as for `operator`.
        progress: called as `progress(done, expected)` in each product, with blocks of samples in
            either direction; `solve` has an argument for its iterations.

    Raises:
        ValueError: as for `empirical_ntk`.

    Example:
        >>> def f(w, x):
        ...     return jnp.tanh(x @ w)
        >>> H = empirical_operator(f, jnp.ones((2, 3)), jnp.eye(2))
        >>> print(H.shape, H.matvec(np.ones(6)).round(4))
        (6, 6) [0.1764 0.1764 0.1764 0.1764 0.1764 0.1764]
    """
    options = Options(trained, sum_of_outputs, None, "auto", memory, progress)
    problem = check_problem(f, params, {"x": x}, options, traced=bool(traced))
    with problem.precision():
        model, arrays, samples = problem.task.model, problem.task.trained, problem.samples("x")
        check_outputs(model, arrays, jax.ShapeDtypeStruct(samples.shape, samples.dtype))
        check_rowwise(model, arrays, samples)()
        outputs = jax.eval_shape(model.batch, arrays, samples[:1]).shape[1]
        x64 = jnp.zeros(()).dtype == jnp.float64
        cost = product_cost(model, arrays, samples)
    budget = default_memory() if memory is None else int(memory)
    shared: dict[str, Any] = {"trained": trained, "sum_of_outputs": sum_of_outputs}
    shared["memory"] = budget
    kernel = functools.partial(
        empirical_ntk_traced if traced else empirical_ntk, f, params, **shared
    )
    diagonal = functools.partial(empirical_ntk_diagonal, f, params, **shared)
    products = Products(model, arrays, samples, cost, budget, x64, progress)
    chosen = np.arange(len(samples) * (1 if traced else outputs))
    return KernelOperator(
        GradientTiles(kernel, samples, budget, products, diagonal, outputs, bool(traced), chosen)
    )


class GradientTiles(Tiles):
    """The Gram matrix of a network's gradients: by products, and by tiles where entries are asked.

    `chosen` numbers its rows among all samples and outputs, those of a sample side by side.
    """

    multiply: Products
    own: Any  # the kernel of each sample with itself, (n, c, c)
    outputs: int
    traced: bool
    chosen: Int[np.ndarray, " r"]

    @property
    def n(self) -> int:
        """Rows of the matrix."""
        return len(self.chosen)

    @property
    def per_sample(self) -> int:
        """Rows of the matrix that a sample has, side by side: one for each output."""
        return 1 if self.traced else self.outputs

    @property
    def eps(self) -> float:
        """The relative rounding of entries in float32 or less; zero in float64."""
        return self.product_eps if self.product_eps > np.finfo(np.float64).eps else 0.0

    @property
    def product_eps(self) -> float:
        """The relative rounding of a product."""
        return rounding_of(self.multiply.trained)

    @property
    def by_products(self) -> bool:
        """Always: a product costs a few passes over the samples, a tile row by row as much."""
        return True

    def products(self) -> Matmat:
        """A function for many products; never by a matrix in memory."""
        return self.matmat

    def matmat(self, V: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
        """The product with the columns of `V`."""
        total = np.zeros((self.x.shape[0] * self.per_sample, V.shape[1]))
        np.add.at(total, self.chosen, V)
        weights = total.reshape(self.x.shape[0], self.per_sample, V.shape[1])
        if not self.traced:
            return self.multiply(weights).reshape(total.shape)[self.chosen]
        out, one = np.zeros(total.shape), np.eye(self.outputs)
        for a in range(self.outputs):
            out += self.multiply(weights * one[None, :, a, None])[:, a]
        return out[self.chosen]

    def block(
        self, rows: Int[np.ndarray, " r"], columns: Int[np.ndarray, " c"]
    ) -> Float64[np.ndarray, "r c"]:
        """The entries in some rows and columns, from the kernel of their samples."""
        (i, a), (j, b) = (np.divmod(self.chosen[k], self.per_sample) for k in (rows, columns))
        (first, i), (second, j) = (np.unique(k, return_inverse=True) for k in (i, j))
        with float64(self.multiply.x64):
            if np.array_equal(first, second):
                K = np.asarray(self.kernel(self.x[first]), np.float64)
            else:
                K = np.asarray(self.kernel(self.x[first], self.x[second]), np.float64)
        if self.traced:
            return K[np.ix_(i, j)]
        return K[i[:, None], j[None, :], a[:, None], b[None, :]]

    def tile(self, rows: slice, columns: slice) -> Float64[Array, "n1 n2"]:
        """One tile."""
        with float64():
            return jnp.asarray(self.block(*(np.arange(s.start, s.stop) for s in (rows, columns))))

    def columns(self, rows: Int[np.ndarray, " b"], width: int = 0) -> Float64[np.ndarray, "n b"]:
        """Some columns of the matrix."""
        del width  # several columns may be of one sample: their number says little of the work
        spans = (np.arange(span.start, span.stop) for span in self.spans())
        return np.concatenate([self.block(span, rows) for span in spans])

    def diagonal(self) -> Float64[np.ndarray, " n"]:
        """The diagonal, at linear cost in n."""
        with float64(self.multiply.x64):
            K = np.asarray(self.own(self.x), np.float64)
        each = np.einsum("iaa->i" if self.traced else "iaa->ia", K)
        return each.reshape(-1)[self.chosen]

    def take(self, rows: Int[np.ndarray, " r"]) -> "GradientTiles":
        """The matrix of some of the rows."""
        i, a = np.divmod(self.chosen[rows], self.per_sample)
        samples, where = np.unique(i, return_inverse=True)
        with float64(self.multiply.x64):
            x = self.x[samples]
        return GradientTiles(
            *(self.kernel, x, self.memory, self.multiply._replace(x=x), self.own),
            *(self.outputs, self.traced, where * self.per_sample + a),
        )

    def first_parallel(self, closeness: float = 1e-7) -> Int[np.ndarray, " n"]:
        """For each row, the first of the same output at an equal sample; usually itself.

        Other rows that are parallel are not looked for: that would take the whole kernel.
        """
        del closeness
        i, a = np.divmod(self.chosen, self.per_sample)
        alike = least_rows(self.x)[i] * self.per_sample + a
        _, first, where = np.unique(alike, return_index=True, return_inverse=True)
        return first[where]
