# SPDX-License-Identifier: Apache-2.0
import json
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.data import sphere
from unlazy.kernels import empirical_ntk_traced
from unlazy.laziness import OutputScaleSweep, output_scale_sweep
from unlazy.laziness.output_scale.measures import accuracy
from unlazy.laziness.output_scale.training import natural_rates
from unlazy.nets import TwoLayer
from unlazy.taylor import displacement, terms

X = sphere(40, 4, key=jr.key(0))
Y = jnp.sign(X[:, 0])
DATA, TEST = (X[:24], Y[:24]), (X[24:], Y[24:])
NET = TwoLayer(inputs=4, width=32, activation="tanh")
START = NET.init(key=jr.key(1))
GAMMAS = np.geomspace(1e-2, 1e2, 5)


@pytest.fixture(scope="module")
def sweep():
    return output_scale_sweep(NET, START, DATA, test=TEST, gammas=GAMMAS, epochs=200)


def test_the_linearisation_error_falls_with_the_output_scale(sweep):
    errors = sweep.linearisation_error
    assert np.all(np.diff(errors) > 0)
    assert errors[0] < 0.01
    assert errors[-1] > 0.4
    assert np.all(np.diff(sweep.movement) > 0)
    assert np.all(np.diff(sweep.kernel_distance) > 0)


def test_lazy_training_has_an_error_and_a_movement_like_the_scale(sweep):
    # To first order the weights move like gamma, and the second Taylor term is like gamma times
    # the first; the kernels' distance is like its square.
    assert sweep.movement[1] / sweep.movement[0] == pytest.approx(10, rel=0.05)
    assert sweep.linearisation_error[1] / sweep.linearisation_error[0] == pytest.approx(10, rel=0.3)
    assert sweep.kernel_distance[1] / sweep.kernel_distance[0] == pytest.approx(100, rel=0.3)
    assert sweep.learning_rate[1] / sweep.learning_rate[0] == pytest.approx(100, rel=1e-4)


def test_numbers_are_those_of_a_loop_by_hand():
    gamma, rate = 0.5, 0.7
    sweep = output_scale_sweep(
        NET, START, DATA, test=TEST, gammas=[gamma], learning_rates=[rate], epochs=20
    )

    def loss(params, data):
        centred = NET(params, data[0]) - NET(START, data[0])
        return jnp.mean((centred / gamma - data[1]) ** 2) / 2

    end = START
    for _ in range(20):
        gradient = jax.grad(loss)(end, DATA)
        end = jax.tree.map(lambda p, g: p - rate * gamma**2 * g, end, gradient)
    assert sweep.learning_rate[0] == pytest.approx(rate * gamma**2, rel=1e-6)
    assert sweep.train_loss[0] == pytest.approx(float(loss(end, DATA)), rel=1e-4)
    assert sweep.test_loss[0] == pytest.approx(float(loss(end, TEST)), rel=1e-4)
    delta = displacement(START, end)
    f0, linear = terms(NET, START, delta, TEST[0], 1)
    change = NET(end, TEST[0]) - f0
    error = float(jnp.linalg.norm(change - linear) / jnp.linalg.norm(change))
    assert sweep.linearisation_error[0] == pytest.approx(error, rel=1e-2)
    K0, K = (np.asarray(empirical_ntk_traced(NET, p, DATA[0]), float) for p in (START, end))
    H = np.eye(24) - 1 / 24
    for found, A, B in (
        (sweep.kernel_distance, K0, K),
        (sweep.centred_kernel_distance, H @ K0 @ H, H @ K @ H),
    ):
        cosine = np.sum(A * B) / np.linalg.norm(A) / np.linalg.norm(B)
        assert found[0] == pytest.approx(1 - cosine, rel=1e-2)
    hits = jnp.mean(jnp.sign(NET(end, TEST[0]) - NET(START, TEST[0])) == TEST[1])
    assert sweep.test_accuracy[0] == pytest.approx(float(hits))


def test_the_grid_is_one_of_all_scales_and_rates(sweep):
    assert sweep.grid.loss.shape == (3, 1, 5, 200)
    alone = output_scale_sweep(NET, START, DATA, gammas=[1.0], epochs=200)
    assert alone.train_loss[0] == pytest.approx(sweep.train_loss[2], rel=1e-4)
    assert np.isnan(alone.test_loss[0])


def test_the_verdict_says_where_it_is_lazy_and_where_best(sweep):
    assert sweep.lazy_below == GAMMAS[sweep.linearisation_error < 0.1][-1]
    assert sweep.best_gamma == GAMMAS[np.argmin(sweep.test_loss)]
    assert sweep.verdict.startswith(f"Verdict: Lazy up to gamma = {sweep.lazy_below:.3g}, not at ")
    assert f"Best at gamma = {sweep.best_gamma:.3g}, with a test loss of" in sweep.verdict


def test_natural_rates_are_those_of_the_two_regimes():
    np.testing.assert_allclose(natural_rates(np.array([0.1, 1.0, 8.0]), 3), [0.01, 1.0, 4.0])


def test_diverged_scales_are_left_out_with_a_note():
    net = TwoLayer(inputs=4, width=32, activation="relu")
    start = net.init(key=jr.key(1))
    options = {"learning_rates": [1e12], "epochs": 30, "gammas": [0.1, 1.0]}
    sweep = output_scale_sweep(net, start, DATA, **options)
    assert np.isnan(sweep.linearisation_error).all()
    assert "every learning rate diverged at gamma = 0.1, 1." in sweep.notes
    assert math.isnan(sweep.best_gamma)
    assert "Lazy at no scale tried" in sweep.verdict


def test_only_what_is_trained_moves():
    sweep = output_scale_sweep(NET, START, DATA, gammas=[10.0], trained="last", epochs=50)
    # The network is linear in its last layer.
    assert sweep.linearisation_error[0] < 1e-4
    assert abs(sweep.kernel_distance[0]) < 1e-6
    assert sweep.verdict.startswith("Verdict: Lazy at every scale tried.")


def test_accuracy_is_for_classes_alone():
    y = np.eye(3)
    assert accuracy(np.array([[2.0, 1, 0], [2, 1, 0], [0, 1, 2]]), y) == pytest.approx(2 / 3)
    assert math.isnan(accuracy(np.ones((2, 2)), np.array([[0.1, 0.2], [0.5, 0.3]])))


def test_the_result_prints_plots_and_turns_to_json(sweep):
    assert isinstance(sweep, OutputScaleSweep)
    assert str(sweep).splitlines()[1].split()[:2] == ["gamma", "rate"]
    assert json.loads(json.dumps(sweep.to_dict()))["movement"] == sweep.movement.tolist()
    left, right = sweep.plot().axes
    assert len(left.get_lines()) == 5
    assert len(right.get_lines()) == 2


def test_progress_runs_to_its_end():
    calls = []
    options = {"gammas": [0.1, 1.0], "epochs": 20, "progress": lambda *c: calls.append(c)}
    output_scale_sweep(NET, START, DATA, batch_size=8, key=jr.key(0), **options)
    assert calls[-1] == (2 * 3 * 20 + 2,) * 2
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


@pytest.mark.usefixtures("no_shape_checker")
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gammas": [0.0, 1.0]}, "`gammas` must be finite and positive"),
        ({"gammas": []}, "`gammas` must have at least one value"),
        ({"learning_rates": [1.0, 1.0]}, "`learning_rates` must be distinct"),
        ({"data": X}, "`data` must be a pair of inputs and labels"),
        ({"data": (X, Y[:3])}, "`data` must have as many labels as inputs"),
        ({"data": (X, Y[:, None])}, "`data` must hold labels of the shape of the network's"),
        ({"test": (X, Y[:, None])}, "`test` must hold labels of the shape of the network's"),
        ({"data": (X, Y * jnp.nan)}, "`data` must be finite"),
        ({"rows": 0}, "`rows` must be an integer >= 1"),
        ({"epochs": 0}, "`epochs` must be an integer >= 1"),
        ({"batch_size": 8}, "`key` must be given when `batch_size` is"),
        ({"loss": 3}, "`loss` must be the name of a loss"),
        ({"f": 3}, "`f` must"),
    ],
)
def test_a_wrong_argument_is_named(changed, words):
    right = {"f": NET, "params": START, "data": DATA, "gammas": [0.1], "epochs": 2}
    with pytest.raises((ValueError, TypeError), match=words):
        output_scale_sweep(**{**right, **changed})
