# SPDX-License-Identifier: Apache-2.0
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.core.checks import is_known
from unlazy.core.errors import UnlazyWarning
from unlazy.dynamics import KernelDynamics
from unlazy.kernels import KernelRegression, empirical_ntk_traced, operator, relu_gram
from unlazy.labels import energy as label_energy

EPS = float(np.finfo(np.float32).eps)


def mlp(params, x):
    """A user's network: two hidden layers in plain JAX, two outputs."""
    W, V, A = params
    return jax.nn.relu(jax.nn.relu(x @ W) @ V) @ A


def mlp_params(getkey, inputs=6, width=40):
    shapes = [(inputs, width), (width, width), (width, 2)]
    return [jr.normal(getkey(), shape) / shape[0] ** 0.5 for shape in shapes]


def cnn(getkey):
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 4, 3, key=getkey()),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(4 * 9, 2, key=getkey()),
        ]
    )


class Recurrent(eqx.Module):
    """Makes its first state itself: with x64 on, that state would be float64."""

    cell: eqx.nn.GRUCell

    def __call__(self, x):
        first = jnp.zeros(self.cell.hidden_size)
        return jax.lax.scan(lambda h, z: (self.cell(z[None], h), None), first, x)[0]


def apply(model, x):
    return jax.vmap(model)(x)


def problem(name, getkey, n=30):
    """A network in float32, its samples, and the kernel of the same parameters in float64."""
    f, params, shape = {
        "mlp": lambda: (mlp, mlp_params(getkey), (6,)),
        "equinox cnn": lambda: (apply, cnn(getkey), (1, 5, 5)),
        "recurrent": lambda: (apply, Recurrent(eqx.nn.GRUCell(1, 8, key=getkey())), (4,)),
    }[name]()
    x = np.random.default_rng(0).standard_normal((n + 10, *shape)).astype(np.float32)
    y = np.random.default_rng(1).standard_normal((n, 2))
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf, params
        )
    reference = functools.partial(empirical_ntk_traced, f, wide)  # not for the recurrent one
    return functools.partial(empirical_ntk_traced, f, params), reference, x[:n], y, x[n:]


@pytest.mark.parametrize("name", ["mlp", pytest.param("equinox cnn", marks=pytest.mark.slow)])
def test_regression_with_float32_parameters_is_that_of_float64_ones_to_its_rounding(name, getkey):
    kernel, reference, x, y, points = problem(name, getkey)
    fitted = KernelRegression(kernel).fit(x, y)
    K, cross = (np.asarray(reference(*of), np.float64) for of in [(x,), (points, x)])
    alpha = np.linalg.solve(K, y)
    assert fitted.solution.converged
    found, expected = fitted.predict(points), cross @ alpha
    assert found.dtype == np.float64
    # The estimate is an upper one by a factor of 1.5 to 8; errors are relative in the norm of K.
    moved = fitted.solution.value - alpha
    error = np.sqrt(np.sum(moved * (K @ moved), axis=0) / np.sum(y * alpha, axis=0))
    assert np.all(error <= fitted.solution.rounding)
    assert np.max(error) >= fitted.solution.rounding / 100
    assert fitted.solution.rounding < 1e-3
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.max(np.abs(expected)))


def test_an_operator_of_float32_parameters_has_the_entries_of_the_kernel(getkey):
    kernel, _, x, y, _ = problem("mlp", getkey)
    H, K = operator(kernel, x, memory=9_000), np.asarray(kernel(x), np.float64)
    assert kernel(x).dtype == jnp.float32
    np.testing.assert_allclose(H.matmat(y), K @ y, atol=30 * EPS * np.max(K))
    np.testing.assert_allclose(H.block([3, 5], slice(7)), K[[3, 5], :7], rtol=1e-5, atol=1e-5)
    assert H.block([3], [4]).dtype == jnp.float64
    solution = H.solve(y, ridge=0.1)
    expected = np.linalg.solve(K + 0.1 * np.eye(30), y)
    assert solution.converged
    np.testing.assert_allclose(solution.value, expected, atol=1e-3 * np.max(np.abs(expected)))
    assert 0 < solution.rounding < 1e-3


@pytest.mark.slow
def test_a_network_that_makes_its_own_arrays_is_called_as_by_hand(getkey):
    kernel, _, x, y, points = problem("recurrent", getkey, n=8)
    fitted = KernelRegression(kernel, ridge=0.1).fit(x, y)
    K, cross = (np.asarray(kernel(*of), np.float64) for of in [(x,), (points, x)])
    expected = cross @ np.linalg.solve(K + 0.1 * np.eye(8), y)
    np.testing.assert_allclose(fitted.predict(points), expected, rtol=1e-3, atol=1e-4)


def test_float64_kernels_are_used_as_they_are():
    x = np.random.default_rng(0).standard_normal((10, 3))
    H = operator(relu_gram, x)
    assert H.tiles.kernel is relu_gram
    assert H.solve(np.ones(10)).rounding == 0


def features(x1, x2=None):
    """A kernel of rank 6 in float32: beyond 6 samples all that is left is rounding."""
    a, b = (jnp.asarray(x, jnp.float32) for x in (x1, x1 if x2 is None else x2))
    K = jnp.matmul(a / 3, b.T / 3, precision="highest")
    return (K + K.T) / 2 if x2 is None else K


@pytest.mark.parametrize("memory", [1, 3_000, None])
def test_a_kernel_singular_in_float32_is_reported_with_a_ridge_that_helps(memory):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30, 6)), rng.standard_normal(30)
    H = operator(features, x, memory=memory)
    with pytest.warns(UnlazyWarning, match=r"float32.*Give a ridge of about 0\.0\d+, or float64"):
        solution = H.solve(y)
    assert solution.rounding > 0.01
    ridge = 100 * H.tiles.noise * float(np.mean(H.diagonal()))
    solution = H.solve(y, ridge=ridge)
    assert solution.rounding < 0.01
    exact = np.linalg.solve(x @ x.T / 9 + ridge * np.eye(30), y)
    np.testing.assert_allclose(solution.value, exact, atol=0.01 * np.max(np.abs(exact)))


def test_spectra_of_a_float32_kernel_take_its_rounding_for_zero(getkey):
    x = np.random.default_rng(0).standard_normal((30, 6))
    H, exact = operator(features, x), np.linalg.eigvalsh(x @ x.T / 9)[-6:]
    # 6 standard errors of 16 probes: failure probability about 1e-4, with a fixed key.
    root = H.trace(np.sqrt, key=getkey())
    assert abs(root.value - np.sum(np.sqrt(exact))) < 6 * root.standard_error
    assert H.trace(np.reciprocal, key=getkey()).value == np.inf
    assert H.logdet(key=getkey()).value == -np.inf
    flow = KernelDynamics.from_operator(H, x[:, 0])
    np.testing.assert_allclose(flow.eigenvalues[:6], exact[::-1], rtol=1e-5)
    assert np.all(flow.eigenvalues[6:] == 0)


def test_the_label_energy_of_a_float32_operator_is_that_on_its_range():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 6))
    y = x @ rng.standard_normal(6)  # within the range
    exact = float(y @ np.linalg.pinv(x @ x.T / 9, rcond=1e-8) @ y)
    assert label_energy(operator(features, x), y) == pytest.approx(exact, rel=1e-4)
    with pytest.warns(UnlazyWarning, match="No function interpolates"):
        assert label_energy(operator(features, x), rng.standard_normal(30)) == np.inf


def test_a_kernel_that_can_be_traced_is_not_evaluated_to_learn_its_dtype():
    seen = []

    def kernel(x1, x2=None):
        seen.append(is_known(x1))
        return x1 @ (x1 if x2 is None else x2).T

    operator(kernel, np.eye(3))
    assert seen == [False, False]
