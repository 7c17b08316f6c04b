# SPDX-License-Identifier: Apache-2.0
import functools

import jax
import jax.numpy as jnp
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
    # Entries in float32 would move the energy by 1e-6 of itself here.
    assert found.lower <= exact * (1 + 1e-10)
    assert exact <= found.upper * (1 + 1e-10)
    assert found.upper <= found.lower * (1 + tolerance)
    low, high = found.complexity
    assert low <= complexity(KERNEL(x), y) * (1 + 1e-10)
    assert high == pytest.approx(np.sqrt(2 * found.upper / 500))


def close_rows(angle, seed, n=200):
    """Five rows with a neighbour at this angle, whose label is the opposite one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    aside = rng.normal(size=(5, 8))
    aside -= np.sum(aside * x[:5], axis=1, keepdims=True) * x[:5]
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    x[100:105] = np.cos(angle) * x[:5] + np.sin(angle) * aside
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.sign(rng.normal(size=n))
    y[100:105] = -y[:5]
    return x, y


@pytest.mark.parametrize(
    ("angle", "dtype"), [(7e-3, "float64"), (7e-3, "float32"), (1e-3, "float64"), (1e-5, "float64")]
)
def test_close_rows_do_not_move_the_bounds_off_the_energy(angle, dtype):
    x, y = close_rows(angle, seed=0)
    H = np.asarray(KERNEL(x))
    exact = energy(H, y)
    smallest = 0.9 * float(np.linalg.eigvalsh(H)[0])
    kernel = functools.partial(KERNEL, dtype=dtype)  # what the tiles are in anyway
    found = energy_bounds(kernel, x, y, smallest_eigenvalue=smallest, max_iterations=60)
    # The condition number, up to 1e8 here, times the rounding of float64, in `exact` too.
    assert found.lower <= exact * (1 + 1e-7)
    assert exact <= found.upper * (1 + 1e-7)
    assert found.upper <= found.lower * 1.01


def test_a_solve_that_went_on_in_float64_is_taken_up_again(tmp_path):
    x, y = close_rows(1e-4, seed=1)
    given = {"smallest_eigenvalue": 2e-5, "landmarks": 150}
    straight = energy_bounds(KERNEL, x, y, **given)
    assert straight.iterations > 22
    given["checkpoint"] = tmp_path
    with pytest.warns(UnlazyWarning, match="apart by"):
        energy_bounds(KERNEL, x, y, max_iterations=straight.iterations - 2, **given)
    resumed = energy_bounds(KERNEL, x, y, **given)
    assert resumed.iterations == straight.iterations
    assert resumed.upper <= resumed.lower * 1.01
    assert resumed.lower <= energy(KERNEL(x), y) * (1 + 1e-9) <= resumed.upper * (1 + 2e-9)


def test_values_in_float32_are_named():
    def kernel(x1, x2=None):
        two = x1 if x2 is None else x2
        cosines = x1.astype("float32") @ two.astype("float32").T
        return jnp.where(cosines > 0.9, 2 * cosines, cosines)

    with pytest.warns(UnlazyWarning, match="`kernel` gives float32 values"):
        found = energy_bounds(kernel, np.eye(4), np.ones(4), smallest_eigenvalue=1.9)
    assert found.lower == pytest.approx(2.0)


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


def test_a_lower_bound_is_left_where_no_solve_comes_near():
    x, y = close_rows(0.1, seed=0, n=110)
    smooth = functools.partial(ntk, depth=2, activation="erf")
    with pytest.warns(UnlazyWarning, match="no bound above 0"):
        found = energy_bounds(smooth, x, y)
    assert 0 < found.lower <= energy(smooth(x), y) * (1 + 1e-6)


def test_duplicates_with_other_labels_have_no_upper_bound(task):
    x, y = task
    with pytest.warns(UnlazyWarning, match="no bound above 0"):
        found = energy_bounds(KERNEL, np.vstack([x[:50], x[:1]]), np.append(y[:50, 0], -y[0, 0]))
    assert found.upper == np.inf
