# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.curvature import certify
from unlazy.nets import TwoLayer
from unlazy.papers.bai_lee2020 import QuadraticRisk, quadratic_risk
from unlazy.train import lbfgs


def rosenbrock(w, data):
    return (1 - w[0]) ** 2 + data * (w[1] - w[0] ** 2) ** 2


@pytest.mark.slow
def test_the_valley_is_followed_to_its_minimum(x64):
    start = jnp.array([-1.2, 1.0])
    history = lbfgs(rosenbrock, start, jnp.asarray(100.0), steps=100, tolerance=1e-8)
    assert history.outcome == "stopped"
    assert history.final_step < 60
    np.testing.assert_allclose(history.params, [1, 1], atol=1e-8)
    assert float(jnp.linalg.norm(jax.grad(rosenbrock)(history.params, 100.0))) <= 1e-8
    assert np.all(np.diff(history.loss) <= 0)
    assert history.steps.tolist() == list(range(history.final_step + 1))
    # Where the gradient vanishes, be it a minimum or a saddle, it ends at once.
    again = lbfgs(rosenbrock, jnp.ones(2), jnp.asarray(100.0), steps=100, tolerance=1e-8)
    assert (again.outcome, again.final_step, again.loss.tolist()) == ("stopped", 0, [0.0])


def test_a_convex_quadratic_ends_at_its_solution_for_any_scale(x64, getkey):
    A = jr.normal(getkey(), (30, 8))
    b = jr.normal(getkey(), (30,))
    exact = np.linalg.lstsq(np.asarray(A), np.asarray(b))[0]

    def residuals(w, data):
        return jnp.sum((data[0] @ w - data[1]) ** 2)

    for scale in (1.0, 1e-3):
        history = lbfgs(
            residuals, jnp.zeros(8), (A, b), steps=100, scale=scale, tolerance=1e-9 * scale
        )
        assert history.outcome == "stopped"
        np.testing.assert_allclose(history.params, exact, rtol=1e-8)


@pytest.mark.slow
def test_it_fits_the_quadratic_model_to_a_certified_minimum(x64):
    """BL-31: V = m^(1/4) W, memory 20, from 0.3 m^(-1/4) N(0, I) / sqrt(d)."""
    d, m, n = 6, 32, 100
    rng = np.random.default_rng(1)
    x = rng.choice([-1.0, 1.0], (n, d))
    net = TwoLayer(d, m, "relu3", "symmetric", init_scale=d**-0.5)
    params = net.init(key=jr.key(0))
    risk = QuadraticRisk.of(net, params, x, x[:, 0] * x[:, 1], strength=1e-5)
    start = 0.3 * m**-0.25 * jr.normal(jr.key(1), (m, d)) / d**0.5
    history = lbfgs(quadratic_risk, start, risk, steps=200, scale=m**-0.25, tolerance=1e-6)
    assert history.loss[-1] < 0.3
    found = certify(risk, history.params, key=jr.key(2))
    assert found.verdict == "second-order stationary"
    # In V, so that the tolerance is on the scaled gradient m^(-1/4) dL/dW.
    assert found.gradient_norm * m**-0.25 <= 1e-6 * (1 + 1e-9)


@pytest.mark.slow
def test_records_and_float32_and_frozen_parameters():
    net = TwoLayer(3, 8, "tanh")
    params = net.init(key=jr.key(0))
    history = lbfgs(
        lambda p, data: jnp.sum((net(p, data) - 1.0) ** 2),
        params,
        jnp.eye(3),
        steps=20,
        scale=0.5,
        trained="hidden",
        record={"norm": lambda p: jnp.linalg.norm(p.W)},
        tolerance=1e-4,
    )
    assert history.params.W.dtype == jnp.float32
    np.testing.assert_array_equal(history.params.a, params.a)
    assert history.records["norm"][0] == pytest.approx(float(jnp.linalg.norm(params.W)), rel=1e-6)
    assert history.loss[-1] < 1e-3 * history.loss[0]


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`memory` must be an integer >= 1"):
        lbfgs(rosenbrock, jnp.zeros(2), jnp.ones(()), steps=1, memory=0)
    with pytest.raises(ValueError, match="`scale` must be a positive number"):
        lbfgs(rosenbrock, jnp.zeros(2), jnp.ones(()), steps=1, scale=0)
