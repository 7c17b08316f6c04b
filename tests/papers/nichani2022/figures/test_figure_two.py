# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.core.drawing import style
from unlazy.data import sphere
from unlazy.experiments import CellResult
from unlazy.kernels import empirical_ntk_traced
from unlazy.nets import BiasedTwoLayer
from unlazy.papers.nichani2022.figures import figure2
from unlazy.papers.nichani2022.figures.figure2.claims import price, samples_to
from unlazy.papers.nichani2022.figures.figure2.config import Config, Sweep
from unlazy.papers.nichani2022.figures.figure2.run import draw, kernel_errors, network
from unlazy.papers.nichani2022.figures.standard_network import (
    dense_target,
    standard_init,
    standard_kernel,
)

TINY = Sweep(3, 2, (1.0, 2.0), (1.0,), width=6, learning_rate=0.02, steps=5, n_test=10)
CONFIG = Config(tuple(Sweep(d, 2) for d in (5, 8, 10, 16)))


def quiet(done, total):
    del done, total


@pytest.mark.slow
def test_the_kernel_is_that_of_a_wide_network(x64):
    # Each entry is a mean over 40000 neurons times its scale: errors of about half a percent.
    net = BiasedTwoLayer(4, 40_000)
    params = standard_init(net, key=jr.key(0))
    x = sphere(6, 4, radius=2.0, key=jr.key(1))
    found = empirical_ntk_traced(net, params, x)
    expected = standard_kernel(x, width=net.width)
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.03 * float(expected[0, 0]))
    # The readout drowns the other two parts at this width: the first layer by itself.
    hidden = empirical_ntk_traced(net, params, x, trained="hidden")
    theirs = expected - standard_kernel(x, width=0)
    np.testing.assert_allclose(hidden, expected - theirs, rtol=0, atol=0.05 * float(hidden[0, 0]))


def test_the_kernel_matrix_is_the_cross_kernel_with_itself():
    x = sphere(5, 3, radius=math.sqrt(3), key=jr.key(2))
    K, cross = (np.asarray(standard_kernel(x, other, width=7)) for other in (None, x))
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, cross, atol=1e-6)


@pytest.mark.slow
def test_lanes_train_on_their_own_number_of_samples():
    result = figure2.run(TINY, seed=0, progress=quiet).table
    one, net = draw(TINY, 1), network(TINY)

    def loss(params, n):
        return jnp.mean((net(params, one.x[:n]) - one.y[:n]) ** 2)

    for n in TINY.sizes:
        params = one.params
        for _ in range(TINY.steps):
            slope = jax.grad(loss)(params, n)
            params = jax.tree.map(lambda p, g: p - TINY.learning_rate * g, params, slope)
        row = (result["method"] == "network") & (result["seed"] == 1) & (result["n"] == n)
        assert row.sum() == 1
        test = jnp.mean((net(params, one.x_test) - one.y_test) ** 2)
        np.testing.assert_allclose(result["train"][row], loss(params, n), rtol=1e-4)
        np.testing.assert_allclose(result["test"][row], test, rtol=1e-4)


@pytest.mark.slow
def test_kernel_errors_are_those_of_a_dense_solve():
    one = draw(TINY, 0)
    K = np.asarray(standard_kernel(one.x, width=TINY.width))
    K_test = np.asarray(standard_kernel(one.x_test, one.x, width=TINY.width))
    for n, error in kernel_errors(TINY, one):
        least = math.inf
        for ridge in (1e-6, 3e-2):
            A = K[:n, :n] + ridge * np.trace(K[:n, :n]) / n * np.eye(n)
            f = K_test[:, :n] @ np.linalg.solve(A, np.asarray(one.y[:n], np.float64))
            least = min(least, np.mean((f - np.asarray(one.y_test)) ** 2))
        assert error == pytest.approx(least, rel=1e-6)


def test_the_target_has_mean_square_one():
    # Sixth powers have heavy tails: 40000 values know their mean square to about 2%.
    f = dense_target(8, key=jr.key(3))
    y = np.asarray(f(sphere(40_000, 8, radius=math.sqrt(8), key=jr.key(4))), np.float64)
    assert np.mean(y**2) == pytest.approx(1, abs=0.1)


def test_samples_to_a_level_follow_a_power_law_between_sizes():
    ns = np.array([10.0, 20.0, 40.0])
    assert samples_to(0.1, ns, 4 / ns) == pytest.approx(40)
    assert samples_to(0.1, ns, 3 / ns) == pytest.approx(30)
    assert math.isnan(samples_to(0.1, ns, 8 / ns))
    assert math.isnan(samples_to(0.1, ns, 0.1 / ns))
    assert math.isnan(samples_to(0.1, ns, np.array([0.2, 0.05, math.nan])))


def made_up(config, *, power=2.0, kernel_power=3.0, factor=2.5, kernel=2.6):
    """Losses that fall through 0.1 at a power of the dimension."""
    results = {}
    for cell in figure2.cells(config):
        one, rows = cell.config, []
        needed = {
            "network": factor * 8**2 * (one.inputs / 8) ** power,
            "kernel": kernel * 8**3 * (one.inputs / 8) ** kernel_power,
        }
        for method, sizes in (("network", one.sizes), ("kernel", one.kernel_sizes)):
            for seed in range(one.seeds):
                rows += [(method, seed, n, 0.0, 0.1 * needed[method] / n) for n in sizes]
        names, columns = ("method", "seed", "n", "train", "test"), zip(*rows, strict=True)
        pairs = zip(names, columns, strict=True)
        results[cell] = CellResult({name: np.array(column) for name, column in pairs})
    return results


def unexpected(**changes):
    listed = figure2.claims(CONFIG, made_up(CONFIG, **changes))
    return {claim.id.split("/")[1] for claim in listed if not claim.as_expected}


def test_made_up_losses_in_which_all_is_well_refute_nothing_and_others_do():
    assert unexpected() == set()
    assert "exponent" in unexpected(power=2.6)
    assert "kernel-exponent" in unexpected(kernel_power=2.2)
    assert "recorded" in unexpected(factor=3.7)
    assert {"advantage", "ratio"} <= unexpected(kernel=0.25, kernel_power=2.0)
    assert "reached" in unexpected(factor=5.0)


def test_the_price_has_the_exponent_that_went_in_where_it_is_reached():
    results = made_up(CONFIG)
    assert price(CONFIG, results, "network").exponent.value == pytest.approx(2.0, abs=1e-6)
    kernel = price(CONFIG, results, "kernel")
    assert kernel.dimensions.tolist() == [5, 8, 10]  # at d = 16 it would need more than is given
    assert kernel.exponent.value == pytest.approx(3.0, abs=1e-6)
    with style():
        fig = figure2.plot(CONFIG, results)
    assert [ax.get_title() for ax in fig.axes] == ["test loss", "smallest n"]
