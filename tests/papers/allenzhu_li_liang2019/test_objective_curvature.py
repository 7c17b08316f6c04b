# SPDX-License-Identifier: Apache-2.0
"""Section 6.4: the curvature of the smoothed objective, with its kinks."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import ThreeLayer, ThreeLayerParams
from unlazy.papers.allenzhu_li_liang2019 import ThreeLayerObjective, objective_certificate
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import Movement

OPTIONS: dict[str, Any] = {"sigma_w": 0.5, "sigma_v": 0.4, "lam_w": 0.3, "lam_v": 0.2}


@pytest.mark.slow
def test_gradient_and_hessian_are_those_of_a_two_dimensional_quadrature():
    # One neuron per layer and one input: two weights, and the mean over their noise by the
    # trapezoidal rule. The Hessian is E L(rho) (u u^T - 1) / (s s^T) with u = rho / s, by Stein's
    # identity for values, in which nothing is differentiated.
    net, lam = ThreeLayer(1, (1, 1)), 0.7
    objective = ThreeLayerObjective(net, 1, **OPTIONS)
    start = {"W": [[0.6]], "b1": [0.1], "V": [[0.9]], "b2": [-0.2], "a": [1.5]}
    params = ThreeLayerParams(**{name: jnp.asarray(part) for name, part in start.items()})
    delta, x, y = Movement(jnp.full((1, 1), 0.4), jnp.full((1, 1), -0.3)), [1.0, -0.5], [1.2, 0.3]
    data = (np.array(x)[:, None], np.array(y))
    found = objective_certificate(
        objective, params, delta, data, lam=lam, draws=8192, key=jr.key(0)
    )
    u = np.linspace(-7, 7, 1401)
    weight = np.exp(-(u**2) / 2) * (u[1] - u[0]) / np.sqrt(2 * np.pi)
    W, V = (1.0 + 0.5 * u)[:, None], (0.6 + 0.4 * u)[None, :]
    loss = 0.0
    for xi, yi in zip(x, y, strict=True):
        f = 1.5 * np.maximum(V * np.maximum(W * xi + 0.1, 0) - 0.2, 0)
        loss = loss + (np.sqrt(1 + (lam * f - yi) ** 2) - 1) / 2
    loss = loss * weight[:, None] * weight[None, :]
    R = lam * 0.2 * 0.3**2 + lam**2 * 0.3 * 0.4**4
    assert found.loss == pytest.approx(loss.sum() + R, rel=0.03)
    first = np.array([np.sum(loss * u[:, None]) / 0.5, np.sum(loss * u) / 0.4])
    first += [4 * lam**2 * 0.3 * 0.4**3, -2 * lam * 0.2 * 0.3]
    assert found.gradient_norm == pytest.approx(np.linalg.norm(first), abs=found.gradient_error)
    H = np.array(
        [
            [np.sum(loss * (u[:, None] ** 2 - 1)) / 0.25, np.sum(loss * np.outer(u, u)) / 0.2],
            [0.0, np.sum(loss * (u**2 - 1)) / 0.16],
        ]
    )
    H[1, 0] = H[0, 1]
    H += np.diag([12 * lam**2 * 0.3 * 0.4**2, 2 * lam * 0.2])
    low, high = np.linalg.eigvalsh(H)
    ends = found.curvature
    assert ends.smallest == pytest.approx(low, abs=ends.smallest_error)
    assert ends.largest == pytest.approx(high, abs=ends.largest_error)
    assert max(ends.smallest_error, ends.largest_error) < 0.15
    assert found.gradient_error < 0.1


def test_with_signs_no_movement_is_a_saddle_where_much_is_left_to_learn():
    # Lemmas 6.7 and 6.8: what is linear in the movement cancels over the signs, so that the
    # gradient vanishes; a label far away leaves negative curvature. All neurons are on.
    net = ThreeLayer(2, (4, 3))
    parts = [jnp.full(net.shapes[name], 0.5) for name in ("W", "b1", "V", "b2")]
    params = ThreeLayerParams(*parts, a=jnp.ones(3))
    still = Movement(jnp.zeros((4, 2)), jnp.zeros((3, 4)))
    data = (np.array([[0.8, 0.6]]), np.array([30.0]))
    options = {"sigma_w": 0.1, "sigma_v": 0.1, "lam_w": 0.3, "lam_v": 0.2}
    objective = ThreeLayerObjective(net, 2, loss="half-squared", **options)
    found = objective_certificate(objective, params, still, data, draws=512, key=jr.key(2))
    assert found.gradient_norm < 1e-12
    assert found.curvature.smallest < -10
    assert found.verdict == "saddle"


def test_objectives_without_noise_or_with_another_norm_are_refused(no_shape_checker):
    net = ThreeLayer(2, (4, 3))
    params, data = net.init(key=jr.key(1)), (np.eye(2), np.ones(2))
    still = Movement(jnp.zeros((4, 2)), jnp.zeros((3, 4)))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"alpha": 1.0}, "`objective` must have alpha=2, got alpha=1.0"),
        ({"sigma_w": 0}, "`sigma_w` must be a positive number, got sigma_w=0.0"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            objective_certificate(
                ThreeLayerObjective(net, **options), params, still, data, key=jr.key(0)
            )
