# SPDX-License-Identifier: Apache-2.0
"""The curvature of a loss averaged over noise, against closed forms."""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.activations import activation
from unlazy.curvature import certify, extreme_eigenvalues
from unlazy.papers.allenzhu_li_liang2019 import smoothed_relu


def test_the_smoothed_curvature_of_a_maximum_made_of_kinks_is_that_of_the_closed_form():
    half = jr.normal(jr.key(0), (128,))
    rho, sigma = jnp.concatenate([half, -half]), 0.3
    exact = -float(jnp.mean(smoothed_relu(rho, sigma, derivative=2)))
    assert exact == pytest.approx(-0.399, abs=0.05)
    found = certify(
        lambda z: z[0] / 2 - jnp.mean(jax.nn.relu(z[0] + rho)),
        jnp.zeros(1),
        smoothing=sigma,
        key=jr.key(1),
    )
    # The error is that of the level 95%; twice as much is exceeded once in 10^4.
    assert abs(found.curvature.smallest - exact) < 2 * found.curvature.smallest_error
    assert found.curvature.smallest_error < 0.1 * abs(exact)
    assert found.verdict == "saddle"
    assert "smoothed by noise of standard deviation 0.3" in str(found)


def test_a_quadratic_loss_is_exact_with_few_draws_and_any_scales():
    A = jr.normal(jr.key(0), (6, 6))
    A = A + A.T
    params = {"a": jnp.zeros((2, 2)), "b": jnp.zeros(2)}

    def loss(p):
        flat = jnp.concatenate([p["a"].ravel(), p["b"]])
        return flat @ A @ flat / 2

    ends = extreme_eigenvalues(loss, params, smoothing={"a": 0.1, "b": 3.0}, draws=8, key=jr.key(1))
    values = np.linalg.eigvalsh(np.asarray(A, np.float64))
    np.testing.assert_allclose([ends.smallest, ends.largest], values[[0, -1]], rtol=1e-9)
    assert ends.smallest_error < 1e-9


def test_the_error_covers_the_smoothed_hessian_in_many_directions():
    # E relu(w.x + s |x| rho) has the Hessian x x' pdf(w.x / s |x|) / (s |x|): a sum of them.
    x, w, s = jr.normal(jr.key(0), (30, 12)), jr.normal(jr.key(1), (12,)), 0.5
    c = jnp.where(jnp.arange(30) % 3 == 0, -1.0, 1.0)
    norms = jnp.linalg.norm(x, axis=1)
    second = jnp.stack(
        [smoothed_relu(z, float(s * r), derivative=2) for z, r in zip(x @ w, norms, strict=True)]
    )
    H = np.asarray((x.T * (c * second)[None]) @ x)
    ends = extreme_eigenvalues(
        lambda w: c @ jax.nn.relu(x @ w), w, smoothing=s, draws=2000, key=jr.key(2)
    )
    values = np.linalg.eigvalsh(H)
    assert values[0] < -0.1
    # By the spectral norm, which the difference of each eigenvalue is well below.
    assert abs(ends.smallest - values[0]) < ends.smallest_error
    assert abs(ends.largest - values[-1]) < ends.largest_error
    assert ends.largest_error < 0.5 * values[-1]


@pytest.mark.slow
def test_what_the_draws_leave_open_is_undecided_and_more_of_them_decide():
    slope = math.erf(1 / math.sqrt(2))  # of E |z - 1/2 + rho / 2| at 0, less its sign

    def verdict(sign, draws, at=0.0):
        def loss(z):
            return sign * (jnp.abs(z[0] - 0.5) + slope * z[0])

        options = {"smoothing": 0.5, "gradient_tolerance": 0.02, "draws": draws}
        return certify(loss, jnp.array([at]), **options, key=jr.key(0)).verdict

    assert verdict(1, 100) == "undecided"
    # The error is 0.005; to be wrong takes 4 of the standard deviations, once in 10^4.
    assert verdict(1, 40_000) == "second-order stationary"
    assert verdict(-1, 40_000) == "saddle"
    assert verdict(1, 100, at=3.0) == "not stationary"


@pytest.mark.slow
def test_lanczos_and_the_dense_spectrum_of_the_smoothed_loss_agree():
    x = jr.normal(jr.key(0), (20, 15))
    loss = lambda w: jnp.mean(jnp.abs(x @ w))  # noqa: E731
    dense, lanczos = (
        extreme_eigenvalues(
            loss, jnp.zeros(15), smoothing=0.1, draws=64, dense=dense, key=jr.key(1)
        )
        for dense in (True, False)
    )
    assert dense.smallest == pytest.approx(lanczos.smallest, rel=1e-8)
    assert dense.largest == pytest.approx(lanczos.largest, rel=1e-8)


def test_bad_smoothing_is_named():
    loss, w = (lambda w: jnp.sum(w**2)), jnp.zeros(2)
    with pytest.raises(ValueError, match="`smoothing` must be a positive number"):
        certify(loss, w, smoothing=0.0, key=jr.key(0))
    with pytest.raises(ValueError, match="`smoothing` must be a number, or a tree of numbers"):
        certify(loss, w, smoothing={"a": 1.0}, key=jr.key(0))
    with pytest.raises(ValueError, match="`draws` must be an integer >= 8"):
        extreme_eigenvalues(loss, w, smoothing=1.0, draws=2, key=jr.key(0))


@pytest.mark.parametrize("sign", [1, pytest.param(-1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "rest", [0.0, pytest.param(1e-6, marks=pytest.mark.slow)]
)  # with 1e-6 every draw has some residual
def test_a_kink_that_no_draw_meets_leaves_the_verdict_open(sign, rest):
    jump, place = 200.0, 3.5
    exact = sign * (0.1 - 2 * jump * math.exp(-(place**2) / 2) / math.sqrt(2 * math.pi))

    def loss(z):
        kinks = jax.nn.relu(z - place) + jax.nn.relu(-z - place)
        return sign * jnp.sum(0.05 * z**2 - jump * kinks) + rest * jnp.sum(z**4)

    wrong = "second-order stationary" if sign == 1 else "saddle"
    missed = 0
    for seed in range(4):
        found = certify(loss, jnp.zeros(1), smoothing=1.0, key=jr.key(seed))
        missed += found.curvature.smallest == pytest.approx(sign * 0.1, abs=1e-3)
        assert found.verdict != wrong
        # Each of the draws that meet the kink, 0.5 on average, moves estimate and error by 0.7.
        assert abs(found.curvature.smallest - exact) < found.curvature.smallest_error
    assert missed >= 1  # each seed with the probability 0.6


def test_the_gradient_counts_a_kink_that_no_draw_meets():
    def loss(z):  # the smoothed slope is 200 P(rho > 3.5) = 0.047
        return jnp.sum(5 * z**2 + 200 * jax.nn.relu(z - 3.5))

    found = [certify(loss, jnp.zeros(1), smoothing=1.0, key=jr.key(seed)) for seed in range(4)]
    assert any(f.gradient_norm == 0 for f in found)
    # A draw that meets it, and there are 0.5 of them on average, adds 0.1: up to 3 are covered.
    assert all(abs(f.gradient_norm - 0.0465) < f.gradient_error for f in found)
    assert all(f.verdict != "second-order stationary" for f in found)


@pytest.mark.parametrize(
    "name", ["relu3", *(pytest.param(n, marks=pytest.mark.slow) for n in ("gelu", "softplus"))]
)
def test_smooth_losses_made_of_choices_are_still_certified_under_noise(name):
    sigma, x = activation(name), jr.normal(jr.key(0), (9, 3))

    def loss(w):
        return jnp.mean(jnp.square(sigma(x @ w) - sigma(jnp.zeros(9)))) + jnp.sum(w**2)

    found = certify(loss, jnp.zeros(3), smoothing=0.1, gradient_tolerance=0.3, key=jr.key(1))
    assert found.verdict == "second-order stationary"
    assert found.curvature.smallest_error < 0.1
