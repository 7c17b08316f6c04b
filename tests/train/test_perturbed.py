# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy.escape import RandomizedRisk
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.train import LossBelow, Perturbation, fit, perturbed_gradient_descent

RULE = Perturbation(radius=1e-3, gradient_threshold=1e-4, patience=20, decrease=1e-5)


def saddle(w, curvature):
    """Minima at w = (0, +-sqrt(g)) of value -g^2/4, a strict saddle at 0 with curvature -g."""
    return (w[0] ** 2 - curvature * w[1] ** 2) / 2 + w[1] ** 4 / 4


def descend(start, curvature, **options):
    defaults: dict[str, Any] = {"steps": 2000, "learning_rate": 0.1, "momentum": 0.0}
    defaults |= {"perturbation": RULE, "key": jr.key(0)}
    return perturbed_gradient_descent(saddle, start, jnp.asarray(curvature), **(defaults | options))


def test_a_saddle_holds_plain_descent_and_not_the_perturbed_one():
    plain = fit(
        lambda w, data: saddle(w, data[0]),
        jnp.zeros(2),
        jnp.ones(1),
        optimizer=optax.sgd(0.1),
        steps=2000,
        record_every=100,
    )
    np.testing.assert_array_equal(plain.params, 0)
    history = descend(jnp.zeros(2), 1.0)
    assert history.outcome == "stopped"
    assert history.loss[-1] == pytest.approx(-0.25, abs=1e-5)
    assert abs(float(history.params[1])) == pytest.approx(1, abs=0.01)
    assert history.perturbed_at[0] == 0


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_the_time_to_leave_is_the_logarithm_of_the_kick_over_the_rate_of_growth(momentum):
    """Linear dynamics near the saddle, solved: from the kick's part r |u_2| to size 0.1.

    Without momentum the growth is by 1 + lr g a step; with it, by the larger root of
    z^2 - (1 + beta + lr g) z + beta, and the part along that root.
    """
    lr, g, size = 0.05, 0.5, 0.1
    history = descend(
        jnp.zeros(2),
        g,
        learning_rate=lr,
        momentum=momentum,
        record={"w": lambda w: w},
        steps=1000,
    )
    w = np.abs(history.records["w"][:, 1])
    kick = w[history.steps.tolist().index(1)]
    assert 0 < kick <= RULE.radius
    taken = int(np.argmax(w >= size)) - 1
    b = 1 + momentum + lr * g
    root = (b + math.sqrt(b**2 - 4 * momentum)) / 2
    # w_1 = (1 + lr g) w_0 from rest: the share of the growing root.
    share = (1 + lr * g - momentum / root) / (root - momentum / root)
    expected = math.log(size / (kick * share)) / math.log(root)
    assert taken == pytest.approx(expected, abs=2)


@pytest.mark.slow
def test_the_time_to_leave_grows_like_the_inverse_curvature():
    """tau ~ log(1/r) / (lr gamma): slope -1 over four curvatures, with its standard error."""
    curvatures, times = np.array([0.1, 0.2, 0.4, 0.8]), []
    for g in curvatures:
        history = descend(
            jnp.zeros(2), g, learning_rate=0.02, steps=8000, record={"w": lambda w: w[1]}
        )
        w = np.abs(history.records["w"])
        times.append(np.argmax(w >= 100 * w[1]))  # a factor of 100 after the kick
    (slope, _), covariance = np.polyfit(np.log(curvatures), np.log(times), 1, cov=True)
    error = float(np.sqrt(covariance[0, 0]))
    assert error < 0.02
    assert slope == pytest.approx(-1, abs=max(4 * error, 0.03))


def test_a_minimum_gets_one_kick_and_then_the_end():
    start = jnp.array([0.0, 1.0])
    history = descend(start, 1.0)
    assert history.outcome == "stopped"
    assert history.perturbed_at.tolist() == [0]
    assert history.final_step > RULE.patience
    np.testing.assert_allclose(history.params, start, atol=2e-3)
    assert history.steps[-1] == history.final_step
    assert len(history.loss) == history.final_step + 1


def test_kicks_keep_their_distance_and_have_the_stated_length():
    # A slope: between two kicks descent falls by more than a kick could raise the loss.
    rule = Perturbation(radius=0.25, gradient_threshold=10.0, patience=7, decrease=0.1)
    history = perturbed_gradient_descent(
        lambda w, data: -jnp.sum(w["a"] * data) - jnp.sum(w["b"]),
        {"a": jnp.zeros(3), "b": jnp.zeros((2, 2))},
        jnp.ones(3),
        steps=50,
        learning_rate=0.1,
        momentum=0.0,
        perturbation=rule,
        record={"w": lambda w: jnp.concatenate([w["a"], w["b"].ravel()])},
        key=jr.key(3),
    )
    assert history.perturbed_at.tolist() == [0, 8, 16, 24, 32, 40, 48]
    moves = np.diff(history.records["w"], axis=0)
    expected = np.full(50, 0.1 * math.sqrt(7))
    expected[history.perturbed_at] = 0.25
    np.testing.assert_allclose(np.linalg.norm(moves, axis=1), expected, rtol=1e-4)
    kicks = moves[history.perturbed_at] / 0.25
    assert np.max(np.abs(kicks @ kicks.T - np.eye(7))) < 0.999  # each in another direction


def test_same_key_same_run_other_key_other_run():
    runs = [descend(jnp.zeros(2), 1.0, key=jr.key(seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].loss, runs[1].loss)
    assert not np.array_equal(runs[0].params, runs[2].params)


def test_the_default_learning_rate_is_set_by_the_largest_curvature():
    history = perturbed_gradient_descent(
        lambda w, data: jnp.sum(data * w**2) / 2,
        jnp.array([1.0, 1.0]),
        jnp.array([4.0, 1.0]),
        steps=1,
        momentum=0.0,
        key=jr.key(0),
    )
    np.testing.assert_allclose(history.params, [1 - 0.15, 1 - 0.15 / 4], rtol=1e-6)
    with pytest.raises(ValueError, match="`learning_rate` must be given where no curvature is"):
        perturbed_gradient_descent(
            lambda w, data: data - jnp.sum(w**2), jnp.ones(2), 0.0, steps=1, key=jr.key(0)
        )


def test_a_stop_rule_and_records_work_as_in_fit():
    history = descend(jnp.zeros(2), 1.0, stop=LossBelow(-0.1), record={"w": lambda w: w})
    assert history.outcome == "stopped"
    assert history.loss[-1] <= -0.1 < history.loss[-2]
    assert history.records["w"].shape == (history.final_step + 1, 2)
    np.testing.assert_array_equal(history.records["w"][-1], history.params)


def test_it_escapes_on_the_randomised_risk_with_a_fresh_key_a_step():
    """W = 0 is an exact saddle of the randomised risk too; signs are drawn anew at each step."""
    d, m, n = 4, 32, 60
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (n, d)).astype(np.float32)
    y = x[:, 0] * x[:, 1]
    net = TwoLayer(d, m, "relu3", "symmetric", init_scale=0.5)
    risk = RandomizedRisk(net, net.init(key=jr.key(1)), "logistic", strength=1e-5)
    history = perturbed_gradient_descent(
        risk,
        jnp.zeros((m, d)),
        (x, y),
        stochastic=True,
        learning_rate=0.1 * math.sqrt(m),
        steps=400,
        perturbation=Perturbation(radius=0.1, gradient_threshold=1e-5),
        key=jr.key(2),
    )
    assert history.loss[0] == pytest.approx(math.log(2), rel=1e-6)
    assert history.perturbed_at.tolist() == [0]
    assert np.mean(history.loss[-20:]) < 0.5


def test_only_the_chosen_parameters_are_kicked_and_trained():
    net = TwoLayer(3, 4, "tanh", "symmetric")
    params = net.init(key=jr.key(0))
    history = perturbed_gradient_descent(
        lambda p, data: jnp.mean((net(p, data) - 1.0) ** 2),
        params,
        jnp.eye(3),
        steps=5,
        learning_rate=0.1,
        trained="hidden",
        perturbation=Perturbation(gradient_threshold=1e3),
        key=jr.key(1),
    )
    assert isinstance(history.params, TwoLayerParams)
    np.testing.assert_array_equal(history.params.a, params.a)
    moved = float(jnp.linalg.norm(history.params.W - params.W))
    assert moved > 0.9e-3


def test_the_scaled_rule_follows_the_width():
    one, many = Perturbation.scaled(1), Perturbation.scaled(256)
    assert (one.radius, one.gradient_threshold) == (1e-3, 2e-4)
    assert many.radius == pytest.approx(one.radius / 4)
    assert many.gradient_threshold == pytest.approx(one.gradient_threshold / 4)
    assert (many.patience, many.decrease) == (60, 1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"momentum": 1.0}, "`momentum` must be from 0 to below 1, got momentum=1.0"),
        ({"learning_rate": -1.0}, "`learning_rate` must be a positive number"),
        ({"steps": -1}, "`steps` must be an integer >= 0"),
        ({"key": 3}, "`key` must be one random key"),
    ],
)
def test_bad_arguments_are_named(arguments, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        descend(jnp.zeros(2), 1.0, **arguments)


def test_a_bad_rule_is_named():
    with pytest.raises(ValueError, match="`radius` must be a positive number"):
        Perturbation(radius=0.0)
    with pytest.raises(ValueError, match="`patience` must be an integer >= 0"):
        Perturbation(patience=-1)


def test_a_changed_closure_changes_loss_records_and_learning_rate():
    scale, weight = 1.0, 1.0

    def loss(w):
        return scale * jnp.sum(w**2) / 2

    def norm(w):
        return weight * jnp.sum(w)

    def run(learning_rate: float | None = 0.1):
        options = {"learning_rate": learning_rate, "momentum": 0.0, "record": {"norm": norm}}
        return perturbed_gradient_descent(
            loss, jnp.ones(2), None, steps=1, key=jr.key(0), **options
        )

    np.testing.assert_allclose(run().params, 0.9, rtol=1e-6)
    # Without a rate the step is 0.15 over the largest curvature, whatever the scale.
    np.testing.assert_allclose(run(None).params, 0.85, rtol=1e-6)
    scale, weight = 2.0, 3.0
    np.testing.assert_allclose(run().params, 0.8, rtol=1e-6)
    np.testing.assert_allclose(run().records["norm"], [6.0, 4.8], rtol=1e-6)
    np.testing.assert_allclose(run(None).params, 0.85, rtol=1e-6)
