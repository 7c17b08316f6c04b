# SPDX-License-Identifier: Apache-2.0
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.kernels import arcsin, gaussian, nngp, ntk, relu_gram
from unlazy.papers.allenzhu_li2019 import resnet_ntk
from unlazy.papers.bai_lee2020 import relu3_tangent

KERNELS = {
    "relu_gram": relu_gram,
    "relu3_tangent": relu3_tangent,
    **{
        name: pytest.param(kernel, marks=pytest.mark.slow)
        for name, kernel in {
            "ntk": partial(ntk, depth=2),
            "arcsin": arcsin,
            "nngp of abs": partial(nngp, activation="abs"),
            "resnet_ntk": resnet_ntk,
            "gaussian": partial(gaussian, bandwidth=2.0),
            "tanh": partial(ntk, activation="tanh", weight_variance=0.5),
        }.items()
    },
}
RNG = np.random.default_rng(24)
X = RNG.standard_normal((3, 4)).astype(np.float32).astype(np.float64)
# A duplicate, a parallel and an antipodal row.
ROWS = np.concatenate([X, X[:1], 2 * X[1:2], -X[2:]])
WEIGHTS = RNG.standard_normal((6, 6)) / 6
DIRECTION = RNG.standard_normal(ROWS.shape) / 5


def total(kernel, x):
    K = kernel(x)
    return jnp.sum(jnp.asarray(WEIGHTS, x.dtype) * K.astype(x.dtype))


def two_sided(kernel, h=1e-5):
    """The mean of the derivatives to either side, from float64 values."""

    def difference(h):
        ahead, back = (np.asarray(kernel(ROWS + t * DIRECTION)) for t in (h, -h))
        return float(np.sum(WEIGHTS * (ahead - back)) / (2 * h))

    # The two sides of a cone differ by O(h), which Richardson's step takes away.
    return 2 * difference(h / 2) - difference(h)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_derivatives_at_duplicate_rows_are_the_mean_of_the_one_sided_ones(kernel):
    # There the angle has a cone: it grows to either side. What is smooth keeps its derivative.
    expected = two_sided(kernel)
    f = partial(total, kernel)
    single, direction = jnp.asarray(ROWS, jnp.float32), jnp.asarray(DIRECTION, jnp.float32)
    gradient = jax.grad(f)(single)
    assert gradient.dtype == jnp.float32
    assert float(jnp.vdot(gradient, direction)) == pytest.approx(expected, rel=2e-5)
    with jax.enable_x64(True):
        gradient = jax.grad(f)(jnp.asarray(ROWS))
        assert float(np.vdot(gradient, DIRECTION)) == pytest.approx(expected, rel=1e-7)


def test_every_transformation_agrees_without_x64():
    single = jnp.asarray(ROWS, jnp.float32)
    f = partial(total, relu_gram)
    gradient = np.asarray(jax.grad(f)(single))
    forward = np.asarray(jax.jacfwd(f)(single))
    np.testing.assert_allclose(forward, gradient, atol=2e-6)
    # Compiled, parallel rows are not repaired: their angle is off by the root of the rounding.
    compiled = np.asarray(jax.jit(jax.grad(f))(single))
    np.testing.assert_allclose(compiled, gradient, atol=1e-3)
    jacobian = jax.jacrev(lambda x: relu_gram(x).astype(jnp.float32))(single)
    contracted = np.einsum("ij,ijkl->kl", WEIGHTS, np.asarray(jacobian, np.float64))
    np.testing.assert_allclose(contracted, gradient, atol=2e-6)


def test_values_under_differentiation_keep_float64_and_the_angle():
    # The other side stays float64 though x64 is off, and nearly parallel rows are repaired.
    x1 = jnp.array([[1.0, 0.0]])
    x2 = np.array([[1.0, 1e-9], [0.3, 0.1]])
    value, _ = jax.vjp(lambda x1: relu_gram(x1, x2), x1)
    assert value.dtype == jnp.float64
    np.testing.assert_array_equal(np.asarray(value), np.asarray(relu_gram(np.asarray(x1), x2)))
    assert float(np.asarray(value)[0, 0]) == pytest.approx(0.5 - 1e-9 / (2 * np.pi), abs=1e-16)
