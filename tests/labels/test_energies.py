# SPDX-License-Identifier: Apache-2.0
import math

import jax
import numpy as np
import pytest

from unlazy import data
from unlazy.core.errors import UnlazyWarning
from unlazy.kernels import relu_gram
from unlazy.labels import complexity as label_complexity
from unlazy.labels import energy as label_energy


def sample(n=40, d=6, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True), rng.choice([-1.0, 1.0], n)


def test_energy_by_cholesky_equals_that_by_eigenvalues():
    # AR-52: relative difference below 1e-12.
    x, y = sample(300, 10)
    H = np.asarray(relu_gram(x))
    values, vectors = np.linalg.eigh(H)
    assert label_energy(H, y) == pytest.approx(np.sum((vectors.T @ y) ** 2 / values), rel=1e-12)


def test_energy_lies_between_its_bounds_and_scales_with_the_labels():
    x, y = sample()
    H = np.asarray(relu_gram(x))
    values = np.linalg.eigvalsh(H)
    energy = label_energy(H, y)
    assert y @ y / values[-1] <= energy <= y @ y / values[0]
    assert label_energy(H, 3 * y) == pytest.approx(9 * energy)
    assert label_complexity(H, 3 * y) == pytest.approx(3 * label_complexity(H, y))
    assert label_complexity(H, y) == pytest.approx(math.sqrt(2 * energy / 40))
    # The bound is attained by the eigenvector of the smallest eigenvalue (AR-71).
    worst = np.linalg.eigh(H)[1][:, 0]
    assert label_energy(H, worst) == pytest.approx(1 / values[0], rel=1e-9)


def test_columns_add_up():
    x, y = sample()
    H, z = relu_gram(x), np.roll(y, 1)
    both = label_energy(H, np.stack([y, z], axis=1))
    assert both == pytest.approx(label_energy(H, y) + label_energy(H, z))


def test_random_labels_cost_the_trace_of_the_inverse():
    # E M = tr(H^-1). Var M = 2 sum_{i != j} (H^-1)_ij^2, exactly, for random signs; 5 standard
    # errors of the mean of 400 draws: failure probability below 1e-6.
    x, _ = sample(40, 10)
    H = np.asarray(relu_gram(x))
    inverse = np.linalg.inv(H)
    spread = math.sqrt(2 * (np.sum(inverse**2) - np.sum(np.diagonal(inverse) ** 2)) / 400)
    y = np.random.default_rng(5).choice([-1.0, 1.0], (40, 400))
    assert label_energy(H, y) / 400 == pytest.approx(np.trace(inverse), abs=5 * spread)


def test_learnable_functions_stay_below_their_bounds():
    # AR-56: labels beta.x cost at most 4 whatever n, tight; (beta.x)^2 at most 2 pi.
    x, _ = sample(400, 3)
    H = relu_gram(x)
    assert 1.99**2 < label_energy(H, x[:, 0]) <= 4 * (1 + 1e-9)
    assert label_energy(H, x[:, 0] ** 2) <= 2 * math.pi


def test_duplicates_with_equal_labels_change_nothing():
    # AR-55
    x, y = sample()
    alone = label_energy(relu_gram(x), y)
    x2, y2 = np.concatenate([x, x[:3]]), np.concatenate([y, y[:3]])
    assert label_energy(relu_gram(x2), y2) == pytest.approx(alone, rel=1e-9)


def test_duplicates_with_conflicting_labels_are_infinite_and_named():
    # AR-33 and AR-55: a pseudo-inverse would give a meaningless finite value.
    x, y = sample()
    x2, y2 = np.concatenate([x, x[:3]]), np.concatenate([y, -y[:1], y[1:2], -y[2:3]])
    with pytest.warns(UnlazyWarning, match="rows 0 and 40, 2 and 42 are duplicates"):
        assert label_energy(relu_gram(x2), y2) == math.inf
    with pytest.warns(UnlazyWarning, match="infinite"):
        assert label_complexity(relu_gram(x2), y2) == math.inf


def test_conflicts_are_found_in_a_matrix_made_with_plain_arccos():
    # Its rounding at cosine 1 leaves an eigenvalue of 1e-9 where there should be zero.
    x, y = sample()
    x, y = np.concatenate([x, x[:1]]), np.concatenate([y, -y[:1]])
    c = np.clip(x @ x.T, -1, 1)
    H = c * (np.pi - np.arccos(c)) / (2 * np.pi)
    with pytest.warns(UnlazyWarning, match="rows 0 and 40 are duplicates"):
        assert label_energy(H, y) == math.inf


def test_parallel_rows_conflict_unless_labels_scale_with_the_norm():
    x, y = sample()
    x2 = np.concatenate([x, 2 * x[:1]])
    assert math.isfinite(label_energy(relu_gram(x2), np.append(y, 2 * y[0])))
    with pytest.warns(UnlazyWarning, match="rows 0 and 40"):
        assert label_energy(relu_gram(x2), np.append(y, y[0])) == math.inf


def test_more_than_d_antipodal_pairs_are_dependent():
    # AR-33, AR-55: the odd part of the kernel is only linear.
    x, _ = sample(6, 5, seed=3)
    y = np.random.default_rng(4).standard_normal(12)
    H = relu_gram(np.concatenate([x, -x]))
    with pytest.warns(UnlazyWarning, match="linearly dependent"):
        assert label_energy(H, y) == math.inf
    few = relu_gram(np.concatenate([x[:4], -x[:4]]))
    assert math.isfinite(label_energy(few, y[:8]))


@pytest.mark.parametrize("angle", [1e-3, 1e-5])
def test_near_duplicates_with_opposite_labels_cost_what_their_angle_says(angle):
    # Two unit rows at that angle, labels +-1: M = 2/(1/2 - H_12) with 1/2 - H_12 = angle/(2 pi).
    x = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    energy = label_energy(relu_gram(x), np.array([1.0, -1.0]))
    assert energy == pytest.approx(4 * math.pi / angle, rel=2 * angle)


def test_negative_eigenvalues_are_refused():
    with pytest.raises(ValueError, match="`H` must be positive semi-definite"):
        label_energy(np.diag([1.0, -1.0]), np.ones(2))


@pytest.mark.parametrize(
    ("H", "y", "message"),
    [
        (np.eye(2), np.array([1.0, np.nan]), "`y` must be finite, got nan or inf in row 1"),
        (np.eye(2), np.ones(3), r"`y` must have shape \(2,\)"),
        (np.zeros((0, 0)), np.zeros(0), "`H` must be a square Gram matrix"),
    ],
)
def test_bad_input_is_named(H, y, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        label_energy(H, y)


@pytest.mark.parametrize(
    ("name", "center", "n", "lam_max", "measure", "tolerance"),
    [
        ("mnist", False, 500, 72.1, 0.549, 0.01),
        ("mnist", False, 1000, 145.5, 0.489, 0.01),
        pytest.param("mnist", False, 2000, 291.6, 0.473, 0.01, marks=pytest.mark.slow),
        # This copy of CIFAR-10 is in another order, so its subsets are others: see AR-53.
        ("cifar10", False, 500, 169.4, 3.77, 0.08),
        ("cifar10", False, 1000, 338.3, 3.88, 0.08),
        pytest.param("cifar10", False, 2000, 679.4, 3.89, 0.08, marks=pytest.mark.slow),
        ("cifar10", True, 500, 32, 2.21, 0.08),
        ("cifar10", True, 1000, 66, 2.28, 0.08),
        pytest.param("cifar10", True, 2000, 133, 2.30, 0.08, marks=pytest.mark.slow),
    ],
)
def test_real_data_reproduces_the_table_of_conditioning(
    name, center, n, lam_max, measure, tolerance, real_data
):
    # AR-53; lambda_max, to two or three digits.
    key = jax.random.key(0)
    task = data.load(name, classes=(0, 1), n_train=n, n_test=1, center=center, key=key)
    H = np.asarray(relu_gram(task.x_train))
    assert np.linalg.eigvalsh(H)[-1] == pytest.approx(lam_max, rel=tolerance)
    assert label_complexity(H, task.y_train) == pytest.approx(measure, rel=tolerance)


def test_a_float32_matrix_gives_the_value_with_a_warning_and_never_a_false_infinity(real_data):
    task = data.load("mnist", classes=(0, 1), n_train=2000, n_test=1, key=jax.random.key(0))
    H = relu_gram(task.x_train, dtype="float32")
    with pytest.warns(UnlazyWarning, match="`H` is in float32"):
        assert label_complexity(H, task.y_train) == pytest.approx(0.473, rel=0.01)


def test_rows_of_very_different_norms_are_not_taken_for_dependent_ones():
    # Scaling row i by s_i and its label alike changes nothing: f is positively homogeneous.
    x, y = sample()
    s = np.geomspace(1e-6, 1, 40)
    energy = label_energy(relu_gram(x * s[:, None]), y * s)
    assert energy == pytest.approx(label_energy(relu_gram(x), y), rel=1e-9)


def test_lists_and_integers_are_accepted(no_shape_checker):
    assert label_energy([[2, 0], [0, 4]], [2, 2]) == pytest.approx(3.0)  # pyright: ignore[reportArgumentType]  # users pass lists
