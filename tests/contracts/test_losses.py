# SPDX-License-Identifier: Apache-2.0
"""Every loss of every room works with everything that trains or certifies."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy import activation, curvature, escape, nets, taylor, train
from unlazy.core.float64 import float64
from unlazy.core.loss_calls import call_loss, check_loss_call, loss_program
from unlazy.curvature.objective import float64_objective
from unlazy.papers import bai_lee2020, nichani2022
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import Movement, ThreeLayerObjective

KEY = jr.key(0)
RNG = np.random.default_rng(0)
NET = nets.TwoLayer(2, 4, activation("sigmoid", shift=1.5), init="sphere")
PARAMS = NET.init(key=KEY)
X = jnp.asarray(RNG.standard_normal((6, 2)), jnp.float32)
DATA = (X, jnp.asarray(np.sign(X[:, 0])))
W = jnp.asarray(RNG.standard_normal((4, 2)) / 9, jnp.float32)
RULE = optax.sgd(0.1)


class Module(eqx.Module):
    """A loss that holds its data, as users write them."""

    x: jax.Array
    target: np.ndarray
    name: str = "mine"

    def __call__(self, w):
        return jnp.mean((self.x @ w.T - jnp.asarray(self.target)) ** 2)


@dataclass(frozen=True)
class Unhashable:
    """A loss that is no pytree, and whose hash is that of an array: none."""

    x: Any

    def __call__(self, w):
        return jnp.mean((self.x @ w.T) ** 2)


def of_network(W, x):
    return NET(eqx.tree_at(lambda p: p.W, PARAMS, W), x)


def losses():
    """Name, loss, and the data that it takes or None."""
    directions = escape.directions(NET, PARAMS, X, rank=2)
    risk = nichani2022.RegularizedRisk.of(directions, DATA[1], strengths=(0, 0, 1, 0.1))
    penalty = escape.direction_penalty(of_network, 2 * W, X, rank=2)
    randomized = escape.RandomizedRisk(NET, PARAMS, "logistic")
    deep = nets.ThreeLayer(2, 3)
    start = deep.init(key=KEY)
    objective = ThreeLayerObjective(deep)
    draw = objective.draw(start, key=KEY)

    def three_layer(w, batch):
        return objective(start, Movement(w[:3], jnp.zeros((3, 3))), batch, draw)

    return [
        ("function", lambda w: jnp.sum(w**2), None),
        ("function of data", lambda w, batch: jnp.mean((batch[0] @ w.T) ** 2), DATA),
        ("partial", partial(lambda a, w: jnp.sum(a * w**2), np.float32(2)), None),
        ("jitted", jax.jit(lambda w: jnp.sum(w**2)), None),
        ("module", Module(X, np.ones((6, 4), np.float32)), None),
        ("no hash", Unhashable(X), None),
        ("SquaredError", train.SquaredError(of_network), DATA),
        ("MeanLoss", train.MeanLoss(of_network, "logistic"), DATA),
        ("MeanLoss of a Taylor model", train.MeanLoss(taylor.expand(of_network, W, 2)), DATA),
        ("Regularized", train.Regularized(train.MeanLoss(of_network), penalty, 0.1), DATA),
        ("Regularized alone", train.Regularized(risk, escape.regularizer, 0.1), None),
        ("DirectionPenalty", penalty, None),
        ("QuadraticRisk", bai_lee2020.QuadraticRisk.of(NET, PARAMS, *DATA, strength=0.1), None),
        (
            "quadratic_risk",
            bai_lee2020.quadratic_risk,
            bai_lee2020.QuadraticRisk.of(NET, PARAMS, *DATA),
        ),
        ("RegularizedRisk", risk, None),
        ("a method of it", risk.data_term, None),
        ("RandomizedRisk", randomized.exact, DATA),
        ("ThreeLayerObjective", three_layer, DATA),
    ]


ALL = losses()
ROWS = {name: (loss, data) for name, loss, data in ALL}


def gradient(loss, data):
    arguments = () if data is None else (data,)
    return jax.grad(lambda w: loss(w, *arguments))(W)


@pytest.mark.parametrize("name", ROWS)
def test_every_loss_is_a_program_that_compiles_with_its_arrays_as_arguments(name):
    loss, data = ROWS[name]
    check_loss_call(loss, data)
    program, arrays = loss_program(loss)

    @partial(jax.jit, static_argnums=0)
    def slope(program, arrays, w):
        return jax.grad(lambda w: program(arrays, w, data))(w)

    np.testing.assert_allclose(
        slope(program, arrays, W), gradient(loss, data), rtol=1e-4, atol=1e-6
    )
    again, _ = loss_program(loss)
    assert program == again
    assert hash(program) == hash(again)
    with float64(), jax.numpy_dtype_promotion("standard"):
        objective = float64_objective(loss, W, data, None)
        assert jax.eval_shape(objective, objective.trained).dtype == jnp.float64


TRAINERS = {
    "fit": partial(train.fit, optimizer=RULE, steps=1),
    "fit_grid": partial(train.fit_grid, learning_rates=[0.1], momentum=0, epochs=1),
    "noisy_sgd": partial(train.noisy_sgd, learning_rate=0.1, steps=1, key=KEY),
    "perturbed": partial(
        train.perturbed_gradient_descent,
        learning_rate=0.1,
        momentum=0,
        steps=1,
        perturbation=train.Perturbation(gradient_threshold=1e-9),  # small gradients are no saddles
        key=KEY,
    ),
}
FAST = ("module", "no hash")
CASES = [
    pytest.param(trainer, name, marks=() if name in FAST else pytest.mark.slow)
    for trainer in TRAINERS
    for name, (_, data) in ROWS.items()
    if trainer in ("noisy_sgd", "perturbed") or data is None or data is DATA  # these need rows
]


@pytest.mark.parametrize(("trainer", "name"), CASES)
def test_one_step_of_every_trainer_is_one_step_of_descent(trainer, name):
    loss, data = ROWS[name]
    result = TRAINERS[trainer](loss, W, data)
    params = result.best("train").params if trainer == "fit_grid" else result.params
    np.testing.assert_allclose(params, W - 0.1 * gradient(loss, data), atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "no hash" else pytest.mark.slow) for name in ROWS],
)
def test_quasi_newton_and_certificates_take_every_loss(name):
    loss, data = ROWS[name]
    history = train.fit(
        lambda w: call_loss(loss, w, data), W, None, optimizer=optax.lbfgs(), steps=2
    )
    assert history.loss[-1] < history.loss[0]
    found = curvature.certify(loss, W, data=data, key=KEY)
    norm = float(jnp.linalg.norm(gradient(loss, data)))
    assert found.gradient_norm == pytest.approx(norm, rel=1e-4)
    product = curvature.hvp(loss, W, jnp.ones_like(W), data=data)
    largest = curvature.extreme_eigenvalues(loss, W, data=data, key=KEY).largest
    assert float(jnp.sum(product)) / W.size <= largest * (1 + 1e-5)


def test_other_arrays_of_the_same_shapes_compile_nothing(compilations):
    class Counted(eqx.Module):
        x: jax.Array

        def __call__(self, w):
            return jnp.mean((self.x @ w.T) ** 2)

    def run(x):
        return train.noisy_sgd(Counted(x), W, None, learning_rate=0.1, steps=1, key=KEY).params

    first, doubled = run(X), 2 * X
    compilations.clear()
    second = run(doubled)
    assert compilations == []
    assert not np.allclose(first, second)  # and the new arrays are the ones in use


def test_a_stochastic_risk_trains_with_its_key_and_a_penalty():
    risk = train.Regularized(
        escape.RandomizedRisk(NET, PARAMS, "logistic"), escape.regularizer, 0.1
    )
    options: dict[str, Any] = {"stochastic": True, "learning_rate": 0.1, "steps": 1, "key": KEY}
    for trainer in (train.noisy_sgd, train.perturbed_gradient_descent):
        assert np.isfinite(trainer(risk, W, DATA, **options).loss).all()


def test_a_loss_of_other_arguments_is_refused_in_plain_words():
    risk, _ = ROWS["RegularizedRisk"]
    words = r"`loss` must be a function of \(params, data\) where `data` is given, got .*data=None"
    calls = {
        "fit": lambda: train.fit(risk, W, DATA, optimizer=RULE, steps=1),
        "fit_grid": lambda: train.fit_grid(risk, W, DATA, learning_rates=[0.1], epochs=1),
        "noisy_sgd": lambda: train.noisy_sgd(risk, W, DATA, learning_rate=1.0, steps=1, key=KEY),
        "perturbed": lambda: train.perturbed_gradient_descent(risk, W, DATA, steps=1, key=KEY),
        "certify": lambda: curvature.certify(risk, W, data=DATA, key=KEY),
        "extreme": lambda: curvature.extreme_eigenvalues(risk, W, data=DATA, key=KEY),
        "hvp": lambda: curvature.hvp(risk, W, W, data=DATA),
    }
    for call in calls.values():
        with pytest.raises(TypeError, match=words):
            call()


def test_a_loss_without_a_hash_that_is_changed_is_trained_as_it_is_now():
    class Scaled:
        __hash__ = None  # pyright: ignore[reportAssignmentType]  # as a class with __eq__ has none
        factor = 1.0

        def __call__(self, w):
            return self.factor * jnp.sum(w**2)

    loss, start = Scaled(), jnp.ones(2)
    for factor, expected in ((1.0, 0.8), (2.0, 0.6)):
        loss.factor = factor
        options: Any = {"learning_rate": 0.1, "steps": 1, "key": jax.random.key(0)}
        found = train.noisy_sgd(loss, start, None, **options)
        np.testing.assert_allclose(found.params, expected, rtol=1e-6)
