# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.optimize import minimize

from unlazy import data
from unlazy.nets import TwoLayer
from unlazy.papers.bai_lee2020 import (
    QuadraticRisk,
    conditioned_second_moment_norm,
    noisy_two_xor,
    quadratic_sample_size,
    relu3_tangent,
    second_moment_norm,
    two_xor,
)


@pytest.mark.parametrize(("d", "c"), [(3, 1.0), (6, 0.5)])
def test_the_points_are_those_of_the_distribution_each_once(d, c):
    x, y = noisy_two_xor(data.corners(d, scale=c))
    assert len(np.unique(x, axis=0)) == 2**d
    pairs = {(*row[:2], label) for row, label in zip(x.tolist(), y.tolist(), strict=True)}
    assert pairs == {(c, 0, 1), (-c, 0, 1), (0, c, -1), (0, -c, -1)}
    np.testing.assert_array_equal(np.abs(x[:, 2:]), c)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), c * math.sqrt(d - 1), rtol=1e-14)
    np.testing.assert_array_equal(y, (x[:, 0] ** 2 - x[:, 1] ** 2) / c**2)
    np.testing.assert_array_equal(y, (x[:, 0] + x[:, 1]) * (x[:, 0] - x[:, 1]) / c**2)  # an XOR
    assert y.sum() == 0
    # No coordinate, and no product of two other ones, says anything about the label.
    moments = np.einsum("n,ni,nj->ij", y, x, x) / 2**d
    np.testing.assert_allclose(moments, np.diag([c**2 / 2, -(c**2) / 2, *[0] * (d - 2)]))
    np.testing.assert_array_equal(y @ x, 0)


def test_the_second_moment_has_condition_number_two():
    d = 7
    x, _ = noisy_two_xor(data.corners(d))
    np.testing.assert_allclose(x.T @ x / len(x), np.diag([0.5, 0.5, *[1.0] * (d - 2)]), atol=1e-14)
    moment = second_moment_norm(x)
    assert moment == pytest.approx(1 / math.sqrt(d - 1), rel=1e-12)
    assert moment <= conditioned_second_moment_norm(d, 2.0)
    # n_Q is of order d: B_x^4 B_w^4 M^2 = 32 pi (d - 1).
    size = quadratic_sample_size(
        norm=(32 * math.pi) ** 0.25, second_moment=moment, radius=math.sqrt(d - 1), epsilon=1.0
    )
    assert size == pytest.approx(32 * math.pi * (d - 1), rel=1e-12)


def test_samples_are_drawn_from_the_cube_in_its_dtype():
    x, y = noisy_two_xor(data.cube(4000, 5, scale=0.25, key=jr.key(0)))
    assert isinstance(x, jax.Array)
    assert x.dtype == y.dtype == jnp.float32
    # Within 5 standard errors, for four events: a false alarm has probability 3e-6.
    for event, chance in (
        (y > 0, 0.5),
        (x[:, 0] > 0, 0.25),
        (x[:, 1] > 0, 0.25),
        (x[:, 4] > 0, 0.5),
    ):
        assert abs(float(jnp.mean(event)) - chance) < 5 * math.sqrt(chance * (1 - chance) / 4000)


def test_the_movement_of_the_squares_represents_the_label():
    d, errors = 6, []
    x, y = noisy_two_xor(data.corners(d))
    for m in (256, 4096):
        net = TwoLayer(d, m, "relu3", "symmetric", init_scale=1 / math.sqrt(d - 1))
        found = [two_xor(net, net.init(key=jr.key(s)), x, form="squares") for s in range(4)]
        assert all(fit.norm_2_4**4 == pytest.approx(32 * math.pi, rel=1e-6) for fit in found)
        errors.append(np.sqrt(np.mean([fit.rms_error**2 for fit in found])))
    # Like the root of the width; a quarter of 4 seeds' spread is about .15.
    assert math.log(errors[0] / errors[1]) / math.log(16) == pytest.approx(0.5, abs=0.15)
    assert errors[1] < 0.15 * np.abs(y).max()


@pytest.mark.slow  # it trains networks
def test_the_quadratic_model_beats_the_ntk_once_there_are_samples_enough(x64):
    """d = 20, n = 500, three samples: measured errors .16 (NTK) and .04."""
    d, m, n = 20, 100, 500
    net = TwoLayer(d, m, "relu3", "symmetric", init_scale=1 / math.sqrt(d - 1))
    fitted = jax.jit(lambda risk, W: (risk(W), risk.gradient(W)))
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        (x, y), (x_test, y_test) = (
            noisy_two_xor(rng.choice([-1.0, 1.0], (k, d))) for k in (n, 2000)
        )
        K = np.asarray(relu3_tangent(x))
        dual = np.linalg.solve(K + 1e-3 * np.trace(K) / n * np.eye(n), y)
        ntk = np.asarray(relu3_tangent(x_test, x)) @ dual
        params = net.init(key=jr.key(seed))
        risk = QuadraticRisk.of(net, params, x, y, strength=1e-7)
        end = minimize(
            lambda w, risk=risk: [
                np.asarray(v).ravel() for v in fitted(risk, jnp.asarray(w.reshape(m, d)))
            ],
            0.3 * m**-0.25 * rng.standard_normal(m * d) / math.sqrt(d),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 300},
        )
        model = QuadraticRisk.of(net, params, x_test, y_test)
        quadratic = np.asarray(model.outputs(jnp.asarray(end.x.reshape(m, d))))
        errors.append([np.mean(f * y_test <= 0) for f in (ntk, quadratic)])
    best_of_ntk, worst_of_quadratic = np.min(errors, axis=0)[0], np.max(errors, axis=0)[1]
    assert worst_of_quadratic < 0.08 < 0.12 < best_of_ntk


def test_what_is_not_a_cube_is_refused(no_shape_checker):
    for wrong in (np.ones((3, 2)), np.array([[1.0, 2.0, 1.0]])):
        with pytest.raises(ValueError, match="`corners` must be corners of a cube of at least"):
            noisy_two_xor(wrong)
    net = TwoLayer(4, 4, "relu3", "symmetric")
    with pytest.raises(ValueError, match="`form` must be a known name"):
        two_xor(net, net.init(key=jr.key(0)), form="sum")  # pyright: ignore[reportArgumentType]  # on purpose
