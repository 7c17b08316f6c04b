# SPDX-License-Identifier: Apache-2.0
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.errors import StoreError, UnlazyWarning
from unlazy.core.float64 import float64
from unlazy.data import sphere
from unlazy.kernels import (
    KernelRegression,
    LargeKernelRegression,
    empirical_ntk_traced,
    ntk,
    operator,
)
from unlazy.kernels.landmarks import LandmarkPreconditioner
from unlazy.kernels.streaming import streamed
from unlazy.labels import energy_bounds
from unlazy.nets import TwoLayer

KERNEL = functools.partial(ntk, depth=2)
N = 400


@pytest.fixture(scope="module")
def task():
    x = np.asarray(sphere(N + 100, 6, key=jax.random.key(0)))
    y = np.column_stack([x[:, 0] * x[:, 1] > 0, x[:, 0] > 0.1]) * 2.0 - 1.0
    return (x[:N], y[:N]), (x[N:], y[N:])


@pytest.fixture(scope="module")
def setting():
    return LargeKernelRegression(KERNEL, ridge=1e-3, landmarks=60)


def test_a_fit_prints_in_a_line(task, setting):
    (x, y), _ = task
    with pytest.warns(UnlazyWarning):
        fitted = setting.fit(x, y, max_iterations=4, tolerance=1e-9)
    assert repr(fitted) == (
        "FittedLargeRegression(ntk of samples of shape (400, 6), labels of shape (400, 2), "
        f"not converged, {fitted.iterations} iterations, least residual "
        f"{fitted.residuals.min():.2g})"
    )


def test_it_agrees_with_the_exact_regression(task, setting):
    (x, y), (points, _) = task
    exact = KernelRegression(KERNEL, ridge=1e-3).fit(x, y)
    fitted = setting.fit(x, y, tolerance=1e-6)
    assert fitted.converged
    # The rounding of a float32 kernel, 1e-7 of its norm, over the ridge; measured 3e-5.
    np.testing.assert_allclose(fitted.predict(points), exact.predict(points), atol=5e-4)
    single = setting.fit(x, y[:, 0], tolerance=1e-6)
    assert single.coefficients.shape == (N,)
    np.testing.assert_allclose(single.predict(points), fitted.predict(points)[:, 0], atol=1e-4)


def test_the_preconditioner_is_the_inverse_of_the_landmarks_part_of_the_matrix(task):
    (x, _), _ = task
    gram = streamed(KERNEL, x, dtype="float64", rows=128)
    found = LandmarkPreconditioner.from_samples(gram, 60, ridge=0.1)
    points = x[found.chosen]
    C, G = (np.asarray(KERNEL(v, points)) for v in (x, points))
    softened = G + 0.1 * found.mu * 60 / N * np.eye(60)
    P = C @ np.linalg.solve(softened, C.T) + found.mu * np.eye(N)
    V = np.random.default_rng(1).normal(size=(N, 2))
    with float64():
        again = found(jnp.asarray(P @ V))
    np.testing.assert_allclose(again, V, atol=1e-7)
    left = np.asarray(KERNEL(x)) - C @ np.linalg.solve(G, C.T)
    assert found.mu == pytest.approx(0.1 + np.mean(np.diagonal(left)), rel=1e-4)


def test_validation_keeps_the_best_iterate_and_stops(task, setting):
    (x, y), other = task
    noisy = np.where(np.random.default_rng(2).random(y.shape) < 0.3, -y, y)
    setting = LargeKernelRegression(KERNEL, landmarks=60)
    fitted = setting.fit(x, noisy, validation=other, tolerance=1e-6, patience=3)
    assert not fitted.converged
    assert len(fitted.errors) == fitted.iterations + 3  # interpolating noise, it becomes worse
    found = np.mean((fitted.predict(other[0]) - other[1]) ** 2)
    assert found == pytest.approx(np.min(fitted.errors), rel=1e-5)
    classes = setting.fit(x, noisy, validation=other, metric="classes", patience=3)
    wrong = np.argmax(classes.predict(other[0]), axis=1) != np.argmax(other[1], axis=1)
    assert np.min(classes.errors) == pytest.approx(np.mean(wrong), abs=0.011)


def linear(x1, x2=None):
    return x1 @ (x1 if x2 is None else x2).T


@pytest.mark.parametrize(("kernel", "ridge"), [(KERNEL, 0.0), (linear, 1.0)])
def test_it_converges_where_the_landmarks_explain_all_of_the_matrix(task, kernel, ridge):
    # All samples are landmarks; or six of them span the features. Rounding is all that is left.
    (x, y), (points, _) = task
    x, y = x[:100], y[:100]
    fitted = LargeKernelRegression(kernel, ridge=ridge).fit(x, y, tolerance=1e-4)
    assert len(fitted.residuals) <= 10
    exact = KernelRegression(kernel, ridge=ridge).fit(x, y).predict(points)
    np.testing.assert_allclose(fitted.predict(points), exact, atol=1e-3 * np.max(np.abs(exact)))


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def smooth():
    x = unit(np.random.default_rng(0).normal(size=(600, 6)))
    return functools.partial(ntk, depth=2, activation="erf"), x, np.sign(x[:, 0] * x[:, 1]), 1e-3


def opposed():
    x = unit(np.random.default_rng(1).normal(size=(300, 6)))
    return KERNEL, np.vstack([x, x]), np.repeat([1.0, -1.0], 300), 0.1


def near():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 6))
    x = unit(np.vstack([x, x + 1e-5 * draw.normal(size=x.shape)]))
    return KERNEL, x, np.sign(x[:, 0] * x[:, 1]), 1e-2


@pytest.mark.parametrize("problem", [smooth, opposed, near])
def test_it_converges_where_rounding_is_above_what_the_matrix_leaves(problem):
    # Eigenvalues that fall below rounding; equal rows, and nearly equal ones, whose kernel is off
    # by 1e-3 in float32. Measured: 14, 1 and 8 iterations.
    kernel, x, y, ridge = problem()
    fitted = LargeKernelRegression(kernel, ridge=ridge).fit(x, y, max_iterations=30)
    assert fitted.converged
    true = np.asarray(kernel(x)) @ fitted.coefficients + ridge * fitted.coefficients - y
    assert np.linalg.norm(true) < 0.05 * np.linalg.norm(y)


def gaussian_float32(x1, x2=None):
    a, b = (v.astype(jnp.float32) for v in (x1, x1 if x2 is None else x2))
    squares = jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1)[None, :] - 2 * a @ b.T
    return jnp.exp(-jnp.maximum(squares, 0) / 200)  # nearly singular


def network():
    net = TwoLayer(inputs=6, width=64)
    return functools.partial(empirical_ntk_traced, net, net.init(key=jax.random.key(0)))


@pytest.mark.parametrize(
    "kernel", [gaussian_float32, network(), functools.partial(smooth()[0], dtype="float32")]
)
def test_a_kernel_that_computes_in_float32_is_taken(task, kernel):
    (x, y), _ = task
    fitted = LargeKernelRegression(kernel, ridge=0.1).fit(x, y, max_iterations=30)
    assert fitted.converged
    a = fitted.coefficients
    true = np.asarray(kernel(x), np.float64) @ a + 0.1 * a - y
    assert np.linalg.norm(true) < 5e-3 * np.linalg.norm(y)


def test_a_kernel_that_is_not_positive_semi_definite_is_refused(task):
    (x, y), _ = task

    def indefinite(x1, x2=None):
        return linear(x1, x2) - 0.1

    def indefinite_float32(x1, x2=None):
        return indefinite(x1, x2).astype(jnp.float32)

    for kernel in (indefinite, indefinite_float32):
        with pytest.raises(ValueError, match="`kernel` must be positive semi-definite"):
            LargeKernelRegression(kernel, ridge=0.1).fit(x, y)


def test_coefficients_are_never_worse_than_zero():
    kernel, x, y, ridge = smooth()
    with pytest.warns(UnlazyWarning, match="has not converged"):
        fitted = LargeKernelRegression(kernel, ridge=ridge).fit(x, y, max_iterations=1)
    assert fitted.residuals[0] > 1  # the norm may rise while the error falls
    assert fitted.iterations == 0
    assert not np.any(fitted.coefficients)


def test_a_fit_that_has_not_converged_warns_and_keeps_the_best_iterate(task, setting):
    (x, y), _ = task
    with pytest.warns(UnlazyWarning, match="has not converged: its relative residual is"):
        fitted = setting.fit(x, y, tolerance=1e-6, max_iterations=2)
    assert not fitted.converged
    assert fitted.iterations == np.argmin(fitted.residuals) + 1


def test_a_stopped_fit_goes_on_from_its_checkpoint(task, setting, tmp_path):
    (x, y), _ = task
    straight = setting.fit(x, y, tolerance=1e-6)
    with pytest.warns(UnlazyWarning, match="has not converged"):
        setting.fit(x, y, tolerance=1e-6, max_iterations=4, checkpoint=tmp_path)
    resumed = setting.fit(x, y, tolerance=1e-6, checkpoint=tmp_path)
    np.testing.assert_allclose(resumed.coefficients, straight.coefficients, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(resumed.residuals, straight.residuals, rtol=1e-6)
    with pytest.raises(StoreError, match="that of another problem"):
        setting.fit(x, -y, checkpoint=tmp_path)
    (tmp_path / "state.npz").write_bytes(b"PK nothing")
    with pytest.raises(StoreError, match="is damaged"):
        setting.fit(x, y, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"metric": "squared"}),
        ({"metric": "squared"}, {"metric": "classes"}),
        ({"metric": "squared", "other": True}, {"metric": "squared"}),
        ({"metric": "squared"}, {}),
    ],
)
def test_a_resumed_fit_does_not_mix_what_was_seen_in_other_ways(task, tmp_path, before, after):
    (x, y), (points, outputs) = task
    noisy = np.where(np.random.default_rng(2).random(y.shape) < 0.3, -y, y)

    def fit(metric=None, other=False, **arguments):
        pair = (x[:50], noisy[:50]) if other else (points, outputs)
        watched = {} if metric is None else {"metric": metric, "validation": pair}
        setting = LargeKernelRegression(KERNEL, landmarks=60)
        return setting.fit(x, noisy, tolerance=1e-6, checkpoint=tmp_path, **watched, **arguments)

    with pytest.warns(UnlazyWarning, match="has not converged"):
        fit(max_iterations=6, **before)
    if not after:
        with pytest.warns(UnlazyWarning, match="has not converged"):
            resumed = fit(max_iterations=8)
        assert np.all(np.isnan(resumed.errors))
        assert resumed.iterations == 6 + np.argmin(resumed.residuals)
        return
    resumed = fit(patience=3, **after)
    assert resumed.iterations == 6 + np.argmin(resumed.errors)
    found, best = resumed.predict(points), np.min(resumed.errors)
    if after["metric"] == "classes":
        wrong = np.argmax(found, axis=1) != np.argmax(outputs, axis=1)
        assert best == pytest.approx(np.mean(wrong), abs=0.011)
    else:
        assert best == pytest.approx(np.mean((found - outputs) ** 2), rel=1e-5)


def test_a_finished_fit_that_is_called_again_stays_as_it_is(task, setting, tmp_path):
    (x, y), other = task
    for name, arguments in (("plain", {}), ("watched", {"validation": other, "patience": 1})):
        calls = []
        first = setting.fit(x, y, tolerance=1e-4, checkpoint=tmp_path / name, **arguments)
        again = setting.fit(
            x,
            y,
            tolerance=1e-4,
            checkpoint=tmp_path / name,
            progress=lambda *told, calls=calls: calls.append(told),
            **arguments,
        )
        assert calls == []
        np.testing.assert_array_equal(again.coefficients, first.coefficients)
        np.testing.assert_array_equal(again.residuals, first.residuals)
        assert (again.converged, again.iterations) == (first.converged, first.iterations)


def test_an_interrupt_keeps_what_was_done(task, setting, tmp_path):
    (x, y), _ = task
    calls = []

    def interrupt(done, expected):
        calls.append((done, expected))
        if len(calls) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        setting.fit(x, y, tolerance=1e-6, checkpoint=tmp_path, progress=interrupt)
    assert all(done <= expected for done, expected in calls)
    resumed = setting.fit(x, y, tolerance=1e-6, checkpoint=tmp_path)
    straight = setting.fit(x, y, tolerance=1e-6)
    np.testing.assert_allclose(resumed.residuals, straight.residuals, rtol=1e-6)


def in_numpy(x1, x2=None):
    a, b = (np.asarray(v) for v in (x1, x1 if x2 is None else x2))
    return np.exp(-np.sum((a[:, None] - b[None]) ** 2, axis=-1))


def test_a_kernel_that_jax_cannot_trace_is_named(task):
    (x, y), _ = task
    wanted = "`kernel` must be a function that jax.jit takes, got in_numpy"
    with pytest.raises(TypeError, match=wanted):
        LargeKernelRegression(in_numpy, ridge=0.1).fit(x, y)
    with pytest.raises(TypeError, match=wanted):
        operator(in_numpy, x[:20], mesh=jax.make_mesh((1,), ("tiles",))).matvec(np.ones(20))


@pytest.mark.parametrize("scale", [1e-22, 1e-19, 1e20])
def test_samples_whose_kernel_float32_cannot_hold_are_refused(task, setting, scale):
    (x, y), _ = task
    with pytest.raises(ValueError, match="`x` must be of a size that float32 holds under `kernel`"):
        setting.fit(x * scale, y)


@pytest.mark.parametrize("scale", [1e-14, 1e14])
def test_small_and_large_samples_give_what_others_do(task, scale):
    (x, y), (points, _) = task
    ordinary = LargeKernelRegression(KERNEL, ridge=0.1, landmarks=60)
    scaled = LargeKernelRegression(KERNEL, ridge=0.1 * scale**2, landmarks=60)
    found = scaled.fit(x * scale, y).predict(points * scale)
    np.testing.assert_allclose(found, ordinary.fit(x, y).predict(points), atol=1e-3)


def test_one_column_of_classes_must_have_both_signs(task, setting):
    (x, y), (points, outputs) = task
    with pytest.raises(ValueError, match=r"`y` must have both signs .* metric='classes'"):
        setting.fit(
            x, 1.0 * (y[:, 0] > 0), validation=(points, 1.0 * (outputs[:, 0] > 0)), metric="classes"
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "accuracy"}, "`metric` must be"),
        ({"validation": (np.ones((3, 5)), np.ones((3, 2)))}, r"`validation\[0\]` must have rows"),
        ({"validation": (np.ones((3, 6)), np.ones(3))}, r"`validation\[1\]` must have rows"),
        ({"tolerance": 0.0}, "`tolerance` must be"),
        ({"patience": 0}, "`patience` must be"),
    ],
)
def test_wrong_arguments_are_named(task, setting, arguments, message):
    (x, y), _ = task
    with pytest.raises(ValueError, match=message):
        setting.fit(x, y, **arguments)


def test_a_state_of_energy_bounds_is_refused_by_a_fit_and_the_other_way_round(task, tmp_path):
    (x, y), _ = task
    setting = LargeKernelRegression(KERNEL, landmarks=60)
    bound = functools.partial(energy_bounds, KERNEL, smallest_eigenvalue=1e-3, landmarks=60)
    bound(x, y, tolerance=0.5, checkpoint=tmp_path / "bounds")
    with pytest.raises(StoreError, match="purpose differ"):
        setting.fit(x, y, checkpoint=tmp_path / "bounds")
    setting.fit(x, y, tolerance=0.5, checkpoint=tmp_path / "fit")
    with pytest.raises(StoreError, match="purpose differ"):
        bound(x, y, checkpoint=tmp_path / "fit")


def test_a_state_of_other_samples_is_refused(tmp_path):
    setting = LargeKernelRegression(linear, ridge=1.0, landmarks=6)
    x = np.random.default_rng(4).normal(size=(2100, 6))
    y, other = np.sign(x[:, 0]), x.copy()
    other[5::2] = np.random.default_rng(5).normal(size=other[5::2].shape)
    setting.fit(x, y, tolerance=0.9, checkpoint=tmp_path)
    with pytest.raises(StoreError, match="that of another problem"):
        setting.fit(other, y, checkpoint=tmp_path)
