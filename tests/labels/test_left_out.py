# SPDX-License-Identifier: Apache-2.0
import math

import jax
import numpy as np
import pytest

from unlazy import data
from unlazy.core.errors import UnlazyWarning
from unlazy.kernels import relu_gram
from unlazy.labels import energy as label_energy
from unlazy.labels import leave_one_out


def sample(n=25, d=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True), rng.standard_normal(n)


def left_out(x, y, row):
    """Energy without the row, and what the others predict for it: the definition."""
    keep = np.arange(len(y)) != row
    H = np.asarray(relu_gram(x))
    inner = H[np.ix_(keep, keep)]
    return label_energy(inner, y[keep]), H[row, keep] @ np.linalg.pinv(inner, 1e-10) @ y[keep]


@pytest.mark.parametrize("scales", [1.0, np.geomspace(1e-4, 10.0, 25)[:, None]])
def test_costs_are_the_decrease_of_the_energy(scales):
    # AR-114, also for rows of very different norms.
    x, y = sample()
    x = x * scales
    y = y * np.linalg.norm(x, axis=1)
    result = leave_one_out(relu_gram(x), y)
    assert result.energy == pytest.approx(label_energy(relu_gram(x), y), rel=1e-9)
    for row in (0, 7, 24):
        energy, prediction = left_out(x, y, row)
        assert result.costs[row] == pytest.approx(result.energy - energy, rel=1e-6)
        if np.ndim(scales) == 0:
            assert result.surprises[row] == pytest.approx(y[row] - prediction, rel=1e-8)


def test_columns_add_up():
    x, y = sample()
    H, z = relu_gram(x), np.roll(y, 1)
    both = leave_one_out(H, np.stack([y, z], axis=1))
    one, other = leave_one_out(H, y), leave_one_out(H, z)
    np.testing.assert_allclose(both.costs, one.costs + other.costs, rtol=1e-10)
    np.testing.assert_allclose(both.surprises[:, 1], other.surprises, rtol=1e-10)


def test_rows_with_wrong_labels_cost_most():
    # 8 of 200 labels of a learnable rule flipped: at least 7 are among the 20 most expensive rows;
    # among 20 random ones they would be with probability 1e-7.
    x = np.asarray(data.sphere(200, 5, key=jax.random.key(0)), np.float64)
    y = np.sign(x[:, 0]) * (np.abs(x[:, 0]) > 0)
    rows = np.flatnonzero(np.abs(x[:, 0]) > 0.4)[::8][:8]
    y[rows] *= -1
    found = leave_one_out(relu_gram(x), y).most_expensive(20)
    assert len(set(rows.tolist()) & set(found.tolist())) >= 7
    costs = leave_one_out(relu_gram(x), y).costs
    assert np.all(np.diff(costs[found]) <= 0)


def test_duplicates_with_equal_labels_cost_nothing():
    x, y = sample()
    x2, y2 = np.concatenate([x, x[:2]]), np.concatenate([y, y[:2]])
    alone, with_copies = leave_one_out(relu_gram(x), y), leave_one_out(relu_gram(x2), y2)
    assert with_copies.energy == pytest.approx(alone.energy, rel=1e-8)
    np.testing.assert_array_equal(with_copies.costs[[0, 1, 25, 26]], 0)
    np.testing.assert_allclose(with_copies.costs[2:25], alone.costs[2:], rtol=1e-6)


def test_rows_in_conflict_are_infinite_and_the_others_valued_without_them():
    x, y = sample()
    x2, y2 = np.concatenate([x, x[:1]]), np.concatenate([y, y[:1] + 1])
    with pytest.warns(UnlazyWarning, match="rows 0 and 25 are duplicates"):
        result = leave_one_out(relu_gram(x2), y2)
    assert result.energy == math.inf
    assert np.flatnonzero(np.isinf(result.costs)).tolist() == [0, 25]
    assert set(result.most_expensive(2).tolist()) == {0, 25}
    rest = leave_one_out(relu_gram(x[1:]), y[1:])
    np.testing.assert_allclose(result.costs[1:25], rest.costs, rtol=1e-8)


def test_a_single_row_costs_all_of_the_energy():
    result = leave_one_out(np.array([[0.5]]), np.array([3.0]))
    assert result.costs[0] == pytest.approx(18)
    assert result.surprises[0] == pytest.approx(3)


def test_bad_arguments_are_named(no_shape_checker):
    with pytest.raises(ValueError, match="`H` must be a square Gram matrix"):
        leave_one_out(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ValueError, match=r"`y` must have shape \(2,\)"):
        leave_one_out(np.eye(2), np.ones(3))
    with pytest.raises(ValueError, match="`count` must be an integer >= 1"):
        leave_one_out(np.eye(2), np.ones(2)).most_expensive(0)


def test_it_prints_in_two_lines():
    found = leave_one_out(np.diag([4.0, 0.25]), np.array([1.0, -1.0]))
    assert str(found).splitlines() == [
        "LeaveOneOut(energy 4.25 of 2 rows",
        "  costs from 0.25 to 4; most expensive: 1, 0)",
    ]
