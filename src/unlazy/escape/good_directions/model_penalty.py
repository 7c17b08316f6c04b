# SPDX-License-Identifier: Apache-2.0
"""The penalty on harmful directions for any differentiable model."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int, PyTree, Shaped

from unlazy.core.checks import as_rows, check_count, is_known
from unlazy.core.entries import entry
from unlazy.core.summaries import counted, parameters_in_words
from unlazy.core.trained import Trained, partition
from unlazy.escape.good_directions.spectra import spectral_gap
from unlazy.kernels import empirical_ntk_traced
from unlazy.kernels.empirical.model import Apply, Model
from unlazy.linalg import eigh

_matmul = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


class DirectionPenalty(eqx.Module):
    r"""The mean square of a model's linear part outside its leading directions.

    $$R(\theta) = \frac1n \big\| (I - U_1 U_1^\top)\, f_L(X; \theta - \theta_0) \big\|_F^2, \qquad
    f_L(x; \delta) = \partial_\theta f(\theta_0, x)\, \delta,$$

    with $U_1$ the leading eigenvectors of the tangent kernel at the start, summed over the outputs.
    A call costs one forward derivative, its gradient one more backward pass.

    Source: NB-15 (R3) and NB section 9, item 2, arXiv:2206.03688.
    """

    model: Model
    start: PyTree  # the trained parameters at the start
    trained: Any  # which those are
    x: Shaped[Array | np.ndarray, "n ..."]
    U: Float64[np.ndarray, "n r"]
    spectrum: Float64[np.ndarray, " n"]  # of the tangent kernel over n, largest first

    def __repr__(self) -> str:
        """In one line: the rank, the inputs and the size of the model."""
        return (
            f"DirectionPenalty(rank {self.rank} on {counted(self.x.shape[0], 'input')}, "
            f"{parameters_in_words(self.start)} trained)"
        )

    @property
    def rank(self) -> int:
        """The number of leading directions that are free of the penalty."""
        return self.U.shape[1]

    @entry
    def __call__(self, params: PyTree, rows: Int[Array, " b"] | None = None) -> Float[Array, ""]:
        r"""The penalty at `params`, over all of x or estimated from a batch of its rows.

        On a batch of distinct rows drawn uniformly, the estimate and its gradient are unbiased;
        being a difference, it may be negative. With fewer rows than `rank` it is mostly noise.
        """
        if rows is None:
            f = self.linear(params)
            U = jnp.asarray(self.U, f.dtype)
            return jnp.sum((f - _matmul(U, _matmul(U.T, f))) ** 2) / f.shape[0]
        rows = self._checked(rows)
        if len(rows) < 2:
            raise ValueError(f"`rows` must be at least 2, got rows={rows}.")
        return self._estimate(self.linear(params, rows), rows)

    @entry
    def linear(self, params: PyTree, rows: Int[Array, " b"] | None = None) -> Float[Array, "b c"]:
        """The linear part of the movement to `params`, at x or at some of its rows."""
        x = jnp.asarray(self.x)
        x = x if rows is None else x[self._checked(rows)]
        moved, _ = partition(params, self.trained)
        shapes = [[jnp.shape(leaf) for leaf in jax.tree.leaves(t)] for t in (self.start, moved)]
        if shapes[0] != shapes[1]:  # shapes that broadcast would pass
            raise ValueError(
                f"`params` must have the shapes of the start, {shapes[0]}, got {shapes[1]}."
            )
        delta = jax.tree.map(jnp.subtract, moved, self.start)
        return jax.jvp(lambda theta: self.model.batch(theta, x), (self.start,), (delta,))[1]

    def _checked(self, rows) -> Int[Array, " b"]:
        if is_known(rows):
            return jnp.asarray(as_rows(rows, self.x.shape[0]))
        return rows

    def _estimate(self, f: Float[Array, "b c"], rows: Int[Array, " b"]) -> Float[Array, ""]:
        n, b = self.x.shape[0], rows.shape[0]
        U = jnp.asarray(self.U, f.dtype)[rows]
        inside = jnp.sum(_matmul(U.T, f) ** 2)
        own = jnp.sum(jnp.sum(U**2, axis=1) * jnp.sum(f**2, axis=1))
        # Pairs of different rows are rarer in a batch than rows: each sum has its own weight.
        pairs = (n - 1) / (b - 1)
        return (jnp.sum(f**2) - own - pairs * (inside - own)) / b


@entry
def direction_penalty(
    f: Apply,
    params: PyTree,
    x: Shaped[Array | np.ndarray, "n ..."],
    *,
    rank: int | None = None,
    trained: Trained = None,
) -> DirectionPenalty:
    r"""A penalty for any model that keeps its linear part from memorising.

    Add `lam * penalty(params)` to a training loss. The linear part of the model's movement stays
    free in its `rank` leading directions on x and is held back in the others, where it would fit
    labels one by one; the nonlinear part of the model fits the rest.

    Source: NB-15 (R3) and NB section 9, items 1 and 2, arXiv:2206.03688.

    Args:
        f: the model: `f(params, x)` of shape (n,) or (n, c), each row by itself.
        params: where training starts.
        x: training inputs, or some of them; no labels. Their kernel is n by n.
        rank: number of leading directions to leave free, below n; None for the largest gap of the
            spectrum.
        trained: which parameters are trained, as for `nets.partition`.

    Example:
        >>> import jax.random as jr
        >>> f = lambda w, x: jnp.tanh(x @ w["W"]) @ w["a"]
        >>> w = {"W": jr.normal(jr.key(0), (3, 16)), "a": jr.normal(jr.key(1), (16,)) / 4}
        >>> penalty = direction_penalty(f, w, jr.normal(jr.key(2), (20, 3)), rank=3)
        >>> loss = lambda w: 0.0 + 10.0 * penalty(w)
        >>> print(loss(w))
        0.0
    """
    n = np.shape(x)[0]
    if n < 2:
        raise ValueError(f"`x` must have at least 2 rows, got x.shape={np.shape(x)}.")
    if rank is not None:
        check_count(rank, "rank")
        if rank >= n:
            raise ValueError(
                f"`rank` must be below the number of inputs, {n}, got rank={rank}: the penalty "
                "would be identically 0. Use more inputs or a lower rank."
            )
    # The kernel may have the precision of the parameters; only its decomposition needs float64.
    eigen = eigh(empirical_ntk_traced(f, params, x, trained=trained))
    spectrum = np.maximum(eigen.values, 0.0) / n
    rank = spectral_gap(spectrum) if rank is None else rank
    start, frozen = partition(params, trained)
    U = np.asarray(eigen.vectors)[:, :rank]
    return DirectionPenalty(Model(f, frozen), start, trained, x, U, spectrum)
