# SPDX-License-Identifier: Apache-2.0
"""Lanes over the devices of a mesh; `tests/mesh_checks.py` computes what is read here."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.train import fit_grid
from unlazy.train.grid.devices import waves
from unlazy.train.grid.memory import Tiling

EPS = 10 * float(np.finfo(np.float32).eps)


def check(grid):
    assert grid["diverged"] == 6  # those of the largest learning rate
    assert grid["same_divergence"]
    assert grid["loss"] < EPS
    assert grid["waves"] < EPS
    assert grid["best"] < EPS
    assert grid["kept"] == 18
    assert grid["progress"] == [72, 72]  # lanes times epochs, no more for those that only fill up


def test_lanes_on_eight_devices_train_as_on_one(eight_devices):
    assert eight_devices["devices"] == 8
    check(eight_devices["grid"])


@pytest.mark.slow
def test_two_processes_both_have_the_results_of_all_lanes(two_processes):
    for report in two_processes:
        assert (report["processes"], report["devices"]) == (2, 4)
        check(report["grid"])


def test_the_last_wave_is_filled_up_with_chunks_that_do_not_count():
    mesh = jax.make_mesh((1,), ("lanes",))
    assert [wave.lanes for wave in waves(Tiling(3, 2, 2, 2), mesh)] == [4, 2]


def test_a_mesh_of_one_device_changes_nothing():
    def loss(w, batch):
        return jnp.mean((batch @ w - 1) ** 2)

    options = {"learning_rates": [0.1, 0.2, 0.3], "epochs": 2}
    data = jnp.eye(3)
    one = fit_grid(loss, jnp.zeros(3), data, **options)
    mesh = jax.make_mesh((1,), ("lanes",))
    np.testing.assert_array_equal(
        fit_grid(loss, jnp.zeros(3), data, mesh=mesh, **options).loss, one.loss
    )
    with pytest.raises(ValueError, match="`workers` must be None or 1 where `mesh` is given"):
        fit_grid(loss, jnp.zeros(3), data, mesh=mesh, workers=2, **options)


@pytest.mark.usefixtures("no_shape_checker")
def test_what_is_no_mesh_is_refused():
    devices: Any = jax.devices()
    with pytest.raises(TypeError, match=r"`mesh` must be a jax\.sharding\.Mesh or None, got a li"):
        fit_grid(jnp.sum, jnp.ones(2), None, learning_rates=[1], epochs=1, mesh=devices)
