# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import kernels
from unlazy.dynamics import KernelDynamics, ensemble

N, T, P = 6, 4, 15
MODELS = 2000


@pytest.fixture
def features():
    """Features of train and test points, the spread of each initial weight, and labels."""
    rng = np.random.default_rng(11)
    F = rng.standard_normal((N + T, P)) * rng.uniform(0.4, 1.5, (N + T, 1)) / P**0.5
    return F, rng.uniform(0.3, 2.0, P), rng.standard_normal(N)


def crowd(features, noise=0.0, **options):
    F, spread, y = features
    H, K = F @ F.T, F * spread**2 @ F.T
    flow = KernelDynamics.from_gram(H[:N, :N], y, **options)
    priors = {"prior": K[:N, :N], "prior_cross": K[N:, :N], "prior_test": K[N:, N:]}
    return ensemble(flow, H[N:, :N], **priors, noise=noise)


def trained(features, keys, t, ridge=0.0, noise=0.0):
    """The test outputs of many linear models, each trained in its own weights until time t."""
    F, spread, y = (jnp.asarray(part) for part in features)
    values, Q = jnp.linalg.eigh(F[:N].T @ F[:N] + ridge * jnp.eye(P))

    def outputs(key):
        key_w, key_y = jr.split(key)
        w0 = spread * jr.normal(key_w, (P,), jnp.float64)
        labels = y + noise**0.5 * jr.normal(key_y, (N,), jnp.float64)
        target = labels - F[:N] @ w0
        if math.isinf(t):
            rows = jnp.concatenate([F[:N], ridge**0.5 * jnp.eye(P)]) if ridge else F[:N]
            wanted = jnp.concatenate([target, jnp.zeros(P)]) if ridge else target
            move = jnp.linalg.lstsq(rows, wanted)[0]
        else:
            safe = jnp.where(values > 1e-10, values, 1.0)
            speed = jnp.where(values > 1e-10, -jnp.expm1(-safe * t) / safe, t)
            move = Q @ (speed * (Q.T @ (F[:N].T @ target)))
        return F[N:] @ (w0 + move)

    return np.asarray(jax.vmap(outputs)(keys))


@pytest.mark.parametrize(
    ("t", "ridge", "noise"), [(1.3, 0.0, 0.0), (math.inf, 0.0, 0.0), (2.0, 0.4, 0.2)]
)
def test_two_thousand_trained_models_have_this_mean_and_covariance(features, t, ridge, noise, x64):
    # 14 normal scores a case: one is beyond 5 with probability 8e-6 (the scores of variances have
    # somewhat heavier tails).
    keys = jr.split(jr.key(8), MODELS)
    samples = trained(features, keys, t, ridge, noise)
    found = crowd(features, noise, ridge=ridge).at_time(t)
    variance = np.diag(found.covariance)
    scores = (samples.mean(axis=0) - found.mean) / np.sqrt(variance / MODELS)
    assert np.abs(scores).max() < 5
    spread = np.sqrt((np.outer(variance, variance) + found.covariance**2) / MODELS)
    assert np.abs((np.cov(samples.T) - found.covariance) / spread).max() < 5
    prior = np.diag(crowd(features).at_time(0).covariance)
    assert np.max(np.abs(variance - prior) / prior) > 5 * np.sqrt(2 / MODELS)  # training shows


def test_without_training_it_is_the_prior(features):
    F, spread, _ = features
    for at in (crowd(features).at_time(0.0), crowd(features, momentum=0.5).at_step(0)):
        np.testing.assert_array_equal(at.mean, np.zeros(T))
        np.testing.assert_allclose(at.covariance, (F * spread**2 @ F.T)[N:, N:], atol=1e-14)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.8}, {"ridge": 0.3}])
def test_every_member_takes_the_same_linear_map(features, options):
    # A member's outputs are linear in its start; the covariance follows from two linear maps, which
    # the trajectories of unit starts give.
    F, spread, y = features
    H, K = F @ F.T, F * spread**2 @ F.T
    steps = [0, 3, 50]
    M = np.zeros((3, T, N + T))
    for j in range(N + T):
        start = np.eye(N + T)[j]
        flow = KernelDynamics.from_gram(H[:N, :N], np.zeros(N), start=start[:N], **options)
        M[:, :, j] = flow.at_step(steps).outputs(H[N:, :N], start=start[N:])
    at = crowd(features, **options).at_step(steps)
    np.testing.assert_allclose(at.covariance, M @ K @ M.transpose(0, 2, 1), atol=1e-11)
    flow = KernelDynamics.from_gram(H[:N, :N], y, **options)
    np.testing.assert_allclose(at.mean, flow.outputs(steps, H[N:, :N]), atol=1e-12)
    variance = np.einsum("kii->ki", at.covariance)
    np.testing.assert_allclose(at.variance, variance)


@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_last_layers_end_at_the_posterior(ridge):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((N + T, 3))
    K, y = np.asarray(kernels.nngp(x, depth=2)), rng.standard_normal((N, 2))
    blocks = K[:N, :N], K[N:, :N], K[N:, N:]
    flow = KernelDynamics.from_gram(blocks[0], y, ridge=ridge)
    priors = dict(zip(("prior", "prior_cross", "prior_test"), blocks, strict=True))
    end = ensemble(flow, blocks[1], **priors, noise=ridge).at_step(math.inf)
    found = kernels.posterior(blocks[0], y, *blocks[1:], ridge=ridge)
    np.testing.assert_allclose(end.mean, found.mean, atol=1e-9)
    np.testing.assert_allclose(end.covariance, found.covariance, atol=1e-9)


def test_times_of_any_shape_and_coupled_outputs():
    rng = np.random.default_rng(0)
    J = rng.standard_normal((N + T, 2, 30))
    H = np.einsum("iap,jbp->ijab", J, J)
    K = np.einsum("iap,jbp->ijab", J[..., :20], J[..., :20])
    flow = KernelDynamics.from_gram(H[:N, :N], rng.standard_normal((N, 2)))
    priors = {"prior": K[:N, :N], "prior_cross": K[N:, :N], "prior_test": K[N:, N:]}
    at = ensemble(flow, H[N:, :N], **priors).at_time(np.array([[0.1, 2.0, math.inf]]))
    assert at.mean.shape == (1, 3, T, 2)
    assert at.covariance.shape == (1, 3, T, T, 2, 2)
    assert at.variance.shape == (1, 3, T, 2)
    # Pairs of points and outputs are symmetric together.
    np.testing.assert_allclose(at.covariance, np.einsum("...ijab->...jiba", at.covariance))


def test_what_cannot_be_an_ensemble_is_named(features, no_shape_checker):
    F, _, y = features
    H = F @ F.T
    blocks = {"prior": H[:N, :N], "prior_cross": H[N:, :N], "prior_test": H[N:, N:]}
    started = KernelDynamics.from_gram(H[:N, :N], y, start=y)
    with pytest.raises(ValueError, match="`flow` must be without `start`"):
        ensemble(started, H[N:, :N], **blocks)

    def linear(x1, x2=None):
        return x1 @ (x1 if x2 is None else x2).T

    op = kernels.operator(linear, np.diag([3.0, 2.0, 1.0, 1.0]))
    krylov = KernelDynamics.from_operator(op, np.array([1.0, 0.0, 0.0, 0.0]))
    with pytest.raises(ValueError, match="`flow` must have all eigenvectors"):
        ensemble(krylov, np.ones((1, 4)), **blocks)
    flow = KernelDynamics.from_gram(H[:N, :N], y)
    with pytest.raises(ValueError, match=r"`prior_cross` must have shape \(4, 6\)"):
        ensemble(flow, H[N:, :N], **{**blocks, "prior_cross": H[:N, :N]})
    with pytest.raises(ValueError, match="`noise` must be a number >= 0"):
        ensemble(flow, H[N:, :N], **blocks, noise=-0.1)
