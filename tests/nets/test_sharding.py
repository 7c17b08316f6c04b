# SPDX-License-Identifier: Apache-2.0
"""Neurons over the devices of a mesh; `tests/mesh_checks.py` computes what is read here."""

import jax
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import ResNet3, TwoLayer, shard_neurons

EPS = 10 * float(np.finfo(np.float32).eps)


def check(wide, neurons):
    assert wide["outputs"] < EPS
    assert wide["gradient"] < EPS
    assert wide["kernel"] < EPS
    assert wide["trained"] < 10 * EPS  # twenty steps, each with its rounding
    # No device holds all of W: at the start, as a gradient, after training.
    assert wide["neurons_per_device"] == [neurons] * 3


def test_a_wide_network_on_eight_devices_agrees_with_one(eight_devices):
    check(eight_devices["two"], 64 // 8)
    check(eight_devices["three"], 64 // 8)


def test_devices_add_up_outputs_and_exchange_no_weights(eight_devices):
    assert eight_devices["two"]["gathers"] == 0
    assert eight_devices["two"]["reductions"] == 1


@pytest.mark.slow
def test_a_wide_network_over_two_processes_agrees_with_one_device(two_processes):
    for report in two_processes:
        check(report["two"], 64 // 4)


@pytest.fixture
def mesh():
    return jax.make_mesh((1,), ("neurons",))


def placements(tree):
    return [tuple(leaf.sharding.spec) for leaf in jax.tree.leaves(tree)]


def test_hidden_layers_are_cut_along_rows_and_outputs_along_columns(mesh):
    params = ResNet3(inputs=3, width=4, outputs=2).init(key=jr.key(0))
    rows, columns = ("neurons",), (None, "neurons")
    assert placements(shard_neurons(params, mesh)) == [rows] * 4 + [columns]


def test_a_function_of_the_path_places_any_pytree(mesh):
    tree = {"first": {"w": np.ones((2, 3)), "b": np.ones(3)}, "rest": np.ones(2), "name": "net"}

    def axis(path):
        return {"first/w": 1, "first/b": -1}.get(path)

    placed = shard_neurons(tree, mesh, axis)
    assert placed["name"] == "net"
    del placed["name"]
    assert placements(placed) == [("neurons",), (None, "neurons"), ()]
    assert placements(shard_neurons(np.ones(2), mesh)) == [()]


def test_shapes_get_placements_so_that_a_network_is_drawn_in_parts(mesh):
    net = TwoLayer(inputs=3, width=4)
    shapes = shard_neurons(jax.eval_shape(lambda key: net.init(key=key), jr.key(0)), mesh)
    placed = jax.tree.map(lambda leaf: leaf.sharding, shapes)
    params = jax.jit(lambda key: net.init(key=key), out_shardings=placed)(jr.key(0))
    assert placements(params) == [("neurons",)] * 2
    np.testing.assert_allclose(params.W, net.init(key=jr.key(0)).W, rtol=1e-6)


def test_an_axis_that_is_not_there_is_refused(mesh):
    with pytest.raises(ValueError, match=r"`axis` must be None or the number of an axis .* at w"):
        shard_neurons({"w": np.ones(2)}, mesh, 1)
