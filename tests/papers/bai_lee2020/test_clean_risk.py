# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unlazy.curvature import hvp
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.bai_lee2020 import QuadraticRisk, quadratic_risk, randomized_landscape
from unlazy.taylor import terms
from unlazy.train import fit

LOSSES = ["logistic", "pseudo-huber"]


def test_the_model_is_the_second_taylor_term(x64, small, getkey):
    net, params, x, _, risk, W, _ = small()
    delta = TwoLayerParams(W=W, a=jnp.zeros_like(params.a))
    np.testing.assert_allclose(risk.outputs(W), terms(net, params, delta, x, 2)[2], rtol=1e-12)
    # And, by pairs of twins, BL-10: x^T (w w^T - w' w'^T) x.
    half = net.width // 2
    A = jnp.einsum("ri,rj->rij", W[:half], W[:half]) - jnp.einsum("ri,rj->rij", W[half:], W[half:])
    forms = jnp.einsum("ni,rij,nj->nr", x, A, x)
    curvature = jax.nn.relu(x @ params.W[:half].T)
    by_pairs = jnp.sum(curvature * forms, axis=1) / (2 * math.sqrt(net.width))
    np.testing.assert_allclose(risk.outputs(W), by_pairs, rtol=1e-12)


@pytest.mark.parametrize(("loss", "strength"), [("logistic", 0.0), ("pseudo-huber", 0.02)])
def test_closed_derivatives_equal_automatic_ones(x64, small, getkey, loss, strength):
    """BL-T11, and the gradient."""
    *_, risk, W, V = small(loss=loss, strength=strength)
    np.testing.assert_allclose(risk.gradient(W), jax.grad(risk)(W), rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(risk.hvp(W, V), hvp(risk, W, V), rtol=1e-11, atol=1e-15)
    h = 1e-5
    slope = (risk.gradient(W + h * V) - risk.gradient(W - h * V)) / (2 * h)
    np.testing.assert_allclose(risk.hvp(W, V), slope, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_euler_identity_of_the_gradient(x64, small, getkey, loss):
    *_, y, risk, W, _ = small(loss=loss, strength=0.02)
    F = risk.outputs(W)
    radial = 2 * jnp.mean(risk.loss.derivative(1)(F, y) * F)
    penalty = 8 * (risk(W) - risk.data_term(W))
    along = float(jnp.sum(risk.gradient(W) * W))
    assert along == pytest.approx(float(radial + penalty), rel=1e-12)


def test_zero_is_stationary_and_a_saddle(x64, small, getkey):
    """BL-T9, with the curvature: of both signs, as the twins have opposite output weights."""
    *_, risk, W, _ = small(m=8)
    zero = jnp.zeros_like(W)
    assert float(jnp.max(jnp.abs(risk.gradient(zero)))) <= 1e-14
    H = jax.jit(jax.hessian(lambda w: risk(w.reshape(W.shape))))(jnp.zeros(W.size))
    values = np.linalg.eigvalsh(H)
    assert values[0] < 0 < values[-1]
    np.testing.assert_allclose(values, -values[::-1], atol=1e-15)


def test_signs_of_the_movement_do_not_matter(x64, small, getkey):
    *_, risk, W, _ = small(strength=0.1)
    signs = jax.random.rademacher(getkey(), (len(W), 1), W.dtype)
    assert float(risk(signs * W)) == pytest.approx(float(risk(W)), rel=1e-14)


def test_it_is_data_for_a_trainer_in_mini_batches(small, getkey):
    *_, risk, W, _ = small(n=12, strength=1e-4)
    history = fit(
        quadratic_risk, W, risk, optimizer=optax.sgd(0.5), steps=40, batch_size=4, key=getkey()
    )
    assert float(risk(history.params)) < float(risk(W))
    assert history.params.dtype == jnp.float32
    parts = [jax.tree.map(lambda leaf: leaf[i : i + 4], risk) for i in (0, 4, 8)]  # noqa: B023
    mean = sum(float(part(W)) for part in parts) / 3
    assert mean == pytest.approx(float(risk(W)), rel=1e-5)


def test_bad_arguments_are_named(small, getkey, no_shape_checker):
    net, params, x, y, risk, W, _ = small()
    with pytest.raises(ValueError, match="`strength` must be at least 0, got strength=-1"):
        QuadraticRisk.of(net, params, x, y, strength=-1)
    with pytest.raises(ValueError, match=r"`W` must have shape \(8, 3\), got W.shape=\(3, 8\)"):
        risk(W.T)
    relu = TwoLayer(3, 8, "relu", "symmetric")
    with pytest.raises(ValueError, match="`k` must be at most 1 for relu, got k=2"):
        QuadraticRisk.of(relu, params, x, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([[1.0], [-1.0]]), r"`y` must have shape \(2,\)"),
        (np.array([0.0, 1.0]), r"labels of plus and minus 1 .* got y with 0, 1. .* 2 \* y - 1"),
    ],
)
def test_labels_that_would_train_on_something_else_are_refused(y, message, no_shape_checker):
    net = TwoLayer(2, 4, "relu3", init="symmetric")
    params, x = net.init(key=jax.random.key(0)), np.eye(2)
    with pytest.raises(ValueError, match=message):
        QuadraticRisk.of(net, params, x, y)
    with pytest.raises(ValueError, match=message):
        randomized_landscape(net, params, params.W, params.W, x, y, pairs=None)
