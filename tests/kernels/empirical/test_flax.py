# SPDX-License-Identifier: Apache-2.0
"""Flax models, both kinds, as the docstring says to pass them. Skipped where Flax is missing."""

import jax
import numpy as np
import pytest

from unlazy.kernels import empirical_ntk


def test_a_linen_model_gives_the_kernel_of_its_jacobian(networks, getkey):
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.tanh(nn.Conv(4, (3, 3), strides=2)(x))
            x = nn.LayerNorm()(x)
            return nn.Dense(3)(x.reshape(x.shape[0], -1))

    x = jax.random.normal(getkey(), (5, 6, 6, 2))
    model = Net()
    params = model.init(getkey(), x)
    expected = networks.dense_kernel(model.apply, params, x)
    np.testing.assert_allclose(
        empirical_ntk(model.apply, params, x), expected, rtol=2e-4, atol=2e-4
    )


def test_an_nnx_model_gives_the_kernel_of_its_jacobian(networks, getkey):
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(4, 16, rngs=rngs)
            self.last = nnx.Linear(16, 2, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.gelu(self.first(x)))

    graphdef, state = nnx.split(Net(nnx.Rngs(0)))

    def f(state, x):
        return nnx.merge(graphdef, state)(x)

    x = jax.random.normal(getkey(), (7, 4))
    expected = networks.dense_kernel(f, state, x)
    np.testing.assert_allclose(empirical_ntk(f, state, x), expected, rtol=2e-4, atol=2e-4)
