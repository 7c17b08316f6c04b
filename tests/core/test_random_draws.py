# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import data, nets
from unlazy.core.random_draws import draw_normal, draw_signs

KEY = jr.key(24)
ONES = np.ones(40, np.float32)
DRAWS = {
    "sphere": lambda: data.sphere(7, 5, radius=2.0, key=KEY),
    "cube": lambda: data.cube(7, 5, scale=0.5, key=KEY),
    "random_labels": lambda: data.random_labels(40, key=KEY),
    "corrupt_labels": lambda: data.corrupt_labels(jnp.asarray(ONES), 0.5, key=KEY),
    "two_layer": lambda: nets.TwoLayer(inputs=3, width=8).init(key=KEY),
    "sphere start": lambda: nets.TwoLayer(inputs=3, width=8, init="sphere").init(key=KEY),
    "biased_two_layer": lambda: nets.BiasedTwoLayer(inputs=3, width=8).init(key=KEY),
    "three_layer": lambda: nets.ThreeLayer(inputs=3, widths=8).init(key=KEY),
    "resnet3": lambda: nets.ResNet3(inputs=3, width=8, outputs=2).init(key=KEY),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_the_same_whether_x64_is_on_or_off(name):
    single = jax.tree.leaves(DRAWS[name]())
    with jax.enable_x64(True):
        double = jax.tree.leaves(DRAWS[name]())
    for s, d in zip(single, double, strict=True):
        np.testing.assert_allclose(np.asarray(s), np.asarray(d), rtol=1e-6)
        assert s.dtype == jnp.float32
        assert d.dtype == (jnp.float32 if name == "corrupt_labels" else jnp.float64)


def test_draws_without_x64_are_those_of_jax():
    # What was stored before depends on them.
    np.testing.assert_array_equal(draw_normal(KEY, (9, 3)), jr.normal(KEY, (9, 3)))
    for dtype in (float, jnp.int8):
        ours = draw_signs(KEY, (1000,), dtype)
        np.testing.assert_array_equal(ours, jr.rademacher(KEY, (1000,), dtype=dtype))
