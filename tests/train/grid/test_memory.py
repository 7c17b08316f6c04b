# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.train import fit_grid
from unlazy.train.grid.memory import (
    Need,
    Tiling,
    evaluated_together,
    fit_memory,
    lanes_that_fit,
    training_bytes,
)
from unlazy.train.grid.problem import Problem
from unlazy.train.grid.programs import compile_programs
from unlazy.train.grid.rules import TorchSGD

ROWS, WIDTH = 6, 1000


def need(loss, *, own_batch=False):
    params, data = jnp.ones(WIDTH), jnp.ones((ROWS, WIDTH))
    problem = Problem(loss, loss, TorchSGD(0.9), params, data, {}, None, None, None)
    one = np.ones(1)
    plan, shared = problem.set_up(one, one, one, np.zeros(1, np.int64), key=None)
    return training_bytes(plan._replace(batch_size=ROWS, own_batch=own_batch), shared)


def of_data_alone(w, batch):
    """Works on all of the batch before the parameters come in."""
    return jnp.sum((jnp.sin(batch) @ w) ** 2)


def of_both(w, batch):
    return jnp.sum(jnp.sin(batch * w[None]))


def test_what_depends_on_the_data_alone_is_counted_once():
    array = 4 * ROWS * WIDTH
    state = 4 * 4 * WIDTH  # parameters and velocity, read and written
    found = need(of_data_alone)
    assert found.common >= array  # the sines
    assert found.lane < state + array
    assert need(of_both).lane > state + array


def test_lanes_with_copies_of_the_batch_have_all_of_it_to_themselves():
    own, shared = need(of_data_alone, own_batch=True), need(of_data_alone)
    assert own.common < WIDTH  # constants, such as the slope 1 of a sum's terms
    assert sum(own) == sum(shared) + 4 * ROWS * WIDTH  # the copy comes on top


@pytest.mark.parametrize("loss", [of_data_alone, of_both])
def test_memory_for_one_lane_is_memory_for_its_common_part_too(loss):
    options = {"learning_rates": [1e-6, 1e-5], "epochs": 2, "workers": 1}
    data = jnp.ones((ROWS, WIDTH))
    found = need(loss)
    room = found.lane + found.common
    few = fit_grid(loss, jnp.ones(WIDTH), data, memory=room, **options)
    many = fit_grid(loss, jnp.ones(WIDTH), data, **options)
    # Sums of millions of float32 terms in another order: 1.2e-5 apart on some processors.
    np.testing.assert_allclose(few.loss, many.loss, rtol=1e-4)
    with pytest.raises(ValueError, match="`memory` must be at least"):
        fit_grid(loss, jnp.ones(WIDTH), data, memory=room - 1, **options)


@pytest.mark.parametrize("axis", [None, "seed"])
@pytest.mark.parametrize("room", [3.5, 7.0, 40.0])
def test_chunks_take_no_more_than_the_memory(axis, room):
    # The data are nearly all that there is; a seed has copies of its own of it.
    seeds, samples = 4, 2000
    shape = (samples, 50) if axis is None else (seeds, samples, 50)
    data, params = jnp.ones(shape), jnp.zeros(50)

    def loss(w, batch):
        return jnp.mean((batch @ w - 1) ** 2)

    problem = Problem(loss, loss, TorchSGD(0.9), params, data, {}, None, None, axis)
    rates = np.array([1e-3, 1e-2])
    plan, shared = problem.set_up(rates, np.zeros(1), np.ones(3), np.arange(seeds), key=jr.key(0))
    memory = room * samples * 50 * 4
    plan, tiling, found = fit_memory(plan._replace(batch_size=20), shared, memory, 1)
    assert (tiling.rows == 1) == (room < 6)
    advance: Any = compile_programs(plan, shared, tiling, found).advance
    taken = advance.memory_analysis().temp_size_in_bytes
    assert taken < 1.05 * memory
    if room == 40.0:
        assert (tiling.rows, tiling.columns) == (4, 2)
        assert taken > 4 * samples * 50 * 4  # a copy a seed, at least: there is something to count


def test_lanes_are_all_settings_of_some_seeds_or_some_of_one():
    need = Need(lane=10, common=5)
    options = {"copies": 100, "seeds": 3, "settings": 8, "workers": 1}
    assert lanes_that_fit(115, need, **options) == 1
    assert lanes_that_fit(145, need, **options) == 4
    assert lanes_that_fit(185, need, **options) == 8
    assert lanes_that_fit(2 * 185, need, **options) == 16
    assert lanes_that_fit(1e9, need, **options) == 24


@pytest.mark.parametrize(
    ("room", "together"), [(51, 51), (50, 17), (17, 17), (16, 9), (6, 6), (5, 5), (1, 1), (0.5, 1)]
)
def test_as_many_lanes_are_evaluated_together_as_fit(room, together):
    assert evaluated_together(Tiling(3, 17, 3, 17), 100 * room, 100) == together
