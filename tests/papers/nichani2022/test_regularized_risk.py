# SPDX-License-Identifier: Apache-2.0
import functools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.curvature import hvp
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.nichani2022 import RegularizedRisk, theory_strengths

D, M, N = 5, 20, 15
STRENGTHS = (0.7, 0.3, 2.0, 0.01)


@functools.cache
def geometry(covariance):
    """Made once, in float64."""
    keys = jr.split(jr.key(0), 3)
    with jax.enable_x64(True):
        net = TwoLayer(D, M, ul.activation("sigmoid", shift=1.5), "sphere")
        params = net.init(key=keys[0])
        x, other = (ul.data.sphere(n, D, radius=math.sqrt(D), key=key)
                    for n, key in ((N, keys[1]), (40, keys[2])))  # fmt: skip
        if covariance != "unlabelled":
            return ul.escape.directions(net, params, x, 1, covariance=covariance)
        return ul.escape.directions(net, params, x, 1, covariance="unlabelled", unlabelled=other)


def problem(covariance="unlabelled", **options):
    """A risk in float64 with every penalty, a point and a direction."""
    keys = jr.split(jr.key(1), 3)
    with jax.enable_x64(True):
        y = jr.normal(keys[0], (N,))
        W, V = (jr.normal(key, (M, D)) for key in keys[1:])
        options = {"strengths": STRENGTHS, **options}
        return RegularizedRisk.of(geometry(covariance), y, **options), W, V


def s(z):
    return 1 / (1 + np.exp(1.5 - z))


def naive_outputs(risk, W, *, network):
    """The model by its formulas in NumPy."""
    W0, a = np.asarray(risk.geometry.params.W), np.asarray(risk.geometry.params.a)
    x, W = np.asarray(risk.geometry.term.x), np.asarray(W)
    H, Z = x @ W0.T, x @ W.T
    if network:
        return (s(H + Z) - s(H)) @ a / math.sqrt(M)
    first = s(H) * (1 - s(H))
    return (first * Z + first * (1 - 2 * s(H)) * Z**2 / 2) @ a / math.sqrt(M)


@pytest.mark.slow
@pytest.mark.parametrize("network", [False, True])
def test_the_risk_is_its_formula(network, x64):
    risk, W, _ = problem(network=network)
    f = naive_outputs(risk, W, network=network)
    outputs, value = jax.jit(lambda W: (risk.outputs(W), risk(W)))(W)
    np.testing.assert_allclose(outputs, f, rtol=1e-10, atol=1e-12)
    g = risk.geometry
    penalties = np.asarray(jax.jit(lambda W: jnp.stack([g.r1(W), g.r2(W), g.r3(W), g.r4(W)]))(W))
    data = np.mean(np.log(np.cosh(f - np.asarray(risk.y))))
    assert float(value) == pytest.approx(data + np.dot(STRENGTHS, penalties), rel=1e-10)
    rows = np.linalg.norm(np.asarray(W), axis=1)
    assert penalties[3] == pytest.approx(np.sum(rows**4) ** 2, rel=1e-12)


def test_the_gradient_is_the_difference_quotient(x64):
    risk, W, V = problem()
    value = jax.jit(lambda W: risk(W))
    h = 1e-4
    slope = (value(W + h * V) - value(W - h * V)) / (2 * h)
    along = jax.jit(lambda W: jnp.sum(risk.gradient(W) * V))(W)
    assert float(along) == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize(
    ("covariance", "loss"), [("data", "squared"), ("unlabelled", "log-cosh"), ("exact", "log-cosh")]
)
def test_the_form_of_the_hessian_is_that_of_automatic_differentiation(covariance, loss, x64):
    # NB-17 to rounding, for all three projectors.
    risk, W, V = problem(covariance, loss=loss)
    form = jax.jit(lambda W, V: risk.hessian_form(W, V))(W, V)
    assert float(form) == pytest.approx(float(jnp.sum(V * hvp(risk, W, V))), rel=1e-10)


def test_the_form_without_penalties_is_that_of_the_data(x64):
    risk, W, V = problem(strengths=(0, 0, 0, 0))
    form = jax.jit(lambda W, V: risk.hessian_form(W, V))(W, V)
    assert float(form) == pytest.approx(float(jnp.sum(V * hvp(risk, W, V))), rel=1e-10)
    penalised = float(problem()[0].hessian_form(W, V))
    assert penalised != pytest.approx(float(form), rel=0.1)


def test_the_form_of_the_networks_hessian_is_that_of_automatic_differentiation(x64):
    # At a movement as large as the start, where the network and its expansion are far apart.
    risk, W, V = problem("data", network=True, strengths=(0, 0, 3.0, 0))
    form = jax.jit(lambda W, V: risk.hessian_form(W, V))(W, V)
    assert float(form) == pytest.approx(float(jnp.sum(V * hvp(risk, W, V))), rel=1e-10)
    expansion = float(problem("data", strengths=(0, 0, 3.0, 0))[0].hessian_form(W, V))
    assert expansion != pytest.approx(float(form), rel=1e-3)


def test_float32_movements_give_float32_risks():
    risk, W, _ = problem()
    with jax.enable_x64(True):
        wide = float(risk(W))
        single, W = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), (risk, W))
    narrow = jax.jit(lambda W: single(W))(W)
    assert narrow.dtype == jnp.float32
    assert float(narrow) == pytest.approx(wide, rel=1e-5)


def test_the_start_of_the_network_is_the_zero_of_both_models(x64):
    for network in (False, True):
        risk, W, _ = problem(network=network)
        np.testing.assert_array_equal(risk.outputs(0 * W), np.zeros(N))
    # To second order they agree: the gap is of third order.
    expansion, network = problem()[0], problem(network=True)[0]
    gaps = [float(jnp.max(jnp.abs(expansion.outputs(h * W) - network.outputs(h * W))))
            for h in (1e-2, 5e-3)]  # fmt: skip
    assert gaps[0] / gaps[1] == pytest.approx(8, rel=0.1)
    assert isinstance(risk.geometry.params, TwoLayerParams)


def test_the_strengths_of_the_theory_are_those_of_the_spec():
    # NB-16: m^(1/2) d^(-(k-1)/2) eps, eps, the first again, d^(-2(k-1)) eps.
    lam1, lam2, lam3, lam4 = theory_strengths(10_000, 100, 2, accuracy=0.1)
    assert lam1 == lam3 == pytest.approx(100 / 10 * 0.1)
    assert (lam2, lam4) == (0.1, pytest.approx(1e-4 * 0.1))
    assert theory_strengths(10_000, 100, 2, accuracy=0.1, r4=50)[3] == pytest.approx(0.002)


@pytest.mark.parametrize("network", [False, True])
def test_integer_movements_do_not_truncate_labels(network, no_shape_checker):
    risk, _, _ = problem("data", network=network)
    whole = np.arange(M * D).reshape(M, D) % 3 - 1
    with jax.enable_x64(True):
        expected = float(risk(jnp.asarray(whole, jnp.float64)))
        assert float(risk(jnp.asarray(whole))) == pytest.approx(expected, rel=1e-12)


def test_wrong_labels_strengths_and_models_are_refused(no_shape_checker):
    risk, W, _ = problem(network=True)
    with pytest.raises(ValueError, match="`W` must be a movement of the hidden layer"):
        risk.data_term(W[:1])  # it would broadcast
    with pytest.raises(ValueError, match="`strengths` must be four numbers >= 0"):
        RegularizedRisk.of(risk.geometry, risk.y, strengths=(0, -1, 0, 0))
    with pytest.raises(ValueError, match=r"`y` must have shape \(15,\)"):
        RegularizedRisk.of(risk.geometry, risk.y[:3])
    with pytest.raises(ValueError, match="plus and minus 1 for the logistic loss"):
        RegularizedRisk.of(risk.geometry, risk.y, loss="logistic")
    with pytest.raises(ValueError, match="`accuracy` must be a positive number"):
        theory_strengths(4, 4, 1, accuracy=0)


def test_squared_weighs_a_penalty_as_training_the_expansion_does(x64):
    net = ul.nets.TwoLayer(3, 8, ul.activation("sigmoid", shift=1.5), init="sphere")
    params = net.init(key=jr.key(0))
    x = ul.data.sphere(10, 3, radius=2.0, key=jr.key(1))
    y = x[:, 0] - x[:, 1] ** 2
    geometry = ul.escape.directions(net, params, x, rank=4)
    risk = RegularizedRisk.of(geometry, y, loss="squared", strengths=(0, 0, 5.0, 0))
    W, gradient = jnp.zeros((8, 3)), jax.jit(lambda W: risk.gradient(W))
    for _ in range(3):
        W = W - 0.1 * gradient(W)
    runs = ul.papers.nichani2022.fit_expansion(
        net,
        jax.tree.map(lambda leaf: leaf[None], params),
        ul.papers.nichani2022.TrialData(x[None], y[None]),
        settings=[ul.papers.nichani2022.ExpansionSetting(lam3=5.0)],
        rank=4,
        learning_rate=0.1,
        steps=3,
        key=jr.key(2),
    )
    np.testing.assert_allclose(runs.W[0, 0], W, rtol=1e-10, atol=1e-14)
    assert float(risk.data_term(W)) == pytest.approx(float(runs.train[0, 0, -1]), rel=1e-10)
