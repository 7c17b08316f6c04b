# SPDX-License-Identifier: Apache-2.0
"""Cholesky factorisations: in float64, and in place with no memory beyond the matrix."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Float64
from scipy.linalg import solve_triangular

from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.linalg.iterative import Progress

_INVERSE_ITERATIONS = 8  # enough to tell a null vector from a small eigenvalue
_BLOCK = 512  # columns of a panel: wide enough for products at full speed
_ROWS = 1024  # of a panel at a time


class CholeskyFactor(eqx.Module):
    """A positive definite matrix as `L L^T`, computed and solved in float64."""

    L: Float64[Array, "n n"]

    @entry
    def whiten(self, y: Float[Array | np.ndarray, "n *c"]) -> Float64[Array, "n *c"]:
        r"""$L^{-1} y$: its squared norm is $y^\top H^{-1} y$, manifestly not negative."""
        with float64():
            return jsl.solve_triangular(self.L, jnp.asarray(y, jnp.float64), lower=True)

    @entry
    def solve(self, y: Float[Array | np.ndarray, "n *c"]) -> Float64[Array, "n *c"]:
        r"""$H^{-1} y$."""
        with float64():
            return jsl.cho_solve((self.L, True), jnp.asarray(y, jnp.float64))

    def smallest_eigenvalue(self) -> float:
        r"""An upper estimate of $\lambda_{\min}(H)$ by eight steps of inverse iteration.

        It is meant to detect singular matrices, where it is accurate; on well-conditioned ones it
        may be several per cent high. A step costs O(n^2), far less than the factorisation.
        """
        with float64():
            return float(_inverse_iteration(self.L))


@entry
def cholesky(H: Float[Array | np.ndarray, "n n"]) -> CholeskyFactor | None:
    """Factorise `H` in float64; None when it is not positive definite to rounding."""
    with float64():
        L = jnp.linalg.cholesky(jnp.asarray(H, jnp.float64))
        # XLA marks a failed factorisation by nan, which reaches the last pivot.
        return CholeskyFactor(L) if bool(jnp.isfinite(L[-1, -1])) else None


@jax.jit
def _inverse_iteration(L: Float64[Array, "n n"]) -> Float64[Array, ""]:
    def step(_, v):
        w = jsl.cho_solve((L, True), v)
        return w / jnp.linalg.norm(w)

    v = jr.normal(jr.key(0), (L.shape[0],), jnp.float64)
    v = jax.lax.fori_loop(0, _INVERSE_ITERATIONS, step, v / jnp.linalg.norm(v))
    return jnp.sum((L.T @ v) ** 2)


class _Block(NamedTuple):
    """A triangular block on the diagonal of a factor, with its inverse in float32.

    Products are far faster than substitution. A float32 factor is refined or has a ridge, and does
    not need the last digit.
    """

    L: Float[np.ndarray, "b b"]
    inverse: Float32[np.ndarray, "b b"] | None

    def solve(self, y: np.ndarray, *, transposed: bool = False) -> np.ndarray:
        if self.inverse is not None:
            return (self.inverse.T if transposed else self.inverse) @ y
        return solve_triangular(self.L, y, lower=True, trans=int(transposed), check_finite=False)


class HostCholesky(eqx.Module):
    """A factor that shares one square array with the matrix it came from.

    The factor lies on and below the diagonal, the matrix still above it, and the matrix's diagonal
    beside the array. So residuals need neither a second array nor a second evaluation.
    """

    packed: Float[np.ndarray, "n n"]  # C order
    diagonal: Float[np.ndarray, " n"]  # of the matrix
    blocks: tuple[_Block, ...]  # of the factor, along its diagonal

    @entry
    def solve(self, y: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
        r"""$H^{-1} y$ to the precision of the factor."""
        L, x = self.packed, np.array(y, self.packed.dtype)
        pairs = list(zip(_spans(len(x)), self.blocks, strict=True))
        for J, block in pairs:
            x[J] = block.solve(x[J] - L[J, : J.start] @ x[: J.start])
        for J, block in reversed(pairs):
            x[J] = block.solve(x[J] - L[J.stop :, J].T @ x[J.stop :], transposed=True)
        return np.asarray(x, np.float64)

    @entry
    def matmat(self, V: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
        r"""$H V$ from the triangle of $H$ that the factorisation left alone."""
        V = np.asarray(V, self.packed.dtype)
        out = self.diagonal[:, None] * V
        for J in _spans(len(V)):
            square, right = np.triu(self.packed[J, J], 1), self.packed[J, J.stop :]
            out[J] += square @ V[J] + square.T @ V[J] + right @ V[J.stop :]
            out[J.stop :] += right.T @ V[J]
        return np.asarray(out, np.float64)

    def pivots(self) -> Float64[np.ndarray, " n"]:
        """Squares of the factor's diagonal, none of which is below the smallest eigenvalue."""
        return np.asarray(np.diagonal(self.packed), np.float64) ** 2

    def inverse_diagonal(self, progress: Progress | None = None) -> Float64[np.ndarray, " n"]:
        r"""The diagonal of $H^{-1}$: the squared norms of the columns of $L^{-1}$.

        About n^3/3 operations, the cost of the factorisation, on some columns at a time, so that
        the inverse is never held whole. `progress` hears of the operations done, in per cent.
        """
        n = len(self.packed)
        out = np.empty(n)
        spans = _spans(n)
        inverses = [_inverse(b.L) if b.inverse is None else b.inverse for b in self.blocks]
        for k, J in enumerate(spans):
            X = _inverse_columns(self.packed, spans[k:], inverses[k:])
            out[J] = np.einsum("ij,ij->j", X, X, dtype=np.float64)
            if progress is not None:
                progress(round(100 * (1 - (1 - J.stop / n) ** 3)), 100)
        return out


class DeviceCholesky(eqx.Module):
    """A factor on an accelerator, in the precision of the matrix that it replaced."""

    L: Float[Array, "n n"]

    @entry
    def solve(self, y: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
        r"""$H^{-1} y$ to the precision of the factor."""
        with float64():
            return np.asarray(_cho_solve(self.L, jnp.asarray(y, self.L.dtype)), np.float64)

    def pivots(self) -> Float64[np.ndarray, " n"]:
        """Squares of the factor's diagonal, none of which is below the smallest eigenvalue."""
        with float64():
            return np.asarray(jnp.diagonal(self.L), np.float64) ** 2


@entry
def cholesky_in_place(
    H: Float[np.ndarray | Array, "n n"], *, progress: Progress | None = None
) -> HostCholesky | DeviceCholesky | None:
    """Factorise a symmetric matrix in its own memory; None when it is not positive definite.

    A NumPy array is factorised in blocks and a JAX array on its device, each in its own dtype. Do
    not use `H` afterwards: a JAX array is deleted, a NumPy array overwritten. `progress` hears of
    the operations on a NumPy array, in per cent.

    Example:
        >>> factor = cholesky_in_place(np.array([[4.0, 2.0], [2.0, 5.0]]))
        >>> print(factor.solve(np.array([[8.0], [12.0]]))[:, 0])
        [1. 2.]
    """
    if isinstance(H, np.ndarray):
        return _host_cholesky(H if H.flags.c_contiguous else H.T, progress)
    with float64():
        L, is_definite = _potrf(H)
        return DeviceCholesky(L) if is_definite else None


def _host_cholesky(
    H: Float[np.ndarray, "n n"], progress: Progress | None = None
) -> HostCholesky | None:
    """Factorise block column by block column, a few rows at a time so that temporaries stay small.

    Not LAPACK's potrf on the whole: the one of SciPy 1.17.1 ends in a segmentation fault at
    n = 24000 in float64 (at 12000 it does not), and NumPy's works on a copy. The blocks are
    NumPy's, too: SciPy has threads of its own, which compete with those of the products (7.8 in
    place of 4.9 s in float32 at n = 12000 on two cores).
    """
    diagonal, blocks = np.diagonal(H).copy(), []
    for J in _spans(len(H)):
        before = slice(0, J.start)
        try:
            L = np.linalg.cholesky(H[J, J] - H[J, before] @ H[J, before].T)
        except np.linalg.LinAlgError:
            return None
        block = _Block(L, _inverse(L) if L.dtype == np.float32 else None)
        blocks.append(block)
        for start in range(J.stop, len(H), _ROWS):
            rows = slice(start, start + _ROWS)
            H[rows, J] = block.solve((H[rows, J] - H[rows, before] @ H[J, before].T).T).T
        H[J, J] = L + np.triu(H[J, J], 1)
        if progress is not None:
            progress(round(100 * (3 - 2 * J.stop / len(H)) * (J.stop / len(H)) ** 2), 100)
    return HostCholesky(H, diagonal, tuple(blocks))


def _inverse(L: Float[np.ndarray, "b b"]) -> Float[np.ndarray, "b b"]:
    return np.tril(np.linalg.inv(L))


def _inverse_columns(
    L: Float[np.ndarray, "n n"], spans: Sequence[slice], inverses: Sequence[np.ndarray]
) -> Float[np.ndarray, "m b"]:
    """The first span's columns of the inverse of the lower triangle of `L`, from its rows on."""
    start, stop = spans[0].start, spans[0].stop
    X = np.zeros((len(L) - start, stop - start), L.dtype)
    X[: stop - start] = np.eye(stop - start, dtype=L.dtype)
    for J, inverse in zip(spans, inverses, strict=True):
        rows = slice(J.start - start, J.stop - start)
        X[rows] = inverse @ (X[rows] - L[J, start : J.start] @ X[: rows.start])
    return X


def _spans(n: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]


@functools.partial(jax.jit, donate_argnums=0)
def _potrf(H: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], Bool[Array, ""]]:
    L = jax.lax.linalg.cholesky(H, symmetrize_input=False)
    return L, jnp.isfinite(L[-1, -1])  # XLA marks a failed factorisation by nan


@jax.jit
def _cho_solve(L: Float[Array, "n n"], y: Float[Array, "n c"]) -> Float[Array, "n c"]:
    with jax.default_matmul_precision("highest"):
        return jsl.cho_solve((L, True), y)
