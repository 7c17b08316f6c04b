# SPDX-License-Identifier: Apache-2.0
"""Symmetric eigendecomposition in float64: largest eigenvalue first, signs fixed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.entries import entry
from unlazy.core.float64 import float64


class Eigen(eqx.Module):
    """Eigenvalues, largest first, and orthonormal eigenvectors in the columns of `vectors`."""

    values: Float64[np.ndarray, " n"]
    vectors: Float64[Array, "n n"]


@entry
def eigh(H: Float[Array | np.ndarray, "n n"]) -> Eigen:
    """Eigendecomposition of a symmetric matrix, in float64.

    The largest entry of each eigenvector is positive, so that two runs or two machines agree on its
    otherwise arbitrary sign.
    """
    with float64():
        values, vectors = _eigh(jnp.asarray(H, jnp.float64))
        return Eigen(np.asarray(values), vectors)


@jax.jit
def _eigh(H: Float64[Array, "n n"]):
    values, vectors = jnp.linalg.eigh(H)
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = jnp.argmax(jnp.abs(vectors), axis=0)
    signs = jnp.sign(jnp.take_along_axis(vectors, largest[None, :], axis=0))
    return values, vectors * signs


@entry
def gram_eigenvalues(
    values: Float64[np.ndarray, " r"], n: int | None = None, *, eps: float = 0.0
) -> Float64[np.ndarray, " r"]:
    """The eigenvalues of a Gram matrix `H`, set to zero where they are zero up to rounding.

    Args:
        values: largest first.
        n: rows of `H`, if not all of its eigenvalues are given.
        eps: relative rounding of the entries of `H`, if larger than that of float64. The norm of
            that rounding is at most `eps` times the largest eigenvalue: 0.1 to 0.3 of that, as
            measured on kernels of networks in float32.

    Raises:
        ValueError: one is truly negative, or all are zero.
    """
    largest = float(values[0])
    noise = max((n or len(values)) * float(np.finfo(np.float64).eps), eps) * abs(largest)
    if largest <= 0 or values[-1] < -1e-6 * largest:
        raise ValueError(
            "`H` must be positive semi-definite and not zero, got eigenvalues from "
            f"{values[-1]:.3g} to {largest:.3g}."
        )
    return np.where(values > noise, values, 0.0)
