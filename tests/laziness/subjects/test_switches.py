# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.jaxprs import trace
from unlazy.laziness.subjects.switches import active_units, find_switches

RELUS = {
    "jax.nn.relu": jax.nn.relu,
    "maximum": lambda z: jnp.maximum(z, 0),
    "maximum, reversed": lambda z: jnp.maximum(0.0, z),
    "maximum with zeros": lambda z: jnp.maximum(z, jnp.zeros_like(z)),
    "where": lambda z: jnp.where(z > 0, z, 0.0),
    "where, reversed": lambda z: jnp.where(z < 0, 0.0, z),
    "leaky_relu": jax.nn.leaky_relu,
    "relu6": jax.nn.relu6,
    "clip": lambda z: jnp.clip(z, 0.0),
    "under jit": jax.jit(jax.nn.relu),
    "cubed": lambda z: jax.nn.relu(z) ** 3,
}
SMOOTH = {
    "softplus": jax.nn.softplus,
    "gelu": jax.nn.gelu,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "softmax": jax.nn.softmax,
    "maximum of two": lambda z: jnp.maximum(z, z[::-1]),
    "threshold at one": lambda z: jnp.maximum(z, 1.0),
    "variance": lambda z: z * jax.lax.rsqrt(jnp.maximum(0.0, jnp.var(z)) + 1e-5),
}


@pytest.mark.parametrize("name", RELUS)
def test_a_relu_is_found_whatever_it_is_called(name):
    z = jnp.array([-1.0, 2.0, -3.0, 4.0])
    program = trace(RELUS[name], z)
    (units,) = active_units(find_switches(program), program.run([z]))
    np.testing.assert_array_equal(units, np.asarray(z) > 0)


@pytest.mark.parametrize("name", SMOOTH)
def test_what_is_no_relu_is_not_found(name):
    assert find_switches(trace(SMOOTH[name], jnp.ones(4))) == []


def test_switches_come_in_the_order_of_use():
    def f(x):
        return jax.nn.relu(jax.nn.relu(x) - 1.5)

    x = jnp.array([1.0, 2.0, -1.0])
    program = trace(f, x)
    first, second = active_units(find_switches(program), program.run([x]))
    np.testing.assert_array_equal(first, [True, True, False])
    np.testing.assert_array_equal(second, [False, True, False])
