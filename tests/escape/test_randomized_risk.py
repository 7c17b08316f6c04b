# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy import data, losses
from unlazy.escape import RandomizedRisk, random_signs, regularizer, signed_output
from unlazy.nets import TwoLayer, TwoLayerParams

M, D, N = 8, 4, 6


@pytest.fixture
def problem(x64, getkey):
    net = TwoLayer(D, M, activation="relu3", init="symmetric")
    x = data.sphere(N, D, key=getkey())
    y = jnp.sign(jr.normal(getkey(), (N,)))
    return net, net.init(key=getkey()), jr.normal(getkey(), (M, D)), (x, y)


def all_signs(m):
    return np.array(list(itertools.product((1.0, -1.0), repeat=m)))


def naive_gradient(net, params, W, batch, s, loss):
    """BL-14, as it is written."""
    x, y = (np.asarray(b) for b in batch)
    U = x @ (np.asarray(params.W) + s[:, None] * np.asarray(W)).T
    a = np.asarray(params.a)
    f = np.maximum(U, 0) ** 3 / 6 @ a / math.sqrt(net.width)
    l1 = np.asarray(loss.derivative(1)(jnp.asarray(f), jnp.asarray(y)))
    slope = np.maximum(U, 0) ** 2 / 2
    return (a * s)[:, None] * ((slope * l1[:, None]).T @ x) / (len(x) * math.sqrt(net.width))


def test_the_gradient_of_one_draw_is_the_formula(problem):
    net, params, W, batch = problem
    key, loss = jr.key(3), losses.pointwise("logistic")
    risk = RandomizedRisk(net, params, "logistic", antithetic=False)
    s = np.asarray(jr.rademacher(key, (1, M), dtype=float))[0]
    expected = naive_gradient(net, params, W, batch, s, loss)
    np.testing.assert_allclose(
        jax.jit(jax.grad(risk))(W, batch, key), expected, rtol=1e-12, atol=1e-16
    )
    pair = RandomizedRisk(net, params, "logistic")
    expected = (expected + naive_gradient(net, params, W, batch, -s, loss)) / 2
    np.testing.assert_allclose(
        jax.jit(jax.grad(pair))(W, batch, key), expected, rtol=1e-12, atol=1e-16
    )


@pytest.mark.parametrize("loss", ["logistic", "pseudo-huber"])
def test_the_mean_gradient_over_all_signs_is_the_slope_of_the_exact_risk(problem, loss):
    # BL-T7: three routes. The mean of BL-14, a finite difference, and automatic differentiation.
    net, params, W, batch = problem
    risk = RandomizedRisk(net, params, loss)
    V, step = jr.normal(jr.key(5), (M, D)), 1e-5
    function = losses.pointwise(loss)
    mean = np.mean(
        [naive_gradient(net, params, W, batch, s, function) for s in all_signs(M)], axis=0
    )
    exact = jax.jit(risk.exact)
    slope = (exact(W + step * V, batch) - exact(W - step * V, batch)) / (2 * step)
    np.testing.assert_allclose(np.sum(mean * np.asarray(V)), slope, rtol=1e-8)
    np.testing.assert_allclose(jax.grad(risk.exact)(W, batch), mean, rtol=1e-11, atol=1e-15)


def test_an_antithetic_pair_has_far_less_noise_than_two_draws(problem):
    # BL-T8 measured 4.9e-3 / 2.4e-3 / 1.6e-5 over one draw, two, and a pair; here exactly, over
    # all signs, at a movement small enough for the linear term to make the noise.
    net, params, W, batch = problem
    loss = losses.pointwise("logistic")
    signs = all_signs(M)
    gradients = {tuple(s): naive_gradient(net, params, 0.1 * W, batch, s, loss) for s in signs}
    single = np.array([gradients[tuple(s)] for s in signs])
    pairs = np.array([(gradients[tuple(s)] + gradients[tuple(-s)]) / 2 for s in signs])

    def noise(values):
        return np.mean(np.sum((values - values.mean(axis=0)) ** 2, axis=(1, 2)))

    assert noise(pairs) < noise(single) / 2 / 20


@pytest.mark.parametrize(("antithetic", "per_example"), [(True, False), (False, True)])
def test_estimates_are_unbiased(problem, antithetic, per_example):
    net, params, W, batch = problem
    options = {"antithetic": antithetic, "per_example": per_example, "strength": 1e-3}
    risk = RandomizedRisk(net, params, "logistic", draws=2, **options)
    estimate = jax.jit(jax.vmap(jax.value_and_grad(risk), in_axes=(None, None, 0)))
    values, gradients = estimate(W, batch, jr.split(jr.key(8), 1000))
    exact, slope = jax.jit(jax.value_and_grad(risk.exact))(W, batch)
    # 33 means of 1000: over 4.5 standard errors in one of them with probability 33 * 7e-6 = 2e-4.
    for sample, mean in ((values, exact), (gradients, slope)):
        error = np.std(sample, axis=0) / math.sqrt(1000)
        assert np.all(np.abs(np.mean(sample, axis=0) - mean) <= 4.5 * error + 1e-15)


def test_zero_is_a_stationary_point(problem):
    # BL-T9: measured 2e-19, to be below 1e-14.
    net, params, W, batch = problem
    risk = RandomizedRisk(net, params, "logistic", strength=1.0)
    assert float(jnp.max(jnp.abs(jax.grad(risk.exact)(0 * W, batch)))) < 1e-14


def test_the_penalty_is_added_once(problem):
    net, params, W, batch = problem
    plain, with_penalty = (RandomizedRisk(net, params, "logistic", strength=p) for p in (0, 0.01))
    gap = with_penalty.exact(W, batch) - plain.exact(W, batch)
    np.testing.assert_allclose(gap, 0.01 * regularizer(W), rtol=1e-10)


def test_the_closed_form_of_a_two_layer_network_is_the_general_path(problem):
    net, params, W, batch = problem
    delta = TwoLayerParams(W=W, a=0 * params.a)
    closed = RandomizedRisk(net, params, "logistic", per_example=True, draws=3)
    general = RandomizedRisk(
        lambda p, x: net(p, x), params, "logistic", per_example=True, draws=3, where=lambda t: t.W
    )
    a, b = (jax.jit(jax.value_and_grad(r))(delta, batch, jr.key(2)) for r in (closed, general))
    np.testing.assert_allclose(a[0], b[0], rtol=1e-13)
    np.testing.assert_allclose(a[1].W, b[1].W, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(a[1].a, b[1].a, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(general.exact(delta, batch), closed.exact(delta, batch), rtol=1e-13)
    np.testing.assert_allclose(closed.exact(W, batch), closed.exact(delta, batch), rtol=1e-14)


def test_any_model_gets_signs_for_the_units_of_a_chosen_leaf(x64, getkey):
    def model(params, x):
        hidden = jnp.tanh(x @ params["W1"].T + params["b1"][None, :])
        return jnp.tanh(hidden @ params["W2"].T) @ params["v"]

    shapes = {"W1": (3, 2), "b1": (3,), "W2": (4, 3), "v": (4,)}
    params, delta = ({k: jr.normal(getkey(), s) for k, s in shapes.items()} for _ in range(2))
    x, y = jr.normal(getkey(), (5, 2)), jnp.ones(5)
    risk = RandomizedRisk(model, params, "logistic", where=lambda t: (t["W1"], t["b1"]))
    values = []
    for s in all_signs(3):
        moved = {k: params[k] + delta[k] for k in params}
        moved["W1"] = params["W1"] + jnp.asarray(s)[:, None] * delta["W1"]
        moved["b1"] = params["b1"] + jnp.asarray(s) * delta["b1"]
        values.append(np.mean(np.logaddexp(0, -np.asarray(model(moved, x)))))
    np.testing.assert_allclose(risk.exact(delta, (x, y)), np.mean(values), rtol=1e-13)


def test_a_tree_that_does_not_fit_is_refused_by_the_name_of_its_leaf(getkey):
    params = {"W": jnp.ones((3, 2)), "v": jnp.ones(3)}
    risk = RandomizedRisk(
        lambda p, x: jnp.tanh(x @ p["W"].T) @ p["v"], params, "logistic", where=lambda t: t["W"]
    )
    batch = (jnp.ones((5, 2)), jnp.ones(5))
    with pytest.raises(ValueError, match=r"\['v'\], got float32\[2\] there"):
        risk({"W": params["W"], "v": jnp.ones(2)}, batch, getkey())
    with pytest.raises(ValueError, match=r"got \['u'\] where `params` has \['v'\]"):
        risk({"W": params["W"], "u": params["v"]}, batch, getkey())
    assert jnp.isfinite(risk({"W": params["W"], "v": None}, batch, getkey()))


def test_a_risk_is_hashable_and_keeps_the_dtype_of_the_parameters(getkey):
    net = TwoLayer(D, 40, activation="relu3", init="symmetric")
    risk = RandomizedRisk(net, net.init(key=getkey()), "logistic")
    batch = (data.sphere(N, D, key=getkey()), jnp.ones(N))
    assert len({risk, risk}) == 1
    W = jnp.ones((40, D)) / 10
    assert risk(W, batch, getkey()).dtype == jnp.float32
    value = jax.jit(lambda r, *args: r(*args), static_argnums=0)(risk, W, batch, jr.key(1))
    np.testing.assert_allclose(value, risk(W, batch, jr.key(1)), rtol=1e-6)


def test_bad_input_is_refused(getkey):
    net = TwoLayer(D, 20, activation="relu3", init="symmetric")
    params = net.init(key=getkey())
    risk = RandomizedRisk(net, params, "logistic")
    x = data.sphere(N, D, key=getkey())
    with pytest.raises(ValueError, match=r"`delta` must move at most 16 neurons .*\(2\^20 sign"):
        risk.exact(params.W, (x, jnp.ones(N)))
    with pytest.raises(ValueError, match=r"`y` must have the shape of the model's outputs, \(6,\)"):
        risk(params.W, (x, jnp.ones((N, 1))), getkey())
    with pytest.raises(ValueError, match=r"`delta` must move the hidden layer, of shape \(20, 4\)"):
        risk(jnp.ones((4, 20)), (x, jnp.ones(N)), getkey())
    with pytest.raises(ValueError, match="`strength` must be at least 0, got strength=-1"):
        RandomizedRisk(net, params, "logistic", strength=-1)
    with pytest.raises(ValueError, match="`loss` must be a known name"):
        RandomizedRisk(net, params, "hinge")
    with pytest.raises(ValueError, match="`draws` must be an integer >= 1"):
        RandomizedRisk(net, params, "logistic", draws=0)
    with pytest.raises(ValueError, match=r"`width` must be even for init='symmetric'"):
        TwoLayer(D, 7, init="symmetric")


def test_the_mean_predictor_converges_to_the_mean_over_all_signs(problem):
    net, params, W, (x, _) = problem
    signed = jax.jit(jax.vmap(lambda s: signed_output(net, params, W, x, s)))
    outputs = signed(jnp.asarray(all_signs(M)))
    exact = np.mean(outputs, axis=0)
    for antithetic in (True, False):
        options = {"draws": 400, "antithetic": antithetic, "key": jr.key(4)}
        mean = ul.escape.mean_output(net, params, W, x, **options)
        pairs = (np.array(outputs) + np.array(outputs)[::-1]) / 2  # the list reversed is negated
        spread = np.std(pairs if antithetic else outputs, axis=0) / 20
        # Six means: over 4.5 standard errors with probability 4e-5.
        assert np.all(np.abs(mean - exact) <= 4.5 * spread + 1e-15)


def test_signs_of_each_input_are_its_own(problem):
    net, params, W, (x, _) = problem
    signs = jnp.stack([random_signs(M, key=key) for key in jr.split(jr.key(6), N)])
    together = signed_output(net, params, W, x, signs)
    for i in range(N):
        alone = signed_output(net, params, W, x[i : i + 1], signs[i])
        np.testing.assert_allclose(together[i : i + 1], alone, rtol=1e-12)
    with pytest.raises(ValueError, match=r"`signs` must have shape \(8,\) or \(6, 8\)"):
        signed_output(net, params, W, x, signs[:3])


def test_an_output_layer_that_moves_too_is_not_flipped(problem):
    net, params, W, (x, _) = problem
    delta = TwoLayerParams(W=W, a=jnp.linspace(-1.0, 1.0, M))
    signs = random_signs(M, key=jr.key(1))
    moved = TwoLayerParams(W=params.W + signs[:, None] * W, a=params.a + delta.a)
    np.testing.assert_allclose(
        signed_output(net, params, delta, x, signs), net(moved, x), rtol=1e-12, atol=1e-15
    )
