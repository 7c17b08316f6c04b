# SPDX-License-Identifier: Apache-2.0
"""Every kernel and every activation, between rows of unlike number, norm and dtype."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy as ul
from unlazy import kernels
from unlazy.papers import allenzhu_li2019, bai_lee2020

# Rows so long that a series leaves something warn: their error is below |c|^510.
pytestmark = pytest.mark.filterwarnings(
    "ignore:the Hermite series:unlazy.core.errors.UnlazyWarning"
)
NET = ul.nets.TwoLayer(inputs=5, width=16, activation="relu3")


def swish(z):
    return z * jax.nn.sigmoid(z)


ACTIVATIONS = {
    **{name: name for name in ("relu", "relu3", "sigmoid", "tanh", "erf", "softplus", "gelu")},
    **{name: name for name in ("sin", "cos", "exp", "quadratic", "identity", "abs", "leaky_relu")},
    "polynomial": ul.polynomial([0.5, -1, 0, 0.1]),
    "a Python function": swish,
    "shifted": ul.activation("sigmoid", shift=1.5),
    "rectified square": ul.activation("rectified_power", power=2),
}
KERNELS = {
    "relu_gram": kernels.relu_gram,
    "conjugate": partial(kernels.conjugate, layers=3),
    "tangent": kernels.tangent,
    "gaussian": partial(kernels.gaussian, bandwidth=3.0),
    "arcsin": kernels.arcsin,
    "resnet_ntk": allenzhu_li2019.resnet_ntk,
    "relu3_tangent": bai_lee2020.relu3_tangent,
    "relu3_quadratic": bai_lee2020.relu3_quadratic,
    "taylor_kernel": lambda *x: kernels.taylor_kernel(
        NET, NET.init(key=jax.random.key(0)), *x, order=2
    ),
    "nngp of sign": partial(kernels.nngp, activation="sign"),
    **{
        name: partial(kernels.ntk, activation=phi, weight_variance=0.5, bias_variance=0.1)
        for name, phi in ACTIVATIONS.items()
    },
}


# Series compile for long, and all in the same way: by default one stands for them.
SERIES = ("sigmoid", "softplus", "gelu", "quadratic", "polynomial", "shifted", "a Python function")


def cases(names):
    return [pytest.param(n, marks=[pytest.mark.slow] if n in SERIES else []) for n in names]


def directions(n, seed=0):
    g = np.random.default_rng(seed).standard_normal((n, 5))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


def agree(ours, expected, rtol):
    """To `rtol` of the largest entry of the row or of the column."""
    ours, expected = np.asarray(ours, np.float64), np.asarray(expected, np.float64)
    size = np.abs(expected)
    scale = np.sqrt(np.outer(size.max(axis=1), size.max(axis=0)))
    assert np.abs((ours - expected) / scale).max() < rtol


# Short rows against long ones, and all norms on one side: series of unlike lengths.
NORMS = {
    "short against long": np.array([0.1] * 3 + [10.0] * 6),
    "mixed": np.array([0.1, 1, 10, 1, 0.1, 0.1, 10, 1, 1]),
}


@pytest.mark.parametrize("name", cases(KERNELS))
def test_cross_kernel_is_a_block_of_the_whole_and_its_own_mirror(name):
    kernel = KERNELS[name]
    for norms in NORMS.values():
        x = directions(9) * norms[:, None] / (5 if name == "exp" else 1)
        x1, x2 = x[:3], x[3:].astype(np.float32)
        x = np.concatenate([x1, x2.astype(np.float64)])
        cross = np.asarray(kernel(x1, x2))
        assert cross.dtype == np.float64
        agree(cross, np.asarray(kernel(x))[:3, 3:], 2e-13)
        agree(kernel(x2, x1), cross.T, 2e-13)


@pytest.mark.parametrize(
    ("activation", "n", "norm"),
    [("tanh", 7, 0.1), pytest.param("gelu", 200, 3.0, marks=pytest.mark.slow)],
)
def test_one_row_against_many_is_a_row_of_the_whole(activation, n, norm):
    x = directions(n + 1)
    x[0] *= norm
    kernel = partial(kernels.ntk, activation=activation, depth=2)
    agree(kernel(x[:1], x[1:]), np.asarray(kernel(x))[:1, 1:], 1e-13)


def test_one_side_traced_and_the_other_known_agree_with_the_plain_call(x64):
    x = directions(9) * NORMS["mixed"][:, None] / 3
    kernel = partial(kernels.nngp, activation="tanh", weight_variance=0.5)
    plain = np.asarray(kernel(x[:3], x[3:]))
    agree(jax.jit(lambda x1: kernel(x1, x[3:]))(jnp.asarray(x[:3])), plain, 1e-8)


def test_float32_kernels_of_unlike_norms_agree_with_float64():
    x = directions(9) * NORMS["short against long"][:, None]
    for name in ("tanh", "abs"):
        single = KERNELS[name](x[:3], x[3:], dtype="float32")
        assert single.dtype == jnp.float32
        agree(single, KERNELS[name](x[:3], x[3:]), 2e-5)


NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
EDGES = np.linspace(-9, 9, 61)
G = ((EDGES[1:] + EDGES[:-1])[:, None] / 2 + 0.15 * NODES).ravel()
W = np.tile(0.15 * WEIGHTS, 60) * np.exp(-(G**2) / 2) / np.sqrt(2 * np.pi)


def quadrature(function, s1, s2, c):
    """E[f(u) f(v)] by Gauss-Legendre on 60 x 60 panels, independent of any series."""
    v = s2 * (c * G[:, None] + np.sqrt(1 - c**2) * G[None])
    left, right = (np.asarray(function(jnp.asarray(z))) for z in (s1 * G, v))
    return float((W * left) @ right @ W)


KINKED = ("relu", "relu3", "abs", "leaky_relu", "rectified square")


@pytest.mark.parametrize("name", cases(n for n in ACTIVATIONS if n not in KINKED))
def test_entries_between_unlike_norms_agree_with_quadrature(name, x64):
    # The kinked ones are compared with 40 digits in their own tests.
    phi = ACTIVATIONS[name]
    phi = ul.activation(phi) if isinstance(phi, str) else phi
    slope = phi.derivative(1) if isinstance(phi, ul.Activation) else jax.vmap(jax.grad(phi))
    x = directions(9) * NORMS["mixed"][:, None] / (5 if name == "exp" else 1)
    K = np.asarray(KERNELS[name](x[:3], x[3:]))
    for i, j in ((0, 3), (2, 1), (2, 3)):
        a, b = x[i], x[3 + j]
        s1, s2 = (np.sqrt(0.1 * (v @ v) + 0.1) for v in (a, b))
        C = 0.1 * (a @ b) + 0.1
        c = C / (s1 * s2)
        if phi is swish:
            slopes = 0.5 * quadrature(lambda z: slope(z.ravel()).reshape(z.shape), s1, s2, c)
        else:
            slopes = 0.5 * quadrature(slope, s1, s2, c)
        expected = 0.5 * quadrature(phi, s1, s2, c) + 0.1 + slopes * C
        assert abs(K[i, j] - expected) < 1e-9 * max(abs(expected), 1)


def unlike_rows(n):
    rng = np.random.default_rng(3)
    return directions(n) * rng.choice([0.1, 1.0, 4.0], (n, 1)), rng.standard_normal(n)


@pytest.mark.slow
def test_prediction_at_short_rows_agrees_with_the_formula():
    (x, y), test = unlike_rows(7), 0.05 * directions(2, seed=1)
    kernel = partial(kernels.nngp, activation="tanh")
    fitted = kernels.KernelRegression(kernel, ridge=0.1).fit(x, y)
    coefficients = np.linalg.solve(np.asarray(kernel(x)) + 0.1 * np.eye(7), y)
    expected = np.asarray(kernel(test, x)) @ coefficients
    np.testing.assert_allclose(fitted.predict(test), expected, rtol=1e-8)


@pytest.mark.slow
def test_small_memory_agrees_with_the_matrix():
    # Tiles of 16 rows, the smallest: those of short rows alone need fewer degrees.
    x, v = unlike_rows(40)
    x = x[np.argsort(np.linalg.norm(x, axis=1))]
    small = kernels.operator(KERNELS["tanh"], x, memory=1000)
    expected = np.asarray(KERNELS["tanh"](x)) @ v
    np.testing.assert_allclose(small.matvec(v), expected, rtol=1e-10, atol=1e-10)
