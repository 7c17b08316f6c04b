# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy.escape import regularizer
from unlazy.losses import pointwise
from unlazy.nets import TwoLayer
from unlazy.papers.bai_lee2020 import regularizer_gradient
from unlazy.train import MeanLoss, Regularized, fit


@pytest.fixture
def problem():
    net = TwoLayer(3, 8, "tanh")
    x, y = jr.normal(jr.key(1), (20, 3)), jr.rademacher(jr.key(2), (20,), jnp.float32)
    return net, net.init(key=jr.key(0)), (x, y)


@pytest.mark.parametrize("name", ["logistic", "pseudo-huber", "squared"])
def test_it_is_the_mean_of_the_pointwise_loss_and_its_gradient_the_chain_rule(problem, name):
    net, params, (x, y) = problem
    loss = MeanLoss(net, name)
    f = net(params, x)
    each = [float(pointwise(name)(f[i], y[i])) for i in range(20)]
    assert float(loss(params, (x, y))) == pytest.approx(np.mean(each), rel=1e-6)
    jac = jax.jacobian(lambda W: net(type(params)(W=W, a=params.a), x))(params.W)
    chain = jnp.einsum("n,nmd->md", pointwise(name).derivative(1)(f, y), jac) / 20
    np.testing.assert_allclose(jax.grad(loss)(params, (x, y)).W, chain, rtol=1e-4, atol=1e-7)


def test_equal_losses_are_equal_and_training_again_compiles_nothing(problem):
    net, params, data = problem
    traces = []

    def model(params, x):
        traces.append(1)
        return net(params, x)

    assert MeanLoss(model) == MeanLoss(model, "logistic") == MeanLoss(model, pointwise("logistic"))
    assert MeanLoss(model) != MeanLoss(model, "squared")
    optimizer = optax.sgd(0.1)

    def train():
        loss = Regularized(MeanLoss(model), lambda_norm, 0.1)
        return fit(loss, params, data, optimizer=optimizer, steps=5)

    train()
    count = len(traces)
    train()
    assert len(traces) == count > 0


def lambda_norm(params):
    return jnp.sum(params.W**2)


def test_a_penalty_adds_its_value_and_its_gradient(problem):
    net, params, data = problem
    plain = MeanLoss(net)
    loss = Regularized(plain, lambda p: regularizer(p.W), 0.5)
    expected = float(plain(params, data)) + 0.5 * float(regularizer(params.W))
    assert float(loss(params, data)) == pytest.approx(expected, rel=1e-6)
    difference = jax.grad(loss)(params, data).W - jax.grad(plain)(params, data).W
    np.testing.assert_allclose(
        difference, 0.5 * regularizer_gradient(params.W), rtol=1e-4, atol=1e-3
    )


def test_a_stochastic_loss_gets_its_key_through_the_penalty():
    def noisy(w, batch, key):
        return jnp.sum(w * batch) * jr.normal(key)

    loss = Regularized(noisy, jnp.sum, 2.0)
    w, key = jnp.ones(3), jr.key(0)
    expected = float(noisy(w, w, key)) + 6
    assert float(loss(w, w, key)) == pytest.approx(expected, rel=1e-6)


def test_bad_arguments_are_named(problem):
    net, params, (x, y) = problem
    with pytest.raises(
        ValueError, match=r"`y` must have the shape of the model's outputs, \(20,\)"
    ):
        MeanLoss(net)(params, (x, y[:, None]))
    with pytest.raises(ValueError, match="`strength` must be finite"):
        Regularized(MeanLoss(net), lambda_norm, float("nan"))
    with pytest.raises(ValueError, match="`loss` must be a known name"):
        MeanLoss(net, "logistik")
