# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.filtering import jit_filtered, parted, remembered


def test_a_tree_is_its_arrays_and_the_rest():
    tree = {"a": jnp.ones(2), "b": ["text", np.zeros(3), None, 2.0]}
    arrays, rest = parted(tree)
    assert [array.shape for array in arrays] == [(2,), (3,)]
    joined = rest.joined([array + 1 for array in arrays])
    assert joined["b"][0] == "text"
    assert joined["b"][2:] == [None, 2.0]
    np.testing.assert_array_equal(joined["a"], [2, 2])
    assert hash(rest) == hash(parted(tree)[1])
    assert rest == parted(tree)[1]
    assert rest != parted(tree | {"c": 1})[1]


def test_values_that_are_no_arrays_are_static_and_may_be_returned(compilations):
    @jit_filtered
    def scaled(x, options, times=2):
        return {"value": options["sign"] * times * x, "name": f"{times} times"}

    x = jnp.arange(3.0)
    for call in (
        lambda: scaled(x, {"sign": -1}),
        lambda: scaled(x + 0, times=2, options={"sign": -1}),
    ):
        found = call()
        np.testing.assert_array_equal(found["value"], [0, -2, -4])
        assert found["name"] == "2 times"
    assert compilations.count("scaled") == 1
    assert scaled(x, {"sign": -1}, 3)["name"] == "3 times"
    assert compilations.count("scaled") == 2


def test_it_can_be_transformed():
    cube = jit_filtered(lambda x, power: x**power)
    assert float(jax.grad(lambda x: cube(x, 3))(2.0)) == 12.0
    np.testing.assert_array_equal(jax.vmap(lambda x: cube(x, 2))(jnp.arange(3.0)), [0, 1, 4])


def test_what_is_remembered_is_traced_once_per_shape_and_never_compiled(compilations):
    traces = []

    @remembered
    def entries(tree, factor):
        traces.append(factor)
        return factor * sum(leaf.size for leaf in jax.tree.leaves(tree))

    for _ in range(2):
        assert entries({"a": jnp.ones((2, 3))}, 2) == 12
    assert entries({"a": jnp.ones(5)}, 2) == 10
    assert traces == [2, 2]
    assert compilations.count("entries") == 0


def test_what_is_remembered_is_that_of_the_dtypes_and_settings():
    @remembered
    def described(x):
        name = f"{x.dtype} {x.weak_type} {jax.config.values['jax_numpy_rank_promotion']}"
        return name, (x + 1).dtype

    x = jnp.ones(2)
    assert described(x)[0].startswith("float32 False")
    assert described(x.astype(jnp.int32))[1] == jnp.int32
    assert described(jnp.asarray(2.0))[0].startswith("float32 True")
    with jax.enable_x64(True):
        assert described(jnp.ones(2))[1] == jnp.float64
        assert described(jnp.asarray(2.0))[0].startswith("float64 True")


def test_an_error_of_the_function_passes_through():
    @jit_filtered
    def fails(x):
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        fails(jnp.ones(2))
