# SPDX-License-Identifier: Apache-2.0
"""The kernel column by column: a gradient pushed forward, with no Jacobian held."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from unlazy.kernels.empirical.model import Model


def columns_full(model: Model, trained: PyTree, x1: Array, x2: Array) -> Float[Array, "n1 n2 c c"]:
    """The kernel, one sample of `x2` and one output at a time."""
    columns = jax.lax.map(lambda x: _columns(model, trained, x1, x), x2)  # (n2, c2, n1, c1)
    return jnp.transpose(columns, (2, 0, 3, 1))


def columns_traced(model: Model, trained: PyTree, x1: Array, x2: Array) -> Float[Array, "n1 n2"]:
    """The traced kernel, without the full one in between."""

    def column(x):
        return jnp.trace(_columns(model, trained, x1, x), axis1=0, axis2=2)

    return jax.lax.map(column, x2).T


def columns_diagonal(model: Model, trained: PyTree, x: Array) -> Float[Array, "n c c"]:
    """The kernel of each sample with itself."""
    blocks = jax.lax.map(lambda row: _columns(model, trained, row[None], row)[:, 0], x)
    return (blocks + jnp.swapaxes(blocks, 1, 2)) / 2


def _columns(model: Model, trained: PyTree, x1: Array, x: Array) -> Float[Array, "c n1 c"]:
    """For each output at `x`, the derivative of all outputs at `x1` along its gradient."""
    out, pull = jax.vjp(lambda trained: model(trained, x), trained)

    def column(unit):
        (gradient,) = pull(unit)
        return jax.jvp(lambda trained: model.batch(trained, x1), (trained,), (gradient,))[1]

    # One output after the other: only one gradient is held.
    return jax.lax.map(column, jnp.eye(out.shape[0], dtype=out.dtype))
