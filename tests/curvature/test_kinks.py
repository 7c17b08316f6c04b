# SPDX-License-Identifier: Apache-2.0
"""Where the Hessian does not tell the curvature, and the certificate must say so."""

import jax
import jax.numpy as jnp
import jax.random as jr
import pytest

from unlazy.activations import activation
from unlazy.core.float64 import float64
from unlazy.curvature import certify
from unlazy.curvature.kinks import kink_here, kink_near, may_kink
from unlazy.curvature.objective import float64_objective
from unlazy.losses import pointwise


def _spread():
    half = jr.normal(jr.key(0), (128,))
    return jnp.concatenate([half, -half])


def test_a_maximum_made_of_kinks_is_not_called_second_order_stationary():
    rho = _spread()
    found = certify(
        lambda z: z[0] / 2 - jnp.mean(jax.nn.relu(z[0] + rho)), jnp.zeros(1), key=jr.key(0)
    )
    assert found.gradient_norm == pytest.approx(0, abs=1e-12)
    assert found.curvature.smallest == 0
    assert found.verdict == "not twice differentiable"
    assert found.kink is not None
    assert found.kink.what == "gradient"
    assert found.kink.jump == pytest.approx(1 / 256, rel=1e-6)  # of one ReLU among 256
    at = float(found.kink.distance)
    assert jnp.min(jnp.abs(jnp.abs(rho) - at)) < 1e-5  # where one of them is
    assert "kink: the gradient jumps by 0.0039 at distance" in str(found)


@pytest.mark.parametrize(
    ("spread", "weight"),
    [
        (1e-4, 1e-2),
        *(pytest.param(*p, marks=pytest.mark.slow) for p in ((1e-3, 0.1), (1e-6, 1e-2))),
    ],
)
def test_kinks_close_to_the_point_are_seen_beside_strong_smooth_terms(spread, weight):
    rho = spread * _spread()

    def loss(p):
        kinks = p["z"] / 2 - jnp.mean(jax.nn.relu(p["z"] + rho))
        return weight * kinks + 5 * jnp.sum(p["w"] ** 2) + 10 * jnp.sum(p["w"] ** 4)

    for seed in range(2):
        found = certify(loss, {"z": jnp.zeros(()), "w": jnp.zeros(5)}, key=jr.key(seed))
        assert found.verdict == "not twice differentiable"
        assert found.kink is not None
        assert found.kink.jump == pytest.approx(weight / 256, rel=1e-5)


def test_a_weak_kink_is_seen_where_the_loss_bends_strongly():
    # The change of the gradient across the octave of the kink is 10^7 times the jump.
    def loss(z):
        return 1e4 * z[0] ** 4 + z[0] ** 2 - 1e-3 * jax.nn.relu(z[0] - 0.7)

    found = certify(loss, jnp.zeros(1), key=jr.key(0))
    assert found.kink is not None
    assert found.kink.distance == pytest.approx(0.7, abs=1e-9)
    assert found.kink.jump == pytest.approx(1e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("loss", "at", "verdict"),
    [
        (lambda z: -jnp.abs(z[0]), 0.0, "not twice differentiable"),
        # Its derivative exists from both sides and is not that of JAX, -1/2.
        (lambda z: jax.nn.relu(z[0]) - z[0] / 2, 0.0, "not twice differentiable"),
        (lambda z: -(jax.nn.relu(z[0]) ** 2), 0.0, "not twice differentiable"),
        (lambda z: jnp.floor(3 * z[0]) + z[0] ** 2, 0.0, "not twice differentiable"),
        (lambda z: z[0] ** 2 + 1e-6 * jnp.abs(z[0] - 0.3), 5e-7, "not twice differentiable"),
        (lambda z: jax.nn.relu(z[0] - 0.1) ** 2, 0.0, "second-order stationary"),
        (lambda z: jax.nn.relu(z[0]) ** 3, 0.0, "second-order stationary"),
        (lambda z: jnp.abs(z[0]) * z[0] ** 2, 0.0, "second-order stationary"),
        (
            lambda z: jnp.where(z[0] < 0.1, z[0] ** 2, 0.2 * z[0] - 0.01),
            0.0,
            "second-order stationary",
        ),
        (lambda z: -(z[0] ** 2) + jnp.abs(z[0] - 0.3) + z[0], 0.0, "saddle"),
        (lambda z: jnp.abs(z[0] - 0.3), 0.0, "not stationary"),
    ],
)
def test_a_kink_counts_where_the_gradient_jumps(loss, at, verdict):
    assert certify(loss, jnp.array([at]), key=jr.key(0)).verdict == verdict


def test_smooth_losses_and_activations_made_of_choices_have_no_kink():
    ells = [pointwise(name) for name in ("logistic", "log-cosh", "pseudo-huber")]
    sigmas = [activation(name) for name in ("relu3", "gelu", "softplus")]
    x, y = jr.normal(jr.key(1), (9, 2)), jnp.where(jnp.arange(9) % 2 == 0, 1.0, -1.0)

    def loss(w):
        parts = [jnp.sum(ell(sigma(x @ w), y)) for ell in ells for sigma in sigmas]
        return jnp.sum(jnp.stack(parts))

    for point in (jnp.zeros(2), jnp.full(2, 0.3)):
        with float64(), jax.numpy_dtype_promotion("standard"):
            objective = float64_objective(loss, point, None, None)
            assert may_kink(objective)  # by its operations
            assert kink_here(objective, key=jr.key(0)) is None
            assert kink_near(objective, key=jr.key(1)) is None


def test_a_network_with_kinks_is_seen_among_many_samples_and_neurons():
    W0, x = jr.normal(jr.key(1), (60, 5)), jr.normal(jr.key(2), (200, 5))

    def loss(W):  # stationary at 0, whatever the signs, and flat there
        outputs = jax.nn.relu(x @ (W0 + W).T) - jax.nn.relu(x @ (W0 - W).T)
        return jnp.mean(jnp.mean(outputs, 1) ** 2)

    found = certify(loss, jnp.zeros((60, 5)), curvature_tolerance=1.0, key=jr.key(0))
    assert found.verdict == "not twice differentiable"
