# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Ridge

import unlazy as ul
from unlazy.core.float64 import float64
from unlazy.escape.penalty import regularizer
from unlazy.estimators import TaylorClassifier, TaylorRegressor
from unlazy.estimators.taylor_objective import Penalties, Rule, blocks, objective
from unlazy.nets import TwoLayer, TwoLayerParams


def sample(n=40, d=3, seed=0):
    random = np.random.RandomState(seed)
    X = random.standard_normal((n, d))
    return X, X[:, 0] * X[:, 1] + 0.5 * X[:, 2]


def lifted(X, bias=1.0):
    return np.hstack([X / np.sqrt(X.shape[1]), np.full((len(X), 1), bias)])


def network(model):
    """The network of a fitted model, as the library has it, in float64."""
    m, e = model.hidden_weights_.shape
    net = TwoLayer(e, m, model.activation, init="symmetric")
    W, a = jnp.asarray(model.hidden_weights_), jnp.asarray(model.output_weights_)
    return net, TwoLayerParams(W=W, a=a)


def standard(model, y):
    return (y - model.intercept_) / model.scale_


@pytest.mark.parametrize("n", [12, 90])  # fewer samples than parameters, and more
def test_order_1_is_kernel_ridge_with_the_empirical_tangent_kernel(n):
    X, y = sample(n)
    X_test, _ = sample(7, seed=1)
    model = TaylorRegressor(1, width=16, ridge=0.3, random_state=0).fit(X, y)
    with float64():
        net, params = network(model)
        x, x_test = jnp.asarray(lifted(X)), jnp.asarray(lifted(X_test))
        K, K_test = (
            np.asarray(ul.kernels.empirical_ntk_traced(net, params, a, x, trained="hidden"))
            for a in (x, x_test)
        )
    expected = K_test @ np.linalg.solve(K + 0.3 * np.eye(n), standard(model, y))
    np.testing.assert_allclose(standard(model, model.predict(X_test)), expected, atol=1e-9)


@pytest.mark.parametrize("n", [5, 60])
def test_order_0_is_ridge_regression_on_the_features_of_the_readout(n):
    X, y = sample(n)
    X_test, _ = sample(7, seed=1)
    model = TaylorRegressor(0, width=16, ridge=0.3, random_state=0).fit(X, y)

    def features(X):
        return np.asarray(jax.nn.softplus(lifted(X) @ model.hidden_weights_.T)) / 4  # sqrt(16)

    ridge = Ridge(alpha=0.3, fit_intercept=False).fit(features(X), standard(model, y))
    found = standard(model, model.predict(X_test))
    np.testing.assert_allclose(found, ridge.predict(features(X_test)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_predictions_are_those_of_the_taylor_model_of_the_network(order):
    X, y = sample()
    model = TaylorRegressor(order, width=8, max_iter=500, random_state=0).fit(X, y)
    with float64():
        net, params = network(model)
        moved = TwoLayerParams(W=params.W + model.movement_[0], a=params.a)
        expected = ul.taylor.expand(net, params, order)(moved, jnp.asarray(lifted(X)))
        expected = np.asarray(expected)
    np.testing.assert_allclose(standard(model, model.predict(X)), expected, atol=1e-9)


def problem(c):
    random = np.random.RandomState(0)
    h, e, n = 3, 4, 9
    layer, x = random.standard_normal((h, e)), random.standard_normal((n, e))
    u = 0.5 * random.standard_normal((c, 2, h, e))
    y, weights = random.choice([-1.0, 1.0], (n, c)), random.uniform(0, 2, n)
    return layer, x, u, y, weights


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_objective_is_the_weighted_loss_of_the_taylor_model_with_its_penalties(loss):
    order, c = 3, 2
    layer, x, u, y, weights = problem(c)
    net = TwoLayer(4, 6, "tanh", init="symmetric")
    carried = np.random.RandomState(1).standard_normal((2, 3, 4))
    penalties = Penalties(0.3, 0.7, 0.2, carried)
    with float64():
        params = TwoLayerParams(
            W=jnp.concatenate([layer, layer]), a=jnp.repeat(jnp.array([1.0, -1.0]), 3)
        )
        sigma = ul.activation("tanh")
        z0 = jnp.asarray(x @ layer.T)
        factors = np.sqrt(6.0) * np.array([1, 2, 6])
        series = np.stack([np.asarray(sigma.derivative(k)(z0)) for k in (1, 2, 3)])
        data = blocks(series / factors[:, None, None], x, y, weights)
        offset, still = jnp.array([0.1, -0.2]), jnp.zeros(6)

        def naive(u):
            terms = [
                ul.taylor.terms(net, params, TwoLayerParams(W=w.reshape(6, 4), a=still), x, order)
                for w in u
            ]
            f = jnp.stack([jnp.sum(t, axis=0) for t in terms], axis=1) + offset[None]
            linear = jnp.stack([t[1] for t in terms], axis=1)
            if loss == "squared_error":
                losses = jnp.sum((f - y) ** 2, axis=1)
            else:
                losses = -jnp.sum((y + 1) / 2 * jax.nn.log_softmax(f, axis=1), axis=1)
            free = jnp.einsum("rhe,che->rc", carried, u[:, 0] - u[:, 1])
            bound = jnp.sum(weights * jnp.sum(linear**2, axis=1)) - jnp.sum(free**2)
            norms = sum(regularizer(w.reshape(6, 4)) for w in u)
            return jnp.sum(weights * losses) + 0.3 * jnp.sum(u**2) + 0.7 * bound + 0.2 * norms

        if loss == "log_loss":
            y[:] = np.where(np.arange(2)[None] == (y[:, :1] > 0), 1.0, -1.0)
            data = data._replace(y=blocks(series, x, y, weights).y)
        rule = Rule(loss, False, True, True)
        found = objective(rule, jnp.asarray(u), data, offset, penalties)
        expected = jax.jit(jax.value_and_grad(naive))(jnp.asarray(u))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_average_over_signs_is_that_of_the_randomised_risk():
    # Order 2 of the quadratic activation is the network itself, whose risk is enumerated.
    layer, x, u, y, _ = problem(1)
    net = TwoLayer(4, 6, "quadratic", init="symmetric")
    with float64():
        a = jnp.repeat(jnp.array([1.0, -1.0]), 3)
        params = TwoLayerParams(W=jnp.concatenate([layer, layer]), a=a)
        z0 = x @ layer.T
        series = np.stack([z0, np.ones_like(z0) / 2]) / np.sqrt(6.0)
        data = blocks(series, x, y, np.ones(len(x)))
        rest = data, jnp.zeros(1), Penalties(0.0, 0.0, 0.0, np.zeros((0, 3, 4)))
        found, _ = objective(Rule("squared_error", True, False, False), jnp.asarray(u), *rest)
        risk = ul.escape.RandomizedRisk(net, params, "squared")
        exact = risk.exact(jnp.asarray(u[0].reshape(6, 4)), (jnp.asarray(x), jnp.asarray(y[:, 0])))
        np.testing.assert_allclose(found, len(x) * exact, rtol=1e-9)
        bound, _ = objective(Rule("log_loss", True, False, False), jnp.asarray(u), *rest)
        risk = ul.escape.RandomizedRisk(net, params, "logistic")
        exact = risk.exact(jnp.asarray(u[0].reshape(6, 4)), (jnp.asarray(x), jnp.asarray(y[:, 0])))
        assert len(x) * float(exact) <= float(bound)


def test_random_signs_remove_the_linear_term():
    X, _ = sample(120)
    options = {"width": 32, "bias": 0.0, "ridge": 0.01, "max_iter": 2000, "random_state": 0}
    linear = TaylorRegressor(2, randomize_signs=True, **options).fit(X, X[:, 0])
    product = TaylorRegressor(2, randomize_signs=True, **options).fit(X, X[:, 0] * X[:, 1])
    assert product.score(X, X[:, 0] * X[:, 1]) > 0.9
    # The second derivative of softplus is even: of an input and its negative, f_Q is the same.
    np.testing.assert_allclose(linear.predict(-X), linear.predict(X), atol=1e-9)
    with float64():
        net, params = network(linear)
        delta = TwoLayerParams(W=jnp.asarray(linear.movement_[0]), a=jnp.zeros(32))
        x = jnp.asarray(lifted(X)[:, :-1])
        terms = np.asarray(ul.taylor.terms(net, params, delta, x, 2))
    found = standard(linear, linear.predict(X))
    np.testing.assert_allclose(found, terms[2], atol=1e-9)
    assert np.abs(terms[1]).max() > 1e-3  # there is a linear term, and it is left out


def test_order_2_learns_a_product_that_order_1_does_not():
    random = np.random.RandomState(3)
    X = random.choice([-1.0, 1.0], (400, 12))
    y = X[:, 0] * X[:, 1]
    fits = [TaylorRegressor(k, width=64, random_state=0).fit(X[:150], y[:150]) for k in (1, 2)]
    tangent, quadratic = (model.score(X[150:], y[150:]) for model in fits)
    assert quadratic > 0.8
    assert quadratic > tangent + 0.2


def test_good_directions_bound_the_linear_term_outside_of_them():
    random = np.random.RandomState(0)
    X = random.standard_normal((100, 5))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    outside = []
    for good in (False, True):
        model = TaylorRegressor(
            2, width=32, good_directions=good, ridge=0.03, tol=1e-5, random_state=0
        )
        model.fit(X, y)
        with float64():
            net, params = network(model)
            geometry = ul.escape.directions(net, params, jnp.asarray(lifted(X)), rank=6)
            outside.append(float(geometry.r3(jnp.asarray(model.movement_[0]))))
        assert model.score(X, y) > 0.95
    assert outside[1] < 1e-2 * outside[0]


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize(
    "options",
    [{"order": 0}, {"order": 1}, {"good_directions": True}, {"randomize_signs": True}],
    ids=str,
)
def test_a_weight_of_2_is_a_row_twice_and_a_weight_of_0_none(options, loss):
    X, y = sample(24)
    y = np.where(y > 0.5, "b", np.where(y < -0.5, "a", "c"))
    weights = np.tile([0, 1, 2], 8)
    model = TaylorClassifier(width=4, loss=loss, max_iter=1000, random_state=0, **options)
    one = model.fit(X, y, sample_weight=weights).decision_function(X)
    two = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).decision_function(X)
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_class_weights_are_sample_weights():
    X, y = sample(30)
    labels = y > 0.7
    weights = np.where(labels, len(y) / (2 * labels.sum()), len(y) / (2 * (~labels).sum()))
    options = {"order": 1, "width": 8, "random_state": 0}
    one = TaylorClassifier(class_weight="balanced", **options).fit(X, labels)
    two = TaylorClassifier(**options).fit(X, labels, sample_weight=weights)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-12)
    three = TaylorClassifier(class_weight={False: 0.5, True: 2.0}, **options).fit(X, labels)
    assert three.predict(X).sum() > TaylorClassifier(**options).fit(X, labels).predict(X).sum()


def test_columns_of_targets_are_fitted_one_by_one():
    X, y = sample(30)
    both = np.stack([y, 5 - 100 * y], axis=1)
    model = TaylorRegressor(1, width=8, random_state=0)
    together = model.fit(X, both).predict(X)
    assert together.shape == (30, 2)
    np.testing.assert_allclose(together[:, 0], model.fit(X, y).predict(X), atol=1e-12)
    np.testing.assert_allclose(together[:, 1], 5 - 100 * together[:, 0], atol=1e-9)
