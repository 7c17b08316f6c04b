# SPDX-License-Identifier: Apache-2.0
import functools

import jax
import numpy as np
import pytest

from unlazy.core.errors import UnlazyWarning
from unlazy.data import sphere
from unlazy.kernels import ntk
from unlazy.labels import complexity, energy, energy_bounds

KERNEL = functools.partial(ntk, depth=2)


@pytest.fixture(scope="module")
def task():
    x = np.asarray(sphere(500, 7, key=jax.random.key(0)), np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, np.column_stack([np.sign(x[:, 0]), np.random.default_rng(0).normal(size=500)])


@pytest.mark.parametrize("tolerance", [0.1, 1e-3])
def test_the_energy_lies_between_the_bounds(task, tolerance):
    x, y = task
    exact = energy(KERNEL(x), y)
    found = energy_bounds(KERNEL, x, y, tolerance=tolerance, landmarks=50)
    # Entries in float32 move the energy by 1e-6 of itself here.
    assert found.lower <= exact * (1 + 1e-5)
    assert exact <= found.upper * (1 + 1e-5)
    assert found.upper <= found.lower * (1 + tolerance)
    low, high = found.complexity
    assert low <= complexity(KERNEL(x), y) * (1 + 1e-5)
    assert high == pytest.approx(np.sqrt(2 * found.upper / 500))


def test_bounds_are_closer_with_a_better_smallest_eigenvalue(task):
    x, y = task
    smallest = float(np.linalg.eigvalsh(np.asarray(KERNEL(x)))[0])
    known = energy_bounds(KERNEL, x, y, smallest_eigenvalue=smallest, landmarks=50)
    found = energy_bounds(KERNEL, x, y, landmarks=50)
    assert known.iterations < found.iterations
    assert known.lower <= energy(KERNEL(x), y) <= known.upper


def test_a_checkpoint_is_taken_up_again(task, tmp_path):
    x, y = task
    with pytest.warns(UnlazyWarning, match="apart by"):
        energy_bounds(KERNEL, x, y, max_iterations=3, landmarks=50, checkpoint=tmp_path)
    resumed = energy_bounds(KERNEL, x, y, landmarks=50, checkpoint=tmp_path)
    straight = energy_bounds(KERNEL, x, y, landmarks=50)
    assert resumed.iterations == straight.iterations
    assert resumed.lower == pytest.approx(straight.lower, rel=1e-9)


def test_duplicates_with_other_labels_have_no_upper_bound(task):
    x, y = task
    with pytest.warns(UnlazyWarning, match="no bound above 0"):
        found = energy_bounds(KERNEL, np.vstack([x[:50], x[:1]]), np.append(y[:50, 0], -y[0, 0]))
    assert found.upper == np.inf
