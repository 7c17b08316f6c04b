# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.linalg

import unlazy as ul
from unlazy.escape import directions, regularizer
from unlazy.escape.good_directions.projectors import SampleProjector, SphereProjector
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.special import gegenbauer_rule

SIGMOID = ul.activation("sigmoid", shift=1.5)


def problem(d, m, n, *, key, init="sphere"):
    keys = jr.split(key, 3)
    net = TwoLayer(d, m, SIGMOID, init=init)
    x = ul.data.sphere(n, d, radius=d**0.5, key=keys[1])
    return net, net.init(key=keys[0]), x, jr.normal(keys[2], (m, d))


@jax.jit
def all_three(geometry, W):
    return jnp.stack([geometry.r1(W), geometry.r2(W), geometry.r3(W)])


@jax.jit
def gradient_of_two(geometry, W):
    return jax.grad(lambda W: geometry.r1(W) + geometry.r3(W))(W)


def exact_projector(net, params, x):
    projector = directions(net, params, x, degree=1, covariance="exact").projector
    assert isinstance(projector, SphereProjector)
    return projector


def features(net, params, x):
    """The whole matrix that the library never forms."""
    jac = jax.jit(jax.jacrev(lambda W: net(TwoLayerParams(W=W, a=params.a), x)))(params.W)
    return np.asarray(jac, np.float64).reshape(len(x), -1)


def leading(Phi, rank):
    _, _, Vt = np.linalg.svd(Phi, full_matrices=False)
    return Vt[:rank].T


@pytest.mark.parametrize("init", ["sphere", pytest.param("gaussian", marks=pytest.mark.slow)])
def test_projections_are_those_of_the_dense_decomposition(init, x64, getkey):
    # NB-30: d = 5, m = 40, n = 60; measured errors were below 1e-15.
    d, rank = 5, 6
    net, params, x, W = problem(d, 40, 60, key=getkey(), init=init)
    geometry = directions(net, params, x, rank=rank)
    Phi, w = features(net, params, x), np.asarray(W).ravel()
    V = leading(Phi, rank)
    low = V @ (V.T @ w)
    np.testing.assert_allclose(np.ravel(geometry.low(W)), low, atol=1e-12)
    np.testing.assert_allclose(np.ravel(geometry.high(W)), w - low, atol=1e-12)
    new = ul.data.sphere(7, d, radius=d**0.5, key=getkey())
    Phi_new = features(net, params, new)
    np.testing.assert_allclose(geometry.high_values(W, new), Phi_new @ (w - low), atol=1e-12)
    np.testing.assert_allclose(geometry.low_values(W, new), Phi_new @ low, atol=1e-12)
    r3 = np.mean((Phi @ (w - low)) ** 2)
    assert float(geometry.r3(W)) == pytest.approx(r3, rel=1e-11)
    assert float(geometry.r1(W)) == pytest.approx(r3, rel=1e-11)
    assert float(geometry.r2(W)) == pytest.approx(np.mean((Phi @ low) ** 2), rel=1e-11)
    squares = np.linalg.svd(Phi, compute_uv=False) ** 2
    np.testing.assert_allclose(geometry.spectrum, squares / 60, atol=1e-15)


def test_the_gradient_of_r3_is_the_one_written_out(x64, getkey):
    # NB-31, NB-15: c_L = (2/n)(I - U U^T) f_L, by the transpose of the linear term; R4 besides.
    net, params, x, W = problem(5, 40, 60, key=getkey())
    geometry = directions(net, params, x, degree=1)
    Phi = features(net, params, x)
    U = scipy.linalg.orth(Phi @ leading(Phi, 6))
    f = Phi @ np.ravel(W)
    c = 2 / 60 * (f - U @ (U.T @ f))
    gradient = jax.jit(jax.grad(geometry.r3))(W)
    np.testing.assert_allclose(np.ravel(gradient), Phi.T @ c, atol=1e-14)
    np.testing.assert_allclose(geometry.term.transpose(jnp.asarray(c)), gradient, atol=1e-14)
    np.testing.assert_allclose(jax.grad(geometry.r4)(W), regularizer.gradient(W), rtol=1e-12)
    assert float(geometry.r4(W)) == float(regularizer(W))


def test_r3_through_unlabelled_points_and_its_gradient(x64, getkey):
    # NB-31 at d = 5, m = 20, n = 15, N = 40, with the two-part gradient of NB-15.
    d, n, N, rank = 5, 15, 40, 6
    net, params, x, W = problem(d, 20, n, key=getkey())
    Xu = ul.data.sphere(N, d, radius=d**0.5, key=getkey())
    geometry = directions(net, params, x, degree=1, covariance="unlabelled", unlabelled=Xu)
    assert geometry.covariance == "unlabelled"
    Phi, Phi_u, w = features(net, params, x), features(net, params, Xu), np.ravel(W)
    V = leading(Phi_u, rank)
    e = Phi @ (w - V @ (V.T @ w))
    r1, r2, r3 = (float(value) for value in all_three(geometry, W))
    assert r3 == pytest.approx(np.mean(e**2), rel=1e-11)
    outside = Phi_u @ (w - V @ (V.T @ w))
    inside = Phi_u @ (V @ (V.T @ w))
    assert r1 == pytest.approx(np.mean(outside**2), rel=1e-11)
    assert r2 == pytest.approx(np.mean(inside**2), rel=1e-11)
    # By hand: (2/n) e on X, and -(2/n) Uu su^-2 Uu^T K(Xu, X) e on Xu.
    values, Uu = np.linalg.eigh(Phi_u @ Phi_u.T)
    Uu, squares = Uu[:, ::-1][:, :rank], values[::-1][:rank]
    second = -2 / n * Uu @ ((Uu.T @ (Phi_u @ (Phi.T @ e))) / squares)
    expected = Phi.T @ (2 / n * e) + Phi_u.T @ second
    gradients = jax.jit(jax.jacrev(lambda W: all_three(geometry, W)))(W)
    by_hand = (Phi_u.T @ (2 / N * outside), Phi_u.T @ (2 / N * inside), expected)
    for gradient, formula in zip(gradients, by_hand, strict=True):
        np.testing.assert_allclose(np.ravel(gradient), formula, atol=1e-13)


@pytest.mark.slow
def test_exact_directions_are_those_of_the_covariance(x64, getkey):
    d, m = 5, 24
    net, params, x, W = problem(d, m, 30, key=getkey())
    geometry = directions(net, params, x, degree=1, covariance="exact")
    sigma = ul.papers.nichani2022.sphere_covariance(net, params)
    values, vectors = np.linalg.eigh(np.asarray(sigma.dense()))
    V = vectors[:, ::-1][:, :6]
    u = np.ravel(W[:12] - W[12:]) / np.sqrt(2)
    low = (V @ (V.T @ u)).reshape(12, d) / np.sqrt(2)
    np.testing.assert_allclose(geometry.low(W), np.concatenate([low, -low]), atol=1e-12)
    # NB-14: R1 + R2 is the energy, exactly; the projector commutes with the covariance.
    r1, r2, r3 = (float(value) for value in all_three(geometry, W))
    assert r1 + r2 == pytest.approx(u @ np.asarray(sigma.dense()) @ u, rel=1e-12)
    assert r2 == pytest.approx(np.sum(values[::-1][:6] * (V.T @ u) ** 2), rel=1e-12)
    Phi, high = features(net, params, x), np.asarray(W) - np.concatenate([low, -low])
    assert r3 == pytest.approx(np.mean((Phi @ np.ravel(high)) ** 2), rel=1e-11)
    np.testing.assert_allclose(geometry.spectrum, values[::-1], atol=1e-15)
    outside = np.ravel(high[:12] - high[12:]) / np.sqrt(2)
    half = (np.asarray(sigma.dense()) @ outside).reshape(12, d) * np.sqrt(2)
    gradient = jax.jit(jax.grad(geometry.r1))(W)
    np.testing.assert_allclose(gradient, np.concatenate([half, -half]), atol=1e-12)


@pytest.mark.slow
def test_leading_directions_by_products_are_those_of_the_whole_matrix(getkey, monkeypatch):
    net, params, x, W = problem(6, 60, 30, key=getkey())
    dense = directions(net, params, x, degree=1, covariance="exact")
    monkeypatch.setattr("unlazy.escape.good_directions.projectors._DENSE", 10)
    lanczos = directions(net, params, x, degree=1, covariance="exact")
    assert len(lanczos.spectrum) == 8
    np.testing.assert_allclose(lanczos.spectrum, dense.spectrum[:8], rtol=1e-9)
    np.testing.assert_allclose(lanczos.low(W), dense.low(W), atol=2e-6)  # W is of float32
    # The mean beyond the edge, though of the eigenvalues beyond it only one was computed.
    expected = float(np.mean(dense.spectrum[7:]))
    assert lanczos.blocks.tail == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_top_eigenfunctions_are_of_low_degree(x64, getkey):
    # NB-34, d = 8, m = 120: the top n_1 = 9 have 0.976 to 0.998 of their energy in degree <= 1,
    # expected above 0.95. An eigenfunction has energy 1 per unit of its eigenvalue; its parts along
    # 1 and x are moments of s' in one variable.
    d, m, rank = 8, 120, 9
    net, params, x, _ = problem(d, m, 30, key=getkey())
    projector = exact_projector(net, params, x)
    rule = gegenbauer_rule(d, 80)
    z = np.sqrt(d) * rule.nodes
    slope = np.asarray(SIGMOID.derivative(1)(jnp.asarray(z)))
    k0, k1, k2 = (rule.weights @ (z**j * slope) for j in range(3))
    across = (d * k0 - k2) / (d - 1)
    W0, signs = np.asarray(params.W), np.asarray(params.a) / np.sqrt(m)
    shares = []
    for j, q in enumerate(np.eye(rank)):
        W = np.asarray(projector.movement(jnp.asarray(q)))
        along = np.sum(W0 * W, axis=1)
        constant = k1 * signs @ along
        linear = signs @ (across * W + (k2 - across) * along[:, None] * W0)
        shares.append((constant**2 + np.sum(linear**2)) / projector.values[j])
    assert min(shares) > 0.95
    assert max(shares) < 0.9999


@pytest.mark.slow
@pytest.mark.parametrize("many", [400, 1600])
def test_unlabelled_points_find_the_exact_subspace(many, x64, getkey):
    # NB-35 at its size: 0.821, 0.950, 0.984, 0.980, 0.997 for N = 50, 100, 200, 400, 1600.
    d, m, rank = 8, 120, 9
    net, params, x, _ = problem(d, m, 30, key=getkey())
    exact = exact_projector(net, params, x).V
    cosines = []
    for N in (50, many):
        Xu = ul.data.sphere(N, d, radius=d**0.5, key=getkey())
        sample = directions(net, params, x, degree=1, covariance="unlabelled", unlabelled=Xu)
        assert isinstance(sample.projector, SampleProjector)
        # An orthonormal basis of the subspace of the sample, in twin coordinates.
        basis = jax.vmap(sample.projector.movement)(jnp.diag(jnp.sqrt(sample.projector.squares)))
        V = np.asarray(basis[:, : m // 2]).reshape(rank, -1).T * np.sqrt(2)
        np.testing.assert_allclose(V.T @ V, np.eye(rank), atol=1e-10)
        cosines.append(np.linalg.svd(exact.T @ V, compute_uv=False).min())
    assert 0.6 < cosines[0] < 0.95
    assert cosines[1] > (0.96 if many == 400 else 0.99)


@pytest.mark.parametrize(
    "covariance",
    ["exact", *(pytest.param(c, marks=pytest.mark.slow) for c in ("data", "unlabelled"))],
)
def test_the_regularisers_drop_into_a_compiled_float32_loss(covariance, getkey):
    net, params, x, W = problem(6, 40, 50, key=getkey())
    options: dict[str, Any] = {"degree": 1, "covariance": covariance}
    if covariance == "unlabelled":
        options["unlabelled"] = ul.data.sphere(140, 6, radius=6**0.5, key=getkey())
    geometry = directions(net, params, x, **options)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), (params, W))
        precise = all_three(directions(net, wide[0], x, **options), wide[1])
    found = all_three(geometry, W)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, precise, rtol=2e-5)
    gradient = gradient_of_two(geometry, W)
    assert gradient.dtype == geometry.low(W).dtype == jnp.float32
    slope = float(jnp.sum(gradient * W))  # Euler: both are quadratic
    assert slope == pytest.approx(2 * float(found[0] + found[2]), rel=1e-4)


@pytest.mark.slow
def test_the_penalty_shrinks_by_descent_and_leaves_the_low_part(getkey):
    net, params, x, W0 = problem(6, 40, 60, key=getkey())
    geometry = directions(net, params, x, degree=1)
    top = float(geometry.spectrum[geometry.rank])  # the largest eigenvalue outside

    @jax.jit
    def train(W):
        step = lambda W, _: (W - 0.4 / top * jax.grad(geometry.r3)(W), None)  # noqa: E731
        return jax.lax.scan(step, W, None, length=200)[0]

    W = train(W0)
    assert float(geometry.r3(W)) < 0.01 * float(geometry.r3(W0))
    np.testing.assert_allclose(geometry.low(W), geometry.low(W0), atol=1e-4)


def test_the_rank_is_found_by_the_gap_when_nothing_is_said(getkey):
    # Two directions of the inputs carry nearly everything: a law that is no sphere.
    net = TwoLayer(6, 200, "tanh", init="symmetric")
    x = jr.normal(getkey(), (60, 6)) * jnp.array([[1.0, 1.0, 1e-3, 1e-3, 1e-3, 1e-3]])
    geometry = directions(net, net.init(key=getkey()), 0.1 * x)
    assert geometry.rank == 2
    with pytest.raises(ValueError, match="`degree` must be given"):
        _ = geometry.blocks


def test_the_blocks_of_a_sample_show_the_first_gap(getkey):
    net, params, x, _ = problem(6, 300, 200, key=getkey())
    blocks = directions(net, params, x, degree=1).blocks
    assert blocks.edges == (7, 27)
    assert blocks.gaps[0] > 2
    assert blocks.gaps[1] > 20


@pytest.mark.parametrize("covariance", ["data", "exact"])
def test_integer_and_float64_movements_are_those_of_float32(covariance, getkey, no_shape_checker):
    # Integers used to truncate the slopes to 0; of float64 with x64 off JAX warned at every step.
    net, params, x, _ = problem(5, 8, 30, key=getkey())
    geometry = directions(net, params, x, degree=1, covariance=covariance)
    whole = np.arange(40).reshape(8, 5) % 7
    with jax.enable_x64(True):
        wide = jnp.asarray(whole, jnp.float64)
    W = jnp.asarray(whole, jnp.float32)
    for other in (whole, jnp.asarray(whole), wide):
        assert geometry.high(other).dtype == jnp.float32
        np.testing.assert_allclose(geometry.high(other), geometry.high(W), rtol=1e-6)
        np.testing.assert_allclose(all_three(geometry, other), all_three(geometry, W), rtol=1e-6)


def test_float64_parameters_with_x64_off_give_the_numbers_of_float32(getkey):
    net, params, x, W = problem(5, 8, 30, key=getkey())
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), params)
    narrow = directions(net, params, x, rank=3)
    np.testing.assert_allclose(directions(net, wide, x, rank=3).r3(W), narrow.r3(W), rtol=1e-5)


def test_bad_input_is_named(getkey, no_shape_checker):
    net, params, x, W = problem(5, 8, 30, key=getkey())
    with pytest.raises(ValueError, match="`degree` must be an integer >= 0, got degree=-1"):
        directions(net, params, x, degree=-1)
    with pytest.raises(ValueError, match=r"`x` must have more rows .* 6, got 6: .* identically 0"):
        directions(net, params, x[:6], degree=1)
    with pytest.raises(ValueError, match=r"`unlabelled` must have more rows .* got 5"):
        directions(net, params, x, degree=1, covariance="unlabelled", unlabelled=x[:5])
    with pytest.raises(ValueError, match="`x` must lie on a sphere for the exact covariance"):
        directions(net, params, x * jnp.linspace(1, 2, 30)[:, None], degree=1, covariance="exact")
    with pytest.raises(ValueError, match=r"got none of degree 1, .* Shift it by \+1"):
        directions(TwoLayer(5, 8, "sigmoid", init="sphere"), params, x, degree=1)
    with pytest.raises(ValueError, match="`unlabelled` must be points for covariance='unlabelled'"):
        directions(net, params, x, degree=1, covariance="unlabelled")
    with pytest.raises(ValueError, match="`unlabelled` must be points for covariance='unlabelled'"):
        directions(net, params, x, degree=1, unlabelled=x)
    with pytest.raises(ValueError, match="Did you mean 'exact'"):
        directions(net, params, x, degree=1, covariance="exactly")  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(ValueError, match="`rank` must be None where `degree` sets it"):
        directions(net, params, x, degree=1, rank=3)
    with pytest.raises(ValueError, match=r"`x` must have shape \(n, 5\)"):
        directions(net, params, x[:, :4], degree=1)
    with pytest.raises(ValueError, match="`params` must be of this network"):
        directions(TwoLayer(5, 10, SIGMOID), params, x, degree=1)
    geometry = directions(net, params, x, degree=1)
    with pytest.raises(ValueError, match="`W` must be a movement of the hidden layer"):
        geometry.r3(W[:4])
    copies = jnp.concatenate([x[:3]] * 10)
    with pytest.raises(ValueError, match="`rank` must be at most 3, the number of directions"):
        directions(net, params, copies, rank=4)
    with pytest.raises(ValueError, match=r"`x` must have more rows .* got 1"):
        directions(net, params, x[:1])
    with pytest.raises(ValueError, match=r"with a of shape \(8,\), got params.a.shape=\(1,\)"):
        directions(net, TwoLayerParams(W=params.W, a=params.a[:1]), x, degree=1)
    wide = TwoLayer(5, 2000, SIGMOID, init="sphere")
    with pytest.raises(ValueError, match=r"`rank` or `degree` must be given .* 5000 dir"):
        directions(wide, wide.init(key=getkey()), x, covariance="exact")
    with pytest.raises(ValueError, match=r"`params\.W` must be finite"):
        directions(net, TwoLayerParams(W=params.W * jnp.nan, a=params.a), x, degree=1)
