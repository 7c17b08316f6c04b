# SPDX-License-Identifier: Apache-2.0
"""The movement between two models, and maxima over windows of a network with ReLUs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.taylor import NoTaylorTermError, displacement, expand, terms


def test_what_can_move_moves_and_all_else_is_none():
    start = {
        "w": np.array([1.0, 2.0], np.float32),
        "number": 1.5,
        "layers": 3,
        "key": jr.key(0),
        "activation": jnp.tanh,
        "running_mean": jnp.ones(2),
        "absent": None,
    }
    end = dict(start, w=jnp.array([1.5, 1.0]), number=2.0, layers=4, running_mean=jnp.zeros(2))
    moved = displacement(start, end)
    np.testing.assert_array_equal(moved.pop("w"), [0.5, -1.0])
    assert float(moved.pop("number")) == 0.5
    assert set(moved.values()) == {None}
    assert displacement(start, dict(end, w=None))["w"] is None


def test_float64_models_keep_their_digits():
    moved = displacement(np.array([1.0]), np.array([1.0 + 1e-12]))
    assert moved.dtype == np.float64
    np.testing.assert_allclose(moved, 1e-12, rtol=1e-3)


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        ({"v": jnp.ones(2)}, r"`end` must have the structure of `start`, got \['v'\] where"),
        ({"w": jnp.ones(3)}, r"`end` must be like `start`, with float32\[2\] at \['w'\]"),
        ({"w": jnp.arange(2)}, r"`end` must hold an array of floats at \['w'\]"),
    ],
)
def test_models_that_differ_are_told_where(end, problem):
    with pytest.raises(ValueError, match=problem):
        displacement({"w": jnp.ones(2)}, end)


def test_statistics_move_if_the_movement_says_so():
    # Whoever passes the difference of whole variables asks for the line to the end's statistics.
    variables = {"params": {"w": jnp.array(2.0)}, "batch_stats": {"n": {"mean": jnp.array(1.0)}}}

    def f(variables, x):
        return variables["params"]["w"] * (x - variables["batch_stats"]["n"]["mean"])

    end = jax.tree.map(lambda leaf: leaf + 1, variables)
    x = jnp.array([4.0])
    alone = terms(f, variables, displacement(variables, end), x, 2)
    np.testing.assert_allclose(alone[:, 0], [6.0, 3.0, 0.0])
    whole = terms(f, variables, jax.tree.map(jnp.subtract, end, variables), x, 2)
    np.testing.assert_allclose(whole[:, 0], [6.0, 3.0 - 2.0, -1.0])  # 3 (4 - 2) = 6
    np.testing.assert_allclose(expand(f, variables, 2)(end, x), f(end, x))


class Pooled(eqx.Module):
    """Convolution, ReLU, max-pool, as everyone has them; the pool starts at the number -inf."""

    conv: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    dropout: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self, *, use_bias):
        key_conv, key_last = jr.split(jr.key(0))
        self.conv = eqx.nn.Conv2d(1, 3, 3, padding=1, use_bias=use_bias, key=key_conv)
        self.pool, self.dropout = eqx.nn.MaxPool2d(2, 2), eqx.nn.Dropout(0.2, inference=True)
        self.last = eqx.nn.Linear(3 * 16, 2, key=key_last)

    def __call__(self, x):
        h = self.pool(jax.nn.relu(self.conv(x)))
        return self.last(jax.nn.softplus(self.dropout(h).ravel()))


def f(model, x):
    return jax.vmap(model)(x)


def strokes(background):
    """Images of a stroke on a background of one value: windows full of equal entries."""
    x = np.full((3, 1, 8, 8), background, np.float32)
    x[:, 0, 2:6, 3:5] = np.random.default_rng(0).uniform(0.3, 1, (3, 4, 2))
    return jnp.asarray(x)


def moved(model, seed=1):
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    keys = jr.split(jr.key(seed), len(leaves))
    ends = [a + 0.1 * jr.normal(k, a.shape) for a, k in zip(leaves, keys, strict=True)]
    return eqx.combine(structure.unflatten(ends), rest)


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("background", [0.0, -0.4])
def test_relu_and_max_pool_expand_over_an_empty_background(nested_terms, use_bias, background):
    model = Pooled(use_bias=use_bias)
    delta, x = displacement(model, moved(model)), strokes(background)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    expected = nested_terms(
        lambda arrays, x: f(eqx.combine(arrays, rest), x),
        *(arrays, eqx.filter(delta, eqx.is_array), x, 4),
    )
    found = terms(f, model, delta, x, 4)
    for k in range(5):
        np.testing.assert_allclose(
            found[k], expected[k], rtol=2e-3, atol=2e-4 * np.abs(expected[k]).max()
        )
    # A number where the model has a setting is no movement: subtracted, -inf would be nan.
    numbers = eqx.combine(delta, jax.tree.map(lambda _: 0.0, eqx.filter(model, is_number)))
    np.testing.assert_array_equal(terms(f, model, numbers, x, 4), found)


def is_number(leaf):
    return isinstance(leaf, float)


def test_a_bias_that_starts_at_zero_kinks_only_where_the_maximum_is_at_it(nested_terms):
    model = Pooled(use_bias=True)
    model = eqx.tree_at(
        lambda m: (m.conv.weight, m.conv.bias),
        model,
        (jnp.abs(model.conv.weight), jnp.zeros((3, 1, 1))),
    )
    delta = displacement(model, moved(model))
    with pytest.raises(NoTaylorTermError, match="no term of order 1"):
        terms(f, model, delta, strokes(0.0), 1)
    # Each window has an entry that sees a dot and is positive, besides entries at exactly 0.
    x = jnp.zeros((1, 1, 8, 8)).at[0, 0, 1::4, 1::4].set(jnp.array([[1.0, 0.5], [0.7, 0.9]]))
    assert (model.conv(x[0])[:, 3::4] == 0).all()
    found = terms(f, model, delta, x, 2)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    expected = nested_terms(
        lambda arrays, x: f(eqx.combine(arrays, rest), x),
        *(arrays, eqx.filter(delta, eqx.is_array), x, 2),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
