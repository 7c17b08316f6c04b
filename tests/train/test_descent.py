# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy import data
from unlazy.core.errors import UnlazyWarning
from unlazy.curvature import certify
from unlazy.nets import TwoLayer
from unlazy.papers.bai_lee2020 import QuadraticRisk
from unlazy.taylor import expand, linearize
from unlazy.train import (
    LossBelow,
    RelativeLossBelow,
    SquaredError,
    fit,
    perturbed_gradient_descent,
)


@pytest.fixture
def problem(getkey):
    x = data.sphere(24, 5, key=getkey())
    y = data.random_labels(24, key=getkey())
    net = TwoLayer(5, 64)
    return net, net.init(key=getkey()), x, y


def by_hand(net, params, x, y, lr, steps):
    """AR-4 and AR-30 written out: only W moves."""
    W, a, x, y = (np.asarray(v, np.float64) for v in (params.W, params.a, x, y))
    losses = []
    for _ in range(steps + 1):
        P = x @ W.T
        resid = np.maximum(P, 0) @ a / np.sqrt(net.width) - y
        losses.append(np.sum(resid**2) / 2)
        W = W - lr * ((P >= 0) * resid[:, None] * a / np.sqrt(net.width)).T @ x
    return np.array(losses)


def test_full_batch_descent_follows_the_formula_of_the_gradient(problem):
    net, params, x, y = problem
    history = fit(
        SquaredError(net), params, (x, y), optimizer=optax.sgd(0.1), steps=60, trained="hidden"
    )
    np.testing.assert_allclose(history.loss, by_hand(net, params, x, y, 0.1, 60), rtol=2e-4)
    np.testing.assert_array_equal(history.steps, np.arange(61))
    np.testing.assert_array_equal(history.params.a, params.a)
    assert (history.outcome, history.final_step) == ("completed", 60)


@pytest.mark.parametrize(("steps", "every"), [(0, 1), (1, 1), (7, 3), (9, 3), (137, 10), (5, 50)])
def test_rows_are_at_the_stated_steps_and_the_end_is_always_there(problem, steps, every):
    net, params, x, y = problem
    history = fit(
        SquaredError(net),
        params,
        (x, y),
        optimizer=optax.sgd(0.1),
        steps=steps,
        record={"norm": lambda p: jnp.linalg.norm(p.W), "copy": lambda p: p.a},
        record_every=every,
    )
    expected = sorted({*range(0, steps, every), steps})
    assert history.steps.tolist() == expected
    every_step = fit(SquaredError(net), params, (x, y), optimizer=optax.sgd(0.1), steps=steps)
    np.testing.assert_allclose(history.loss, every_step.loss[expected], rtol=1e-5)
    assert history.records["norm"].shape == (len(expected),)
    assert history.records["copy"].shape == (len(expected), 64)
    assert history.records["norm"][-1] == pytest.approx(float(jnp.linalg.norm(history.params.W)))


def test_any_optimiser_equals_its_own_plain_loop(problem):
    net, params, x, y = problem
    optimizer = optax.adamw(1e-2, weight_decay=0.1)
    loss = SquaredError(net)
    with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic is not strict
        history = fit(loss, params, (x, y), optimizer=optimizer, steps=20)
        state = optimizer.init(params)
        plain: Any = params
        for _ in range(20):
            update, state = optimizer.update(jax.grad(loss)(plain, (x, y)), state, plain)
            plain = optax.apply_updates(plain, update)
    # Adam divides by small second moments, which magnifies rounding.
    np.testing.assert_allclose(history.params.W, plain.W, atol=1e-4)
    np.testing.assert_allclose(history.params.a, plain.a, atol=1e-4)


def test_an_epoch_of_mini_batches_sees_every_sample_once(getkey):
    # The gradient of loss = w . x is the batch's own sum, so w collects what was seen.
    rows = jnp.eye(12)
    history = fit(
        lambda w, batch: -jnp.sum(batch @ w),
        jnp.zeros(12),
        rows,
        optimizer=optax.sgd(1.0),
        steps=8,
        batch_size=3,
        record={"seen": lambda w: w},
        key=getkey(),
    )
    seen = history.records["seen"]
    assert np.all(seen[1] <= 1)
    assert seen[1].sum() == 3
    np.testing.assert_array_equal(seen[4], np.ones(12))
    np.testing.assert_array_equal(seen[8], 2 * np.ones(12))
    # The two epochs are in different orders: equal ones have probability 1e-5 at most.
    assert not np.array_equal(seen[5] - seen[4], seen[1])


@pytest.mark.slow
def test_same_key_same_run_other_key_other_run(problem):
    net, params, x, y = problem

    def run(key):
        return fit(
            SquaredError(net),
            params,
            (x, y),
            optimizer=optax.sgd(0.05),
            steps=30,
            batch_size=7,
            key=key,
        ).loss

    np.testing.assert_array_equal(run(jr.key(1)), run(jr.key(1)))
    assert not np.array_equal(run(jr.key(1)), run(jr.key(2)))


def test_a_stop_rule_ends_at_the_first_step_that_fulfils_it(problem):
    net, params, x, y = problem
    loss, optimizer = SquaredError(net), optax.sgd(0.2)
    whole = fit(loss, params, (x, y), optimizer=optimizer, steps=300)
    goal = 0.1 * whole.loss[0]
    first = int(np.argmax(whole.loss <= goal))
    assert 0 < first < 300
    for rule in (RelativeLossBelow(0.1), LossBelow(float(goal))):
        history = fit(loss, params, (x, y), optimizer=optimizer, steps=300, stop=rule)
        assert (history.outcome, history.final_step) == ("stopped", first)
        assert history.steps.tolist() == list(range(first + 1))
        np.testing.assert_allclose(history.loss, whole.loss[: first + 1], rtol=1e-5)
        final = float(loss(history.params, (x, y)))
        assert final == pytest.approx(float(history.loss[-1]), rel=1e-5)


def test_divergence_is_found_and_the_last_finite_parameters_come_back(problem):
    net, params, x, y = problem
    with pytest.warns(UnlazyWarning, match="no longer finite at step .* training diverged"):
        history = fit(SquaredError(net), params, (x, y), optimizer=optax.sgd(1e4), steps=400)
    assert history.outcome == "diverged"
    assert np.isfinite(history.loss[:-1]).all()
    assert not np.isfinite(history.loss[-1])
    assert history.steps[-1] < 400
    assert np.isfinite(history.params.W).all()
    assert history.final_step <= history.steps[-1]


def test_progress_ends_at_the_total_and_never_goes_back(problem):
    net, params, x, y = problem
    seen = []
    fit(
        SquaredError(net),
        params,
        (x, y),
        optimizer=optax.sgd(0.1),
        steps=103,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (103, 103)
    assert seen == sorted(seen)
    assert 10 <= len(seen) <= 60


def test_a_second_run_compiles_nothing(problem, compilations):
    net, params, x, y = problem
    optimizer = optax.sgd(0.1)

    def model(params, x):
        return net(params, x)

    fit(SquaredError(model), params, (x, y), optimizer=optimizer, steps=10)
    assert compilations
    compilations.clear()
    fit(SquaredError(model), params, (x, y), optimizer=optimizer, steps=10)
    assert compilations == []


def test_a_changed_closure_changes_loss_records_schedule_and_stop():
    scale, rate, weight, limit = 1.0, 0.1, 1.0, 0.0

    def loss(w):
        return scale * jnp.sum(w**2) / 2

    def run():
        return fit(loss, jnp.ones(2), None, optimizer=optimizer, steps=2, **measured)

    optimizer = optax.sgd(lambda step: rate * jnp.ones_like(step, float))
    measured = {"record": {"norm": lambda w: weight * jnp.sum(w)}, "stop": lambda a, _: a < limit}
    np.testing.assert_allclose(run().params, 0.9**2, rtol=1e-6)
    scale = 2.0
    np.testing.assert_allclose(run().params, 0.8**2, rtol=1e-6)
    rate = 0.2
    np.testing.assert_allclose(run().params, 0.6**2, rtol=1e-6)
    weight = 5.0
    np.testing.assert_allclose(run().records["norm"], 10 * 0.6 ** np.arange(3), rtol=1e-6)
    limit = 1.0
    np.testing.assert_allclose(run().loss, [2.0, 2.0 * 0.36], rtol=1e-6)


def test_a_taylor_model_in_training_sees_a_changed_closure():
    alpha = 1.0
    g = expand(lambda w, x: alpha * (x @ w), jnp.ones(1), 1)
    optimizer, x = optax.sgd(0.1), jnp.ones((1, 1))

    def loss(w, x):
        return jnp.sum(g(w, x))

    first = fit(loss, jnp.ones(1), x, optimizer=optimizer, steps=1).params
    alpha = 3.0
    second = fit(loss, jnp.ones(1), x, optimizer=optimizer, steps=1).params
    np.testing.assert_allclose([first[0], second[0]], [0.9, 0.7], rtol=1e-6)


def test_only_the_chosen_parameters_move(problem):
    net, params, x, y = problem
    loss = SquaredError(net)
    last = fit(loss, params, (x, y), optimizer=optax.sgd(0.1), steps=3, trained="last")
    np.testing.assert_array_equal(last.params.W, params.W)
    assert not np.array_equal(last.params.a, params.a)
    mask = jax.tree.map(lambda last: not last, params.is_last())
    own = fit(loss, params, (x, y), optimizer=optax.sgd(0.1), steps=3, trained=mask)
    np.testing.assert_array_equal(own.params.a, params.a)
    assert not np.array_equal(own.params.W, params.W)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 25, "key": jr.key(0)}, "`batch_size` must be at most .* 24, got"),
        ({"batch_size": 0, "key": jr.key(0)}, "`batch_size` must be an integer >= 1"),
        ({"batch_size": 4}, "`key` must be given when `batch_size` is"),
        ({"steps": -1}, "`steps` must be an integer >= 0"),
        ({"record_every": 0}, "`record_every` must be an integer >= 1"),
    ],
)
def test_bad_arguments_are_named(problem, arguments, message):
    net, params, x, y = problem
    arguments = {"optimizer": optax.sgd(0.1), "steps": 3} | arguments
    with pytest.raises(ValueError, match=message):
        fit(SquaredError(net), params, (x, y), **arguments)


def test_ragged_data_is_refused(problem):
    net, params, x, y = problem
    with pytest.raises(ValueError, match="same number of rows"):
        fit(SquaredError(net), params, (x, y[:-1]), optimizer=optax.sgd(0.1), steps=1)


@pytest.mark.parametrize("steps", [20, 50, 100, 400])
def test_after_divergence_the_loss_of_what_comes_back_is_finite_and_the_last_such(problem, steps):
    net, params, x, y = problem
    loss = SquaredError(net)
    with pytest.warns(UnlazyWarning, match="training diverged"):
        history = fit(loss, params, (x, y), optimizer=optax.sgd(1e6), steps=steps)
    assert history.final_step == history.steps[-1] - 1
    final = float(loss(history.params, (x, y)))
    assert final == pytest.approx(float(history.loss[-2]), rel=1e-3)


def test_labels_of_another_shape_are_refused_rather_than_broadcast(problem):
    net, params, x, y = problem
    with pytest.raises(
        ValueError, match=r"`y` must have the shape of the model's outputs, \(24,\)"
    ):
        fit(SquaredError(net), params, (x, y[:, None]), optimizer=optax.sgd(0.1), steps=1)


def test_bad_data_and_nothing_to_train_are_named(problem, no_shape_checker):
    net, params, x, y = problem
    loss = SquaredError(net)
    with pytest.raises(ValueError, match="`data` must be finite, got nan or inf in row 3"):
        fit(loss, params, (x.at[3, 0].set(jnp.nan), y), optimizer=optax.sgd(0.1), steps=1)
    with pytest.raises(ValueError, match="`trained` must choose at least one floating-point array"):
        fit(lambda p, d: jnp.sum(p * d), jnp.arange(24), y, optimizer=optax.sgd(0.1), steps=1)
    with pytest.raises(TypeError, match="`optimizer` must be an optax optimiser"):
        fit(loss, params, (x, y), optimizer=0.1, steps=1)  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(ValueError, match="The loss must be finite at the start"):
        fit(
            loss,
            jax.tree.map(lambda p: p * jnp.inf, params),
            (x, y),
            optimizer=optax.sgd(0.1),
            steps=1,
        )


def test_a_python_float_is_trained():
    history = fit(
        lambda w, d: jnp.sum((w - d) ** 2) / 2, 0.0, jnp.ones(1), optimizer=optax.sgd(0.5), steps=1
    )
    assert float(history.params) == 0.5


LBFGS = optax.lbfgs(memory_size=20)


def rosenbrock(w):
    return (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2


@pytest.mark.slow
def test_the_valley_is_followed_to_its_minimum(x64):
    start = jnp.array([-1.2, 1.0])
    history = fit(rosenbrock, start, None, optimizer=LBFGS, steps=100, stop=LossBelow(1e-20))
    assert history.outcome == "stopped"
    assert history.final_step < 60
    np.testing.assert_allclose(history.params, [1, 1], atol=1e-8)
    assert float(jnp.linalg.norm(jax.grad(rosenbrock)(history.params))) <= 1e-8
    assert np.all(np.diff(history.loss) <= 0)
    assert history.steps.tolist() == list(range(history.final_step + 1))
    # Where the gradient vanishes, be it a minimum or a saddle, it stays.
    again = fit(rosenbrock, jnp.ones(2), None, optimizer=LBFGS, steps=3)
    assert (again.params.tolist(), again.loss.tolist()) == ([1.0, 1.0], [0.0] * 4)


def test_a_convex_quadratic_ends_at_its_solution_for_any_scale(x64, getkey):
    A = jr.normal(getkey(), (30, 8))
    b = jr.normal(getkey(), (30,))
    exact = np.linalg.lstsq(np.asarray(A), np.asarray(b))[0]
    for scale in (1.0, 1e-3):

        def residuals(v, data, scale=scale):
            return jnp.sum((data[0] @ (scale * v) - data[1]) ** 2)

        history = fit(residuals, jnp.zeros(8), (A, b), optimizer=LBFGS, steps=60)
        np.testing.assert_allclose(scale * history.params, exact, rtol=1e-8)


@pytest.mark.slow
def test_it_fits_the_quadratic_model_to_a_certified_minimum(x64):
    """BL-31: V = m^(1/4) W, memory 20, from 0.3 m^(-1/4) N(0, I) / sqrt(d)."""
    d, m, n = 6, 32, 100
    rng = np.random.default_rng(1)
    x = rng.choice([-1.0, 1.0], (n, d))
    net = TwoLayer(d, m, "relu3", "symmetric", init_scale=d**-0.5)
    params = net.init(key=jr.key(0))
    risk = QuadraticRisk.of(net, params, x, x[:, 0] * x[:, 1], strength=1e-5)
    scale = m**-0.25
    start = 0.3 * jr.normal(jr.key(1), (m, d)) / d**0.5
    history = fit(lambda V: risk(scale * V), start, None, optimizer=LBFGS, steps=200)
    assert history.loss[-1] < 0.3
    found = certify(risk, scale * history.params, key=jr.key(2))
    assert found.verdict == "second-order stationary"
    # In V, so that the tolerance is on the scaled gradient m^(-1/4) dL/dW.
    assert found.gradient_norm * scale <= 1e-6 * (1 + 1e-9)


@pytest.mark.slow
def test_a_line_search_works_with_records_and_float32_and_frozen_parameters():
    net = TwoLayer(3, 8, "tanh")
    params = net.init(key=jr.key(0))
    history = fit(
        lambda p, data: jnp.sum((net(p, data) - 1.0) ** 2),
        params,
        jnp.eye(3),
        optimizer=LBFGS,
        steps=20,
        trained="hidden",
        record={"norm": lambda p: jnp.linalg.norm(p.W)},
    )
    assert history.params.W.dtype == jnp.float32
    np.testing.assert_array_equal(history.params.a, params.a)
    assert history.records["norm"][0] == pytest.approx(float(jnp.linalg.norm(params.W)), rel=1e-6)
    assert history.loss[-1] < 1e-3 * history.loss[0]


def test_a_history_prints_in_a_few_lines_however_large_the_model():
    params = [{"kernel": jnp.ones((4, 4)), "bias": jnp.zeros(4)} for _ in range(12)]
    record = {
        "norm": lambda params: jnp.sum(params[0]["kernel"] ** 2),
        "row": lambda p: p[1]["bias"],
    }

    def loss(params, x):
        return sum(jnp.sum(layer["kernel"] ** 2) for layer in params) * jnp.mean(x)

    history = fit(loss, params, jnp.ones(3), optimizer=optax.sgd(0.1), steps=4, record=record)
    assert str(history).splitlines() == [
        "History(completed at step 4, 240 parameters in 24 arrays",
        f"  loss 192 at step 0, {history.loss[-1]:.4g} at step 4; 5 rows",
        "  records['norm'] float32[5]",
        "  records['row'] float32[5, 4])",
    ]
    model = linearize(lambda params, x: x @ params[0]["kernel"], params)
    assert repr(model) == "TaylorModel(order 1 of <lambda>, 240 parameters in 24 arrays)"
    kicked = perturbed_gradient_descent(
        loss, params, jnp.ones(3), steps=2, learning_rate=0.1, key=jr.key(0)
    )
    assert repr(kicked).splitlines()[-1] == "  0 kicks)"
