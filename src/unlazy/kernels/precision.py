# SPDX-License-Identifier: Apache-2.0
"""Kernels in float32, such as those of networks with float32 parameters, among float64 algebra."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from unlazy.core.float64 import float64
from unlazy.core.sheltering import sheltered


class Widened(eqx.Module):
    """A kernel that computes in float32; its values come as float64.

    It is called as it would be by hand: with JAX's x64 setting of the caller, and samples in the
    dtype that goes with it. Networks with float32 parameters need that, for with x64 on an array
    that they make themselves (the first state of a recurrent network) would be float64.
    """

    kernel: Callable
    x64: bool = eqx.field(static=True)

    def __call__(self, x1: Array, x2: Array | None = None, /) -> Float64[Array, "n1 n2"]:
        """The kernel between the rows of `x1` and of `x2`, or of `x1` itself."""
        dtype = jnp.float64 if self.x64 else jnp.float32
        with float64():
            rows = [jnp.asarray(x, dtype) for x in (x1, x2) if x is not None]
        with float64(self.x64):
            values = self.kernel(*rows)
        with float64():
            return jnp.asarray(values).astype(jnp.float64)


def checked_kernel(kernel: Callable, x: Float64[Array, "n *d"]) -> Callable:
    """The kernel itself if it gives float64, else one that widens its values.

    Two samples decide: first with x64 on, as most kernels in plain `jax.numpy` need it for float64;
    where that gives float32 or fails, with the caller's setting.
    """
    caller = jnp.zeros(()).dtype == jnp.float64
    kernel = sheltered(kernel)
    try:
        dtype = _probed(kernel, x, x64=True)
    except Exception:
        if caller or not _works(kernel, x):
            raise
        return Widened(kernel, False)
    return kernel if dtype == jnp.float64 else Widened(kernel, caller)


def _works(kernel: Callable, x: Float64[Array, "n *d"]) -> bool:
    try:
        _probed(kernel, x, x64=False)
    except Exception:  # whatever it is, the first error is the one to tell
        return False
    return True


def _probed(kernel: Callable, x: Float64[Array, "n *d"], *, x64: bool) -> jnp.dtype:
    """The dtype of what the kernel gives for two samples; raise where it does not fit."""
    with float64():
        some = x[:2].astype(jnp.float64 if x64 else jnp.float32)
        one = some[:1]
    with float64(x64):
        square, column = _shapes(kernel, some, one)
    k = len(some)
    for values, shape, arguments in [(square, (k, k), "x1"), (column, (k, 1), "x1, x2")]:
        if np.shape(values) != shape:
            has_outputs = np.shape(values)[:2] == shape and np.ndim(values) == 4
            hint = " Use empirical_ntk_traced, which sums over the outputs." if has_outputs else ""
            raise ValueError(
                f"`kernel` must give a matrix of shape {shape}, a row per row of x1, from "
                f"kernel({arguments}), got shape {np.shape(values)}.{hint}"
            )
        if values.dtype not in (jnp.float64, jnp.float32):
            raise ValueError(
                f"`kernel` must give float64, or float32 at least, got {values.dtype}. Leave out "
                "casts to other dtypes."
            )
    return min((square.dtype, column.dtype), key=lambda dtype: dtype.itemsize)


def _shapes(kernel: Callable, some: Array, one: Array) -> tuple[Any, Any]:
    """What the kernel gives for two samples, and for both of them with one."""
    try:  # traced, so that nothing is compiled for two samples
        return jax.eval_shape(lambda x1, x2: (kernel(x1), kernel(x1, x2)), some, one)
    except Exception:  # a kernel that looks at values, or that is wrong: then its own error tells
        return kernel(some), kernel(some, one)
