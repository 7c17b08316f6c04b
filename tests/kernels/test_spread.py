# SPDX-License-Identifier: Apache-2.0
"""Operators over the devices of a mesh; `tests/mesh_checks.py` computes what is read here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.float64 import float64
from unlazy.kernels import operator, relu_gram
from unlazy.kernels.near_pairs import repairing
from unlazy.kernels.tilings import shares

# Sums of 300 terms in another order, and what a solve with a condition of 1e4 makes of them.
ROUNDING = {"solve": 1e-8, "complexity": 1e-9, "empirical": 1e-6, "regression": 1e-5}


def check(kernels):
    assert kernels["symmetric"]
    assert kernels["methods"] == ["conjugate-gradients", "cholesky"]
    errors = {name: value for name, value in kernels.items() if isinstance(value, float)}
    assert {"matmat", "dense", "solve", "complexity", "top_eigen", "parallel"} <= errors.keys()
    check_errors(errors)


def check_errors(errors):
    wrong = {name: error for name, error in errors.items() if not error < ROUNDING.get(name, 1e-13)}
    assert not wrong


def test_an_operator_on_eight_devices_agrees_with_one(eight_devices):
    check(eight_devices["kernels"])


def test_products_with_some_columns_are_those_of_one_device(eight_devices):
    # Devices with two tiles, with one and with none; the longer side in rows and in columns.
    assert eight_devices["landmarks"].keys() == {
        "columns",
        "transposed",
        "squared",
        "cross",
        "regression",
    }
    check_errors(eight_devices["landmarks"])


@pytest.mark.slow
def test_two_processes_both_have_what_all_tiles_give(two_processes):
    for report in two_processes:
        check(report["kernels"])
        check_errors(report["landmarks"])


@pytest.mark.parametrize("blocks", [1, 3, 4, 7, 8, 9, 20])
@pytest.mark.parametrize("devices", [1, 2, 8])
def test_every_block_of_rows_has_one_device_and_shares_are_even(blocks, devices):
    found = shares(blocks, devices)
    assert found.shape == (devices, -(-blocks // devices))
    assert sorted(found[found >= 0]) == list(range(blocks))


def test_a_program_repairs_nearly_parallel_rows_where_it_is_asked_to():
    x = np.random.default_rng(0).normal(size=(40, 5))
    other = np.concatenate([x * (1 + 1e-9), -x + 1e-8])  # 80 near pairs and more
    with float64():
        exact = np.asarray(relu_gram(x, other))
        plain = np.asarray(jax.jit(relu_gram)(jnp.asarray(x), jnp.asarray(other)))

        def repaired(x1, x2):
            with repairing():
                return relu_gram(x1, x2)

        found = np.asarray(jax.jit(repaired)(jnp.asarray(x), jnp.asarray(other)))
    size = np.linalg.norm(x, axis=1)[:, None]
    assert np.max(np.abs(plain - exact) / size) > 1e-10
    assert np.max(np.abs(found - exact) / size) < 1e-14


def test_progress_over_a_mesh_counts_its_tiles():
    calls = []
    H = operator(relu_gram, np.random.default_rng(1).normal(size=(300, 4)), mesh=mesh_of_one())
    H.solve(np.ones(300), progress=lambda *done: calls.append(done))
    assert calls[-1] == (6, 6)  # three rows of tiles of 128


def mesh_of_one():
    return jax.make_mesh((1,), ("tiles",))


@pytest.mark.usefixtures("no_shape_checker")
def test_what_is_no_mesh_is_refused():
    with pytest.raises(TypeError, match=r"`mesh` must be a jax\.sharding\.Mesh or None, got a int"):
        operator(relu_gram, np.eye(3), mesh=8)  # pyright: ignore[reportArgumentType]
