# SPDX-License-Identifier: Apache-2.0
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy as ul
from unlazy.kernels import empirical_ntk_traced, taylor_kernel
from unlazy.nets import TwoLayer, combine, partition
from unlazy.papers.bai_lee2020 import relu3_quadratic, relu3_tangent


def rows(n=6, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def on_sphere(n, d, radius, seed=0):
    x = rows(n, d, seed)
    return radius * x / np.linalg.norm(x, axis=1, keepdims=True)


def papers_kernels(x, y, B):
    """BL-16, written with the arc cosine."""
    u = np.clip(x @ y.T / B**2, -1, 1)
    th = np.arccos(u)
    kappa1 = (np.sin(th) + u * (np.pi - th)) / (2 * np.pi)
    kappa2 = (3 * u * np.sin(th) + (np.pi - th) * (1 + 2 * u**2)) / (2 * np.pi)
    return B**2 * u * kappa2 / 4, B**4 * u**2 * kappa1 / 4


@pytest.mark.parametrize("B", [1.0, 2.0])
def test_kernels_are_the_papers_on_the_sphere(B):
    x, y = on_sphere(6, 4, B), on_sphere(3, 4, B, seed=1)
    K_L, K_Q = papers_kernels(x, y, B)
    np.testing.assert_allclose(relu3_tangent(x, y, init_scale=1 / B), K_L, atol=1e-14)
    np.testing.assert_allclose(relu3_quadratic(x, y, init_scale=1 / B), K_Q, atol=1e-14)


def test_kernels_are_gaussian_expectations_by_a_product_rule():
    # E over w in the plane of two rows of any norm, by polar coordinates: the radius of a Gaussian
    # in the plane has E r^4 = 8 and E r^2 = 2, and the angle is uniform, with four kinks.
    x, y = rows(2)
    scale = 0.7
    plane, _ = np.linalg.qr(np.stack([x, y]).T)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    kinks = [math.atan2(*(v @ plane)[::-1]) + s * math.pi / 2 for v in (x, y) for s in (-1, 1)]
    edges = np.sort(np.mod(kinks, 2 * math.pi))
    edges = np.append(edges, edges[0] + 2 * math.pi)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    angle = (middle[:, None] + half[:, None] * nodes).ravel()
    weight = (half[:, None] * weights).ravel() / (2 * math.pi)
    w = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ plane.T
    zx, zy = (np.maximum(scale * w @ v, 0) for v in (x, y))
    tangent = x @ y * 8 * weight @ (zx**2 * zy**2) / 4
    quadratic = (x @ y) ** 2 * 2 * weight @ (zx * zy) / 4
    K_L, K_Q = (k(x[None], y[None], init_scale=scale) for k in (relu3_tangent, relu3_quadratic))
    assert float(K_L[0, 0]) == pytest.approx(tangent, rel=1e-12)
    assert float(K_Q[0, 0]) == pytest.approx(quadratic, rel=1e-12)


def test_moments_are_those_of_a_million_draws():
    # BL-T13, d = 6: within 1%, which is 5 standard errors for the larger of the two.
    x, y = on_sphere(2, 6, 1.0, seed=3)
    w = np.random.default_rng(0).standard_normal((1_000_000, 6))
    zx, zy = np.maximum(w @ x, 0), np.maximum(w @ y, 0)
    u = x @ y
    K_L, K_Q = (float(k(x[None], y[None])[0, 0]) for k in (relu3_tangent, relu3_quadratic))
    assert 4 * K_L / u == pytest.approx(np.mean(zx**2 * zy**2), rel=0.01)
    assert 4 * K_Q / u**2 == pytest.approx(np.mean(zx * zy), rel=0.01)


@pytest.mark.parametrize("kernel", [relu3_tangent, relu3_quadratic])
def test_kernels_are_symmetric_positive_and_homogeneous_of_degree_six(kernel):
    x = rows(40)
    x[7], x[9] = x[3], -x[4]
    K = np.asarray(kernel(x))
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12 * np.linalg.eigvalsh(K).max()
    np.testing.assert_allclose(K[7], K[3], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(kernel(2 * x), 64 * K, rtol=1e-13)
    np.testing.assert_allclose(np.diag(kernel(x, x)), np.diag(K), rtol=1e-7)


def test_finite_width_tangent_kernel_is_the_empirical_one(x64):
    net = TwoLayer(4, 30, "relu3", "gaussian")
    params = net.init(key=jax.random.key(0))
    x, y = jnp.asarray(rows()), jnp.asarray(rows(3, seed=1))
    hidden, rest = partition(params, "hidden")

    def f(W, z):
        return net(combine(W, rest), z)

    expected = empirical_ntk_traced(f, hidden, x, y)
    np.testing.assert_allclose(taylor_kernel(net, params, x, y, order=1), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [0, 2, 3])
def test_finite_width_kernel_is_that_of_the_explicit_features(order):
    net = TwoLayer(3, 10, "tanh", "symmetric")
    params = net.init(key=jax.random.key(0))
    x = rows(5, 3)
    W, a = np.asarray(params.W, np.float64), np.asarray(params.a, np.float64)
    with jax.enable_x64(True):
        derivative = np.asarray(net.activation.derivative(order)(jnp.asarray(x @ W.T)))
    tensors = np.ones((5, 1))
    for _ in range(order):
        tensors = np.einsum("nt,nd->ntd", tensors, x).reshape(5, -1)
    phi = np.einsum("r,nr,nt->nrt", a, derivative, tensors).reshape(5, -1)
    phi /= math.sqrt(10) * math.factorial(order)
    K = taylor_kernel(net, params, x, order=order)
    np.testing.assert_allclose(K, phi @ phi.T, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(K, np.asarray(K).T)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "limit"), [(1, relu3_tangent), (2, relu3_quadratic)])
def test_finite_width_tends_to_the_limit_like_the_root_of_the_width(order, limit):
    # Mean over 8 starts of the relative error at four widths; the slope is -1/2, and its standard
    # error is part of the assertion: fails by chance below 1e-3, with fixed seeds never.
    B, d = 2.0, 5
    x = on_sphere(12, d, B)
    exact = np.asarray(limit(x, init_scale=1 / B))
    widths = np.array([256, 1024, 4096, 16384])
    errors = []
    for m in widths:
        net = TwoLayer(d, int(m), "relu3", "symmetric", 1 / B)
        starts = [net.init(key=jax.random.key(seed)) for seed in range(8)]
        gaps = [np.asarray(taylor_kernel(net, p, x, order=order)) - exact for p in starts]
        errors.append(np.sqrt(np.mean(np.square(gaps))) / np.linalg.norm(exact))
    (slope, _), covariance = np.polyfit(np.log(widths), np.log(errors), 1, cov=True)
    assert slope == pytest.approx(-0.5, abs=max(0.06, 3 * math.sqrt(covariance[0, 0])))
    assert math.sqrt(covariance[0, 0]) < 0.06


def test_blocks_of_neurons_add_up(monkeypatch):
    net = TwoLayer(4, 50, "relu3", "symmetric")
    params, x = net.init(key=jax.random.key(0)), rows()
    whole = np.asarray(taylor_kernel(net, params, x, order=2))
    monkeypatch.setattr("unlazy.kernels.taylor_kernels._ENTRIES", 12 * 7)
    np.testing.assert_allclose(taylor_kernel(net, params, x, order=2), whole, rtol=1e-13)


def test_kernels_serve_kernel_regression():
    x = on_sphere(30, 3, 1.0)
    y = x[:, 0] * x[:, 1]
    fit = ul.kernels.KernelRegression(functools.partial(relu3_quadratic), ridge=1e-10).fit(x, y)
    np.testing.assert_allclose(fit.predict(x), y, atol=1e-6)


def test_bad_arguments_are_refused(no_shape_checker):
    net = TwoLayer(4, 6, "relu", "symmetric")
    params = net.init(key=jax.random.key(0))
    with pytest.raises(ValueError, match="`init_scale` must be a positive number"):
        relu3_tangent(rows(), init_scale=0)
    with pytest.raises(ValueError, match="`x1` must have no row of zeros"):
        relu3_quadratic(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="`order` must be an integer >= 0, got order=-1"):
        taylor_kernel(net, params, rows(), order=-1)
    with pytest.raises(ValueError, match="`k` must be at most 1 for relu"):
        taylor_kernel(net, params, rows(), order=2)
    with pytest.raises(ValueError, match=r"must be of this network.*x1.shape=\(6, 3\)"):
        taylor_kernel(net, params, rows(6, 3), order=1)
