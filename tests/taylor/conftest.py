# SPDX-License-Identifier: Apache-2.0
"""The second route to Taylor terms: forward derivatives nested in each other."""

import math

import jax
import jax.numpy as jnp
import pytest


@pytest.fixture
def nested_terms():
    """The terms 0 to `order` by `jax.jvp` of `jax.jvp` of ..., along params + t delta."""
    return _nested_terms


def _nested_terms(f, params, delta, x, order):
    def along(t):
        return f(jax.tree.map(lambda p, d: p + t.astype(p.dtype) * d, params, delta), x)

    dtype = jax.tree.leaves(params)[0].dtype
    zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)

    @jax.jit  # one program: operation by operation, each would be compiled for itself
    def rows(zero):
        found, current = [], along
        for k in range(order + 1):
            found.append(current(zero) / math.factorial(k))
            current = _slope(current, one)
        return jnp.stack(found)

    return rows(zero)


def _slope(function, one):
    return lambda t: jax.jvp(function, (t,), (one,))[1]
