# SPDX-License-Identifier: Apache-2.0
"""Taylor terms and models of whole networks: remainders, transformations, precision, errors."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unlazy as ul
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.taylor import NoTaylorTermError, UnsupportedOperationError, expand, linearize, terms


def mlp(params, x):
    for W, b in params[:-1]:
        x = jnp.tanh(x @ W + b)
    W, b = params[-1]
    return x @ W + b


def draw(rng, *shape, scale=1.0):
    # By numpy: jax.random would compile a program for every shape.
    return jnp.asarray(scale * rng.standard_normal(shape), jnp.result_type(float))


def init_mlp(rng, sizes=(4, 6, 5, 2)):
    return [
        (draw(rng, d, m, scale=d**-0.5), draw(rng, 1, m, scale=0.1))
        for d, m in itertools.pairwise(sizes)
    ]


def convolve(x, W):
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, W, (1, 1), "SAME", dimension_numbers=dimensions)


def cnn(params, x):
    h = jax.nn.gelu(convolve(x, params["W1"]) + jnp.reshape(params["b1"], (1, 1, 1, -1)))
    h = jax.nn.softplus(convolve(h, params["W2"]))
    return jnp.mean(h, axis=(1, 2)) @ params["W3"]


def init_cnn(rng):
    return {
        "W1": draw(rng, 2, 2, 1, 3, scale=1 / 2),
        "b1": draw(rng, 3),
        "W2": draw(rng, 2, 2, 3, 3, scale=1 / 4),
        "W3": draw(rng, 3, 2),
    }


def resnet(params, x):
    h = x @ params["in"]
    for W in params["blocks"]:
        h = h + jnp.sin(h @ W)
    return h @ params["out"]


def init_resnet(rng):
    return {
        "in": draw(rng, 4, 4, scale=1 / 2),
        "blocks": draw(rng, 2, 4, 4, scale=1 / 2),
        "out": draw(rng, 4, scale=1 / 2),
    }


def norm(h):
    return jax.nn.standardize(h, epsilon=1e-2)


def transformer(params, x):
    h = x @ params["in"]
    q, k, v = (norm(h) @ params[name] for name in "qkv")
    h = h + jax.nn.softmax(q @ jnp.swapaxes(k, 1, 2) / 2, axis=-1) @ v
    return jnp.mean(norm(h), axis=1) @ params["out"]


def init_transformer(rng):
    return {name: draw(rng, 4, 4, scale=1 / 2) for name in ("in", *"qkv", "out")}


TWO_LAYER = TwoLayer(inputs=4, width=6, activation="tanh")

NETWORKS = {
    "mlp": (mlp, init_mlp, (3, 4)),
    "cnn": (cnn, init_cnn, (2, 3, 3, 1)),
    "resnet": (resnet, init_resnet, (3, 4)),
    "transformer": (transformer, init_transformer, (2, 3, 4)),
    "two-layer": (TWO_LAYER, lambda rng: TwoLayerParams(draw(rng, 6, 4), draw(rng, 6)), (3, 4)),
}


def problem(name, seed):
    f, init, shape = NETWORKS[name]
    rng = np.random.default_rng(seed)
    params = init(rng)
    delta = jax.tree.map(lambda p: rng.standard_normal(p.shape), params)
    size = sum(np.sum(d**2) for d in jax.tree.leaves(delta)) ** 0.5
    delta = jax.tree.map(lambda d: jnp.asarray(d / size, jnp.result_type(float)), delta)
    return f, params, delta, draw(rng, *shape)


def moved(params, delta, eps):
    return jax.tree.map(lambda p, d: p + eps * d, params, delta)


@functools.partial(jax.jit, static_argnums=0)
def on_path(f, params, delta, x, eps):
    return jax.vmap(lambda e: f(moved(params, delta, e), x))(eps)


@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=3, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_remainder_shrinks_like_eps_to_the_order_plus_one(name, seed):
    with jax.enable_x64(True):
        f, params, delta, x = problem(name, seed)
        parts = np.asarray(terms(f, params, delta, x, 8)).reshape(9, -1)
        size = np.linalg.norm(parts, axis=1)
        seen = 0
        for order in range(7):
            # Just large enough for the remainder to stand out from rounding.
            smallest = (1e-11 * size[0] / size[order + 1]) ** (1 / (order + 1))
            eps = max(smallest, 1e-3) * np.geomspace(1, 2, 4)
            model = eps[:, None] ** np.arange(order + 1) @ parts[: order + 1]
            exact = np.asarray(on_path(f, params, delta, x, jnp.asarray(eps)))
            gaps = np.linalg.norm(exact.reshape(4, -1) - model, axis=1)
            slope = np.polyfit(np.log(eps), np.log(gaps), 1)[0]
            # The term after the next adds at most its relative size to the slope.
            bias = 2 * eps[-1] * size[order + 2] / size[order + 1]
            if bias < 0.9:  # else that term is small by accident, and its slope cannot be seen
                assert slope == pytest.approx(order + 1, abs=0.05 + bias), order
                seen += 1
        assert seen >= 5


@pytest.mark.parametrize("name", NETWORKS)
def test_terms_of_networks_are_those_of_nested_jvp(name, nested_terms, x64):
    f, params, delta, x = problem(name, 3)
    ours = terms(f, params, delta, x, 3)
    theirs = jax.jit(lambda params, delta: nested_terms(f, params, delta, x, 3))(params, delta)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_kth_term_is_homogeneous_of_degree_k(name, x64):
    f, params, delta, x = problem(name, 4)
    once = terms(f, params, delta, x, 8)
    halved = terms(f, params, jax.tree.map(lambda d: -d / 2, delta), x, 8)
    powers = (-0.5) ** np.arange(9).reshape(-1, *[1] * (once.ndim - 1))
    np.testing.assert_allclose(halved, powers * once, rtol=1e-10, atol=1e-18)


def test_terms_are_exact_on_polynomials(x64):
    x, w, d = jr.normal(jr.key(0), (5, 3)), jnp.arange(1.0, 4.0), jnp.ones(3)
    found = terms(lambda w, x: (x @ w) ** 3, w, d, x, 6)
    a, b = x @ w, x @ d
    np.testing.assert_allclose(found[:4], [a**3, 3 * a**2 * b, 3 * a * b**2, b**3], rtol=1e-13)
    assert not np.any(found[4:])


def test_eulers_identity_of_a_homogeneous_network(x64):
    # f(c W) = c^3 f(W) for two layers of ReLU and a linear one: <grad f, W> = 3 f.
    def f(Ws, x):
        return jax.nn.relu(jax.nn.relu(x @ Ws[0]) @ Ws[1]) @ Ws[2]

    Ws = [jr.normal(key, (4, 4)) for key in jr.split(jr.key(1), 3)]
    found = terms(f, Ws, Ws, jr.normal(jr.key(2), (6, 4)), 4)
    np.testing.assert_allclose(found[1:4], [3 * found[0], 3 * found[0], found[0]], rtol=1e-12)
    assert not np.any(found[4])  # (1 + t)^3 ends there


def test_the_model_is_the_sum_of_the_terms_and_linearize_its_first_order(x64):
    f, params, delta, x = problem("mlp", 5)
    new = moved(params, delta, 1.0)
    for order in (0, 1, 3):
        total = jnp.sum(terms(f, params, delta, x, order), axis=0)
        np.testing.assert_allclose(expand(f, params, order)(new, x), total, rtol=1e-12)
    value, change = jax.jvp(lambda p: f(p, x), (params,), (delta,))
    np.testing.assert_allclose(linearize(f, params)(new, x), value + change, rtol=1e-12)


def test_the_gradient_of_the_model_is_that_of_its_terms_in_both_modes(nested_terms, x64):
    f, params, delta, x = problem("resnet", 6)
    g = expand(f, params, 4)
    new = moved(params, delta, 0.5)

    def naive(new):
        delta = jax.tree.map(jnp.subtract, new, params)
        return jnp.sum(jnp.sum(nested_terms(f, params, delta, x, 4), axis=0) ** 2)

    wanted = jax.jit(jax.grad(naive))(new)
    loss = jax.jit(lambda new: jnp.sum(g(new, x) ** 2))
    found = jax.grad(loss)(new)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)
    _, along = jax.jvp(loss, (new,), (delta,))
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(delta), strict=True)
    assert along == pytest.approx(sum(float(jnp.sum(a * b)) for a, b in pairs), rel=1e-10)


def test_jit_and_vmap_agree_with_the_plain_call(x64):
    f, params, delta, x = problem("cnn", 7)
    plain = terms(f, params, delta, x, 3)
    compiled = jax.jit(lambda params, delta, x: terms(f, params, delta, x, 3))(params, delta, x)
    np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-15)
    g = expand(f, params, 3)
    many = jax.tree.map(lambda p, d: jnp.stack([p + d, p - d]), params, delta)
    both = jax.vmap(g, in_axes=(0, None))(many, x)
    np.testing.assert_allclose(both[0], jnp.sum(plain, axis=0), rtol=1e-11, atol=1e-13)


def test_training_the_model_twice_compiles_once():
    f, params, delta, x = problem("mlp", 8)
    traces = []

    @functools.partial(jax.jit, static_argnums=0)
    def loss(g, new):
        traces.append(1)
        return jnp.sum(g(new, x) ** 2)

    new = moved(params, delta, 0.1)
    assert expand(f, params, 2) == expand(f, params, 2)
    loss(expand(f, params, 2), new)
    loss(expand(f, params, 2), new)
    assert len(traces) == 1
    assert expand(f, params, 2) != expand(f, params, 3)
    assert expand(f, params, 2) != expand(f, moved(params, delta, 0.0), 2)


def test_a_second_call_of_terms_compiles_nothing(compilations):
    def f(w, x):
        return jnp.tanh(x @ w)

    delta, x, one, two = jnp.ones(3), jnp.ones((2, 3)), *jr.normal(jr.key(0), (2, 3))
    terms(f, one, delta, x, 2)
    assert compilations
    compilations.clear()
    terms(f, two, delta, x, 2)
    assert compilations == []


def test_a_changed_closure_changes_terms_and_model():
    alpha = 1.0

    def f(w, x):
        return alpha * jnp.tanh(x @ w)

    w, x = jr.normal(jr.key(0), (3, 2)), jr.normal(jr.key(1), (4, 3))
    g = expand(f, w, 2)

    def values():
        return (
            terms(f, w, jnp.ones_like(w), x, 3),
            g(2 * w, x),
            jax.grad(lambda new: jnp.sum(g(new, x)))(2 * w),
            jax.vmap(g, in_axes=(0, None))(jnp.stack([w, 2 * w]), x),
        )

    before = values()
    alpha = 10.0
    for old, new in zip(before, values(), strict=True):
        np.testing.assert_allclose(new, 10 * old, rtol=1e-5, atol=1e-5)


def test_a_changed_kink_is_met():
    shift = 1.0

    def f(w, x):
        return jax.nn.relu(x @ w - shift)

    w, x = jnp.array([2.0]), jnp.ones((1, 1))
    np.testing.assert_allclose(terms(f, w, w, x, 1).ravel(), [1.0, 2.0])
    shift = 2.0
    with pytest.raises(NoTaylorTermError):
        terms(f, w, w, x, 1)


def test_an_equinox_model_with_its_functions_among_the_leaves(x64):
    model = eqx.nn.MLP(3, 2, 8, 2, key=jr.key(0))  # ReLU, as a leaf
    arrays = eqx.filter(model, eqx.is_inexact_array)
    delta = jax.tree.map(lambda leaf: jr.normal(jr.key(leaf.size), leaf.shape), arrays)
    x = jr.normal(jr.key(1), (5, 3))

    def f(model, x):
        return jax.vmap(model)(x)

    found = terms(f, model, delta, x, 2)
    _, change = eqx.filter_jvp(lambda m: f(m, x), (model,), (delta,))
    np.testing.assert_allclose(found[1], change, rtol=1e-12)
    near = expand(f, model, 3)(eqx.apply_updates(model, moved_by(delta, 1e-3)), x)
    exact = f(eqx.apply_updates(model, moved_by(delta, 1e-3)), x)
    np.testing.assert_allclose(near, exact, rtol=1e-11)


def moved_by(delta, eps):
    return jax.tree.map(lambda d: eps * d, delta)


def test_what_is_none_or_an_integer_does_not_move(x64):
    params = {"w": jnp.array([2.0]), "steps": 3, "frozen": jnp.array([5.0])}

    def f(params, x):
        return (x @ params["w"]) ** params["steps"] * params["frozen"]

    delta = {"w": jnp.array([1.0]), "steps": 1, "frozen": None}
    found = terms(f, params, delta, jnp.eye(1), 3)
    np.testing.assert_allclose(found.ravel(), [40, 60, 30, 5])
    model = expand(f, params, 3)({"w": jnp.array([3.0]), "steps": 3, "frozen": None}, jnp.eye(1))
    np.testing.assert_allclose(model, [135])


def test_inputs_may_be_any_tree_and_nothing_need_move():
    def f(w, batch):
        return batch["x"] @ w * batch["scale"]

    batch = {"x": jnp.eye(2), "scale": jnp.array(3.0)}
    found = terms(f, jnp.ones(2), jnp.ones(2), batch, 1)
    np.testing.assert_array_equal(found, [[3.0, 3.0], [3.0, 3.0]])
    np.testing.assert_array_equal(terms(f, jnp.ones(2), None, batch, 1)[1], [0.0, 0.0])


def test_float64_parameters_give_float64_terms_with_x64_off():
    with jax.enable_x64(True):
        w, d, x = jnp.array([1 / 3]), jnp.array([1e-9]), jnp.eye(1)
    found = terms(lambda w, x: jnp.exp(x @ w), w, d, x, 2)
    assert found.dtype == jnp.float64
    np.testing.assert_allclose(
        np.asarray(found)[:, 0], np.exp(1 / 3) * 1e-9 ** np.arange(3) / [1, 1, 2], rtol=1e-14
    )


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_terms_keep_the_dtype_of_the_parameters(dtype):
    w = jnp.ones(2, dtype)
    found = terms(lambda w, x: jnp.tanh(x @ w), w, w, jnp.eye(2, dtype=dtype), 3)
    assert found.dtype == dtype
    assert np.all(np.isfinite(np.asarray(found, np.float32)))


def test_softplus_at_exactly_zero_has_its_true_terms(x64):
    grid = jnp.linspace(-3, 3, 61).at[30].set(0.0)
    found = terms(lambda w, _: jax.nn.softplus(w), grid, jnp.ones(61), None, 4)
    wanted = [
        np.asarray(ul.activation("softplus").derivative(k)(grid)) / factorial
        for k, factorial in enumerate([1, 1, 2, 6, 24])
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)
    assert found[1, 30] == 0.5


@pytest.mark.parametrize(
    ("power", "order"), [(2.0, 5), (3, 5), (2.5, 2)], ids=["float square", "cube", "root"]
)
def test_powers_at_zero_are_numbers_where_they_exist(power, order, x64):
    found = terms(lambda w, _: w**power, jnp.zeros(1), jnp.ones(1), None, order)
    wanted = [float(k == power) for k in range(order + 1)]
    np.testing.assert_array_equal(found.ravel(), wanted)


def test_a_moving_exponent_leaves_a_base_of_zero_alone(nested_terms, x64):
    x = jnp.array([0.0, 1.0, 2.0])
    w, d = jnp.array(2.0), jnp.array(1.0)
    found = terms(lambda w, x: x**w, w, d, x, 3)
    np.testing.assert_array_equal(found[:, 0], 0)
    np.testing.assert_allclose(found, nested_terms(lambda w, x: x**w, w, d, x, 3), rtol=1e-12)
    still = terms(lambda w, x: x**w, w, 0 * d, jnp.array([-2.0]), 2)
    np.testing.assert_array_equal(still.ravel(), [4, 0, 0])
    slope = jax.grad(lambda d: jnp.sum(terms(lambda w, x: x**w, w, d, x, 2)))(d)
    assert np.isfinite(slope)


def test_a_base_that_leaves_zero_has_terms_up_to_its_exponent(x64):
    # t^(2 + t) = t^2 + t^3 log t + ...: no third derivative at 0.
    w = jnp.array([0.0, 2.0])
    found = terms(lambda w, _: w[0] ** w[1], w, jnp.ones(2), None, 3)
    np.testing.assert_array_equal(found[:3], [0, 0, 1])
    assert np.isnan(found[3])


def test_a_rectified_cube_at_its_kink_has_two_terms_and_no_third():
    sigma = ul.activation("relu3")
    for f in (lambda w, _: sigma(w), lambda w, _: jax.nn.relu(w) ** 3 / 6):
        w, d = jnp.array([0.0, 1.0]), jnp.ones(2)
        np.testing.assert_allclose(
            terms(f, w, d, None, 2), [[0, 1 / 6], [0, 0.5], [0, 0.5]], rtol=1e-6
        )
        with pytest.raises(NoTaylorTermError, match=r"no term of order 3.* in row 0\. Move"):
            terms(f, w, d, None, 3)


@pytest.mark.parametrize(
    "f",
    [
        jax.nn.relu,
        jnp.abs,
        lambda w: jnp.maximum(w, 0),
        lambda w: jnp.where(w > 0, w, 0),
        lambda w: jnp.max(jnp.stack([w, -w]), axis=0),
        lambda w: jax.lax.map(jax.nn.relu, w),
        lambda w: jax.lax.clamp(0.0, w, 1.0),
        lambda w: jnp.sign(w),
        lambda w: jnp.floor(w),
    ],
    ids=["relu", "abs", "maximum", "where", "max", "map", "clamp", "sign", "floor"],
)
def test_a_kink_raises_when_it_is_crossed_and_passes_when_nothing_moves(f):
    w = jnp.array([1.5, 0.0])
    with pytest.raises(NoTaylorTermError, match="`order` must be at most"):
        terms(lambda w, _: f(w), w, jnp.ones(2), None, 1)
    still = terms(lambda w, _: f(w), w, jnp.array([0.25, 0.0]), None, 2)
    assert np.all(np.isfinite(still))
    assert not np.any(still[1:, 1])
    compiled = jax.jit(lambda w, d: terms(lambda w, _: f(w), w, d, None, 1))(w, jnp.ones(2))
    slope = jax.jvp(f, (w,), (jnp.ones(2),))[1]  # JAX's own convention
    np.testing.assert_array_equal(compiled[1], slope)


def test_equal_logits_are_no_kink_of_softmax(x64):
    found = terms(lambda w, _: jax.nn.softmax(w), jnp.zeros(3), jnp.arange(3.0), None, 2)
    np.testing.assert_allclose(found[1], np.array([-1, 0, 1]) / 3, atol=1e-15)
    with pytest.raises(NoTaylorTermError, match="reduce_max"):
        terms(lambda w, _: jnp.max(w)[None], jnp.zeros(3), jnp.arange(3.0), None, 1)


def test_ties_within_a_pool_raise_when_they_part_and_follow_jax_under_jit():
    def f(w, _):
        return jax.lax.reduce_window(w, -jnp.inf, jax.lax.max, (2,), (2,), "SAME")

    w = jnp.array([1.0, 1.0, 3.0, 2.0, 5.0])  # padded to three windows
    apart, together = jnp.array([1.0, 2.0, 0, 0, 0]), jnp.ones(5)
    with pytest.raises(NoTaylorTermError, match="reduce_window_max"):
        terms(f, w, apart, None, 1)
    np.testing.assert_array_equal(terms(f, w, together, None, 1), [[1.0, 3.0, 5.0], [1.0] * 3])
    compiled = jax.jit(lambda d: terms(f, w, d, None, 1))(apart)
    np.testing.assert_array_equal(compiled[1], jax.jvp(lambda w: f(w, None), (w,), (apart,))[1])


def test_a_convolution_over_black_borders_passes_when_its_bias_stays():
    params = {"W": jnp.ones((2, 2, 1, 1)), "b": jnp.zeros(1)}
    images = jnp.zeros((2, 4, 4, 1)).at[:, 1, 1].set(1.0)

    def f(params, x):
        h = jax.nn.relu(convolve(x, params["W"]) + jnp.reshape(params["b"], (1, 1, 1, 1)))
        return jnp.sum(h, axis=(1, 2, 3))

    found = terms(f, params, {"W": jnp.ones((2, 2, 1, 1)), "b": None}, images, 2)
    np.testing.assert_array_equal(found, [[4.0, 4.0], [4.0, 4.0], [0.0, 0.0]])
    with pytest.raises(NoTaylorTermError, match="rows 0 and 1"):
        terms(f, params, params | {"b": jnp.ones(1)}, images, 1)


def test_what_cannot_be_differentiated_is_named(x64):
    def f(w, x):
        return w.at[jnp.array([0, 0])].multiply(w[:2])  # JAX has no derivative of this

    with pytest.raises(UnsupportedOperationError, match="'scatter-mul', which it cannot"):
        terms(f, jnp.ones(3), jnp.ones(3), None, 1)


def test_errors_name_the_first_leaf_that_differs(no_shape_checker):
    f, params, delta, x = problem("cnn", 9)
    with pytest.raises(ValueError, match=r"got \['W3'\] where `params` has \['W2'\]"):
        terms(f, params, {k: v for k, v in delta.items() if k != "W2"}, x, 1)
    with pytest.raises(ValueError, match=r"float32\[3\] at \['b1'\], got float32\[4\] there"):
        terms(f, params, delta | {"b1": jnp.ones(4)}, x, 1)
    with pytest.raises(ValueError, match=r"`new_params` must hold an array of floats at \['b1'\]"):
        expand(f, params, 1)(delta | {"b1": jnp.ones(3, int)}, x)
    with pytest.raises(ValueError, match="at its only leaf"):
        terms(f, jnp.ones(2), jnp.ones(3), x, 1)


def test_integers_and_arrays_in_place_of_none_are_refused(no_shape_checker):
    f, params, delta, x = problem("cnn", 9)
    with pytest.raises(
        ValueError, match=r"floats at \['b1'\], where `params` does, got int32\[3\]"
    ):
        terms(f, params, delta | {"b1": jnp.ones(3, int)}, x, 1)
    with pytest.raises(ValueError, match=r"None at \['c'\], where `params` is, got float32\[2\]"):
        terms(f, params | {"c": None}, delta | {"c": jnp.ones(2)}, x, 1)


def test_a_float64_model_says_what_to_do_when_jax_narrows_it():
    with jax.enable_x64(True):
        w = jnp.ones(2)
    g = linearize(lambda w, _: w**2, w)
    with pytest.raises(ValueError, match=r"got float32\[2\] there\. .* with jax\.enable_x64\(True"):
        jax.jit(lambda new: g(new, None))(np.ones(2))


@pytest.mark.parametrize("order", [-1, 1.5, True])
def test_orders_below_zero_are_refused(order, no_shape_checker):
    for call in (lambda: expand(mlp, [], order), lambda: terms(mlp, [], [], jnp.ones(1), order)):
        with pytest.raises(ValueError, match=r"`order` must be an integer >= 0, got order="):
            call()


def test_a_network_with_two_outputs_is_refused():
    with pytest.raises(ValueError, match="`f` must return one array of floats, got tuple"):
        terms(lambda w, _: (w, w), jnp.ones(2), jnp.ones(2), None, 1)  # pyright: ignore[reportArgumentType]  # on purpose
