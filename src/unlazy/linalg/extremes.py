# SPDX-License-Identifier: Apache-2.0
"""The two ends of a spectrum by Lanczos on the device, with full reorthogonalisation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Bool, Float, Float64, Int

from unlazy.core.checks import check_count
from unlazy.core.convolutions import looped
from unlazy.core.current import current
from unlazy.core.entries import entry
from unlazy.core.float64 import float64

Matvec = Callable[[Float[Array, " n"]], Float[Array, " n"]]
"""The product of a symmetric matrix with one float64 vector: any traceable callable pytree."""

_DEPENDENT = 1e-13  # a remainder of a product this small, relative to the matrix, counts as zero


class ExtremeEigen(eqx.Module):
    r"""Smallest and largest Ritz value of a symmetric $H$, in this order, with error bounds.

    An eigenvalue of $H$ lies within `errors[i]` $= \|H v_i - \theta_i v_i\|$ of `values[i]`. The
    first value is never below the smallest eigenvalue, the second never above the largest.
    """

    values: Float64[np.ndarray, " 2"]
    vectors: Float[Array, "2 n"]  # unit rows
    errors: Float64[np.ndarray, " 2"]
    products: int  # with the matrix, without the two that check the result
    exhausted: bool  # the Krylov space is invariant: a random start misses nothing


class _Basis(NamedTuple):
    Q: Float[Array, "q n"]  # orthonormal rows, zero where not yet computed
    alpha: Float[Array, " k"]  # diagonal of the projected matrix
    beta: Float[Array, " k"]  # below it
    size: Int[Array, ""]
    alive: Bool[Array, ""]


@entry
def extreme_eigen(matvec: Matvec, start: Float[Array, " n"], *, steps: int = 100) -> ExtremeEigen:
    r"""The ends of the spectrum of a symmetric matrix known by its products with vectors.

    Each new vector is orthogonalised twice against all before it, so that no eigenvalue appears as
    a ghost copy. One compiled program computes in float64, with `steps + 1` vectors of memory. The
    error is the true residual, up to rounding Lanczos' own $|\beta_q u_q|$.

    Source: BL-30; Golub and Van Loan, Matrix Computations, chapter 10.

    Args:
        matvec: product with the matrix, in float64.
        start: random vector; eigenvectors orthogonal to it are never found.
        steps: products with the matrix, at most.

    Example:
        >>> with float64():
        ...     d = jnp.array([-1.0, 0.5, 4.0])
        ...     eigen = extreme_eigen(jax.tree_util.Partial(jnp.multiply, d), jnp.ones(3))
        >>> print(eigen.values.round(9), eigen.products)
        [-1.  4.] 3
    """
    check_count(steps, "steps")
    with float64():
        start = jnp.asarray(start, jnp.float64)
        return lanczos_ends(current(matvec, start), start, steps=steps)


def lanczos_ends(matvec: Matvec, start: Float[Array, " n"], *, steps: int) -> ExtremeEigen:
    """`extreme_eigen` for a product that reads nothing from its surroundings, or is `current`."""
    with float64():
        basis = _lanczos(matvec, start, min(steps, start.size))
        k, alpha, beta = int(basis.size), np.asarray(basis.alpha), np.asarray(basis.beta)
        if not (np.isfinite(alpha[:k]).all() and np.isfinite(beta[:k]).all()):
            raise ValueError("`matvec` must give finite products, got nan or inf.")
        U: Any = scipy.linalg.eigh_tridiagonal(alpha[:k], beta[: k - 1])[1]
        padded = np.zeros((2, len(basis.Q)))
        padded[:, :k] = U[:, [0, -1]].T
        values, vectors, errors = _check(matvec, basis.Q, jnp.asarray(padded))
        exhausted = not bool(basis.alive) or k == start.size
        return ExtremeEigen(np.asarray(values), vectors, np.asarray(errors), k, exhausted)


@eqx.filter_jit
def _lanczos(matvec: Matvec, start: Float[Array, " n"], steps: int) -> _Basis:
    Q = jnp.zeros((steps + 1, start.size), start.dtype).at[0].set(start / jnp.linalg.norm(start))
    zeros, one = jnp.zeros(steps, start.dtype), jnp.ones((), bool)
    first = _Basis(Q, zeros, zeros, jnp.zeros((), int), one)

    def advance(basis: _Basis) -> _Basis:
        k = basis.size
        w = matvec(basis.Q[k])
        alpha = basis.alpha.at[k].set(jnp.vdot(w, basis.Q[k]))
        for _ in range(2):  # once is not enough to full precision, twice is
            w = w - (basis.Q @ w) @ basis.Q
        norm = jnp.linalg.norm(w)
        beta = basis.beta.at[k].set(norm)
        alive = norm > _DEPENDENT * jnp.max(jnp.abs(alpha) + beta)
        Q = basis.Q.at[k + 1].set(jnp.where(alive, w / norm, 0))
        return _Basis(Q, alpha, beta, k + 1, alive)

    return jax.lax.while_loop(
        lambda basis: basis.alive & (basis.size < steps), looped(advance), first
    )


@eqx.filter_jit
def _check(matvec: Matvec, Q: Float[Array, "q n"], U: Float[Array, "2 q"]):
    V = U @ Q
    V = V / jnp.linalg.norm(V, axis=1, keepdims=True)
    HV = jax.lax.map(looped(matvec), V)
    values = jnp.sum(V * HV, axis=1)  # Rayleigh quotients: bounds whatever the basis suffered
    return values, V, jnp.linalg.norm(HV - values[:, None] * V, axis=1)
