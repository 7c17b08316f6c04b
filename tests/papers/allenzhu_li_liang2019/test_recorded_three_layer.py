# SPDX-License-Identifier: Apache-2.0
"""The table of LG-45: three-layer weights for a product, at four sizes, factor by factor."""

import math

import jax
import numpy as np
import pytest

from unlazy.papers.allenzhu_li_liang2019 import (
    ThreeLayerConcept,
    ThreeLayerStart,
    indicator_function,
    three_layer_weights,
)

D = 4
# (m1, m2), our starts, and rms errors on record: of the slope, of the first bracket, which is
# phi_1(x) = x_1, of the second, sin(x_2), and of their product; then its correlation with the
# target, whose rms is .212.
RECORDED = {
    (250, 10_000): (8, (0.43, 0.82, 0.13, 0.34), 0.53),
    (500, 40_000): (6, (0.23, 0.30, 0.13, 0.15), 0.80),
    (1000, 160_000): (4, (0.27, 0.30, 0.04, 0.11), 0.89),
    (3000, 80_000): (1, (0.13, 0.10, 0.05, 0.039), 0.985),
}


def product():
    one, e = np.ones((1, 1)), np.eye(D)
    return ThreeLayerConcept(
        np.ones(1), ["identity"], one, one, ["identity"], ["sin"], e[:1], e[1:2]
    )


def points(n=24):
    x = np.random.default_rng(7).standard_normal((n, D - 1))
    x = math.sqrt(0.75) * x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.concatenate([x, np.full((n, 1), 0.5)], axis=1)


def start(m1, m2, seed):
    """V row by row, drawn when asked for: at the largest size it would take a gigabyte."""
    rng = np.random.default_rng([seed, 0])

    def V(first, last):
        rows = np.random.default_rng([seed, 1, first])
        drawn = rows.standard_normal((last - first, m1), dtype=np.float32)
        return drawn / np.float32(math.sqrt(m2))

    return ThreeLayerStart(
        W=rng.standard_normal((m1, D)) / math.sqrt(m1),
        b1=rng.standard_normal(m1) / math.sqrt(m1),
        V=V,
        b2=rng.standard_normal(m2) / math.sqrt(m2),
        a=rng.standard_normal(m2),
    )


def measured(m1, m2, seed, x):
    """Squared errors of slope, both brackets and network, the correlation, and the scale C'."""
    begin = start(m1, m2, seed)
    options = {"limit": 2.0, "variance": "paper"}
    found = three_layer_weights(begin, product(), x, key=jax.random.key(seed), **options)
    information, kappa = found.information, found.balance
    z = information.z[:, 0]
    slope = math.sqrt(m2) * information.hidden @ z / (z @ z) * information.scale
    W, b1, b2, a = (np.asarray(part) for part in (begin.W, begin.b1, begin.b2, begin.a))
    first = kappa * (information.hidden + b2 >= 0) @ (a * found.left[0])
    moved = (x @ W.T + b1 >= 0) * (x @ np.asarray(found.dW).T)
    second = moved @ found.right[0] / kappa
    np.testing.assert_allclose(first * second, found.outputs, rtol=1e-9, atol=1e-12)
    pairs = ((slope, x[:, 0]), (first, x[:, 0]), (second, np.sin(x[:, 1])))
    errors = [np.mean((value - target) ** 2) for value, target in pairs]
    return [*errors, found.rms_error**2, found.correlation, information.scale]


@pytest.mark.slow
@pytest.mark.parametrize("size", RECORDED)
def test_both_brackets_err_as_recorded(size):
    # The error of a bracket is mostly an offset that all points of a start share, a Gaussian number
    # of the standard deviation in `expected`: over new seeds, one start falls below a third of it
    # with probability 1/4, eight with 1e-3. On record, .30 of the first bracket at (500, 4e4) is
    # below all of our six starts (.34 to .90), .30 at (1000, 1.6e5) above our first three (.07 to
    # .12), and the last row is one good start (see the tests of the construction). Each is within a
    # factor of 3.5 of ours.
    (m1, m2), (starts, recorded, correlation) = size, RECORDED[size]
    x = points()
    rows = np.mean([measured(m1, m2, seed, x) for seed in range(starts)], axis=0)
    found, scale = np.sqrt(rows[:4]), rows[5]
    np.testing.assert_array_less(found, 3.5 * np.array(recorded))
    np.testing.assert_array_less(np.array(recorded), 3.5 * found)
    # Half of the neurons are active, and E a^4 = 3.
    linear, sine = (indicator_function(name).energy for name in ("identity", "sin"))
    expected = [scale * math.sqrt(1.5 * linear / m2), math.sqrt(0.5 * sine / m1)]
    for value, known, size in zip(found[1:3], recorded[1:3], expected, strict=True):
        assert size / 3 < value < 3 * size
        assert size / 3 < known < 3 * size
    assert rows[4] == pytest.approx(correlation, abs=0.35)
    assert np.sqrt(np.mean(product()(x) ** 2)) == pytest.approx(0.212, abs=0.03)
