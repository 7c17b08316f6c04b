# SPDX-License-Identifier: Apache-2.0
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.float64 import float64
from unlazy.linalg.stepwise import Iterate, first_iterate, iterates


@pytest.fixture(scope="module")
def system():
    draw = np.random.default_rng(0)
    Q, _ = np.linalg.qr(draw.normal(size=(40, 40)))
    H = Q @ np.diag(np.geomspace(1e-2, 10, 40)) @ Q.T
    y = np.column_stack([draw.normal(size=(40, 2)), np.zeros(40)])
    diagonal = np.diagonal(H)[:, None]
    with float64():
        K, d = jnp.asarray(H), jnp.asarray(diagonal)
    return H, y, (lambda V: K @ V, lambda V: V / d)


def steps(system, count, start=None):
    _, y, (matmat, precondition) = system
    start = first_iterate(y, precondition) if start is None else start
    return list(itertools.islice(iterates(matmat, precondition, start), count))


def test_the_energy_rises_to_that_of_the_solution_and_is_y_times_x(system):
    H, y, _ = system
    exact = np.sum(y * np.linalg.solve(H, y), axis=0)
    found = np.array([np.asarray(here.energy) for here in steps(system, 60)])
    assert np.all(np.diff(found[:, :2], axis=0) >= -1e-12 * exact[:2])
    assert np.all(found <= exact * (1 + 1e-12) + 1e-300)
    np.testing.assert_allclose(found[-1], exact, rtol=1e-10)
    middle = steps(system, 7)[-1]
    np.testing.assert_allclose(middle.energy, np.sum(y * np.asarray(middle.value), axis=0))


def test_a_column_of_zeros_stays_zero_and_residuals_are_true(system):
    H, y, _ = system
    here = steps(system, 20)[-1]
    value = np.asarray(here.value)
    assert not np.any(value[:, 2])
    true = np.linalg.norm(y - H @ value, axis=0)[:2] / np.linalg.norm(y[:, :2], axis=0)
    np.testing.assert_allclose(here.residuals()[:2], true, rtol=1e-8)


def test_an_iterate_goes_on_from_its_arrays_as_if_nothing_had_happened(system):
    straight = steps(system, 12)[-1]
    again = steps(system, 7, Iterate.from_arrays(steps(system, 5)[-1].arrays()))[-1]
    assert again.steps == straight.steps == 12
    np.testing.assert_array_equal(again.value, straight.value)
