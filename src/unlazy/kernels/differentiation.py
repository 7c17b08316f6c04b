# SPDX-License-Identifier: Apache-2.0
"""Kernels in float64 whatever JAX's global setting is, and their derivatives where it is off."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import is_known
from unlazy.core.float64 import float64

Inputs = Array | np.ndarray | None


def at_precision(
    evaluate: Callable[[Any, Any, jnp.dtype], Array], x1: Inputs, x2: Inputs, dtype: jnp.dtype
) -> Float[Array, "n1 n2"]:
    """`evaluate(x1, x2, dtype)` with x64 on for float64 and off for float32.

    Derivatives of a float64 kernel where the caller has x64 off are taken in float32: reverse mode
    leaves `evaluate` before it runs, so that no float64 exists where it does. Their result is
    float32 in any case, since `x` is.
    """
    is_double = jnp.result_type(float) == jnp.float64  # where the caller is
    if dtype == jnp.float32 or is_double or (is_known(x1) and is_known(x2)):
        with float64(dtype == jnp.float64):
            return evaluate(x1, x2, dtype)

    def value(dtype: jnp.dtype) -> Callable[..., Array]:
        def of_traced(*traced: Array) -> Array:
            # What is known stays out of the arguments, where float64 would be rounded.
            remaining = iter(traced)
            first, second = (x if is_known(x) else next(remaining) for x in (x1, x2))
            with float64(dtype == jnp.float64):
                return evaluate(first, second, dtype)

        return of_traced

    double, single = jax.custom_jvp(value(dtype)), value(jnp.dtype(jnp.float32))

    @double.defjvp
    def _jvp(primals, tangents):
        _, tangent = jax.jvp(single, primals, tangents)
        with float64():
            return double(*primals), tangent.astype(jnp.float64)

    return double(*(x for x in (x1, x2) if x is not None and not is_known(x)))
