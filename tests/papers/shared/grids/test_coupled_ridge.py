# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from unlazy.papers.allenzhu_li2019.figures import samples
from unlazy.papers.allenzhu_li2019.figures.linear_models import tangent_model
from unlazy.papers.allenzhu_li2019.figures.samples import Task
from unlazy.papers.shared.grids.coupled import coupled_ridge_path
from unlazy.papers.shared.grids.ridge import ridge_path

SCALES = np.array([1e-3, 1e-2, 0.3, 5.0, 1e3])
SMALL = Task(14, 8, n_validation=5, n_test=9)


def problem(layers, task, width, seed=3):
    net, split = samples.network(layers, task, width), samples.draw(task, seed=seed)
    return net, samples.start(net, seed), split


def jacobian(net, params, x):
    """All outputs at all samples by all parameters, in float64, and the outputs."""
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), params)
        flat, unravel = ravel_pytree(wide)

        def f(theta):
            return net(unravel(theta), jnp.asarray(x))

        J, value = jax.jit(lambda theta: (jax.jacrev(f)(theta), f(theta)))(flat)
        return np.asarray(J), np.asarray(value)


@pytest.mark.parametrize(
    "layers", ["3resnet", *(pytest.param(x, marks=pytest.mark.slow) for x in ("2layer", "3layer"))]
)
def test_the_path_is_least_squares_on_the_whole_jacobian(layers):
    # In the parameters, by NumPy: neither a kernel nor a conjugate gradient.
    net, params, split = problem(layers, SMALL, 6)
    path = coupled_ridge_path(net, params, split, SCALES)
    x, y = (np.concatenate([np.asarray(p[k], np.float64) for p in split]) for k in (0, 1))
    J, f = jacobian(net, params, x)
    flat, resid = J[:14].reshape(14 * 4, -1), (y - f)[:14].ravel()
    mean = np.trace(flat @ flat.T) / len(flat)
    np.testing.assert_allclose(path.weight_decay, 2 * SCALES * mean / 14, rtol=1e-10)
    for i, omega in enumerate(path.weight_decay):
        # Least squares with the decay as further rows: sum |.|^2 / N + omega/2 |theta|^2.
        rows = np.concatenate([flat, np.sqrt(14 * omega / 2) * np.eye(flat.shape[1])])
        goal = np.concatenate([resid, np.zeros(flat.shape[1])])
        theta = np.linalg.lstsq(rows, goal, rcond=None)[0]
        missed = np.sum((f + J @ theta - y) ** 2, axis=1)
        expected = [np.mean(part) for part in np.split(missed, [14, 19])]
        found = [errors[i] for errors in path.errors]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-8)
    assert np.all(path.residuals < 1e-5)


def test_coupled_and_averaged_kernels_are_two_models():
    # On record at d = 16, N = 200, 2layer of m = 50: 7.00 coupled and 4.05 averaged, on another
    # sample. The least errors of a path.
    task = Task(200, 16, n_validation=10, n_test=1000)
    net, params, split = problem("2layer", task, 50, seed=0)
    coupled = coupled_ridge_path(net, params, split, 10 ** np.linspace(-2, 0, 9)).errors[2].min()
    model = tangent_model(net, params, tuple(part.x for part in split), coupled=False)
    labels = tuple(np.asarray(part.y) for part in split)
    averaged = ridge_path(model, labels, 10 ** np.linspace(-4, 0, 17))[1][2].min()
    assert coupled == pytest.approx(7.00, rel=0.1)
    assert averaged == pytest.approx(4.05, rel=0.1)


def test_a_path_that_was_not_solved_has_no_errors():
    net, params, split = problem("3resnet", SMALL, 6)
    path = coupled_ridge_path(net, params, split, SCALES, most=4)
    assert path.iterations == 4
    assert np.isnan(path.errors[2][0])
    assert path.residuals[0] > 1e-5
    assert np.isfinite(path.errors[2][-1])  # a ridge of a thousand is solved at once
