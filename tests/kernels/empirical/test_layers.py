# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.jaxprs import read, trace
from unlazy.kernels.empirical.features import features, make_recipe, run_shifted
from unlazy.kernels.empirical.model import Model
from unlazy.nets import partition

NAMES = (
    *("two_layer", "mlp", "scaled_mlp", "bias_before_product", "bias_over_rows", "square_bias"),
    *("conv_nchw", "conv_nhwc", "grouped_conv", "shared_residual", "tied", "attention"),
    *("recurrent", "nested_jits", "linear_in_the_parameter", "shared_after_one_transpose"),
    *("unrolled", "shared_conv"),
)


def recipe_of(networks, name):
    case = networks.CASES[name]()
    arrays, frozen = partition(case.params, None)
    x = networks.samples(case, 1)
    recipe = make_recipe(Model(case.f, frozen), arrays, x, layerwise=True, traced=False)
    return case, arrays, x, recipe


@pytest.mark.parametrize("name", NAMES)
def test_as_many_parameters_as_possible_need_no_gradient(name, networks):
    case, _, _, recipe = recipe_of(networks, name)
    weights = {layer.leaf for layer in recipe.layers}
    biases = [layer for layer in recipe.layers if layer.bias is not None]
    assert len(weights) + len(biases) == case.layers


@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_what_the_function_does(name, networks):
    case, arrays, x, recipe = recipe_of(networks, name)
    program = recipe.program
    leaves = jax.tree.leaves(arrays)
    out = jax.jit(lambda x: read(program.run([*leaves, x]), program.results[0]))(x[0])
    expected = np.asarray(jax.jit(lambda x: case.f(case.params, x))(x)).reshape(-1)
    assert np.asarray(out) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_shift_is_added_to_the_result_of_its_step():
    program = trace(lambda x: 3 * x, jnp.ones(()))
    values = run_shifted(program, [jnp.ones(())], {0: jnp.full((), 2.0)})
    assert read(values, program.results[0]) == 5.0


def test_a_weight_over_few_positions_keeps_its_factors_and_a_convolution_does_not(networks):
    _, arrays, x, recipe = recipe_of(networks, "bias_over_rows")
    (kept,) = features(recipe, arrays, x, np.dtype(np.float32))
    assert [outer.A.shape[1] for outer in kept.outer] == [1, 2]
    _, arrays, x, recipe = recipe_of(networks, "conv_nhwc")
    (kept,) = features(recipe, arrays, x, np.dtype(np.float32))
    assert [outer.A.shape[1] for outer in kept.outer] == [1]
