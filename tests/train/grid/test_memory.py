# SPDX-License-Identifier: Apache-2.0
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.train import fit_grid
from unlazy.train.grid.memory import training_bytes
from unlazy.train.grid.problem import Problem
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
    np.testing.assert_allclose(few.loss, many.loss, rtol=1e-5)
    with pytest.raises(ValueError, match="`memory` must be at least"):
        fit_grid(loss, jnp.ones(WIDTH), data, memory=room - 1, **options)
