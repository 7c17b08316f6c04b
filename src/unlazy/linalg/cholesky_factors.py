# SPDX-License-Identifier: Apache-2.0
"""Cholesky factorisation in float64, with an estimate of the smallest eigenvalue."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.entries import entry
from unlazy.core.float64 import float64

_INVERSE_ITERATIONS = 8  # enough to tell a null vector from a small eigenvalue


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
        r"""An upper estimate of $\lambda_{\min}(H)$ by inverse iteration.

        The Rayleigh quotient of eight steps from a fixed random start: O(n^2) each, far below the
        factorisation. Meant to detect singular matrices, where it is accurate; on well-conditioned
        ones it may be several per cent high.
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
