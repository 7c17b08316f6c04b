# SPDX-License-Identifier: Apache-2.0
"""Where pieces of a function meet: what is compared, what is reported, and what is raised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.taylor import NoTaylorTermError, expand, terms

PLACES = jnp.array([0, 2, 0, 1, 2])


@jax.custom_jvp
def compared_relu(x):
    return x * (x > 0).astype(x.dtype)


@compared_relu.defjvp
def compared_relu_rule(primals, tangents):
    # The rule finds out where it is by comparing x with a recomputed copy.
    (x,), (dx,) = primals, tangents
    y = x * (x > 0).astype(x.dtype)
    return y, jnp.where(y == x, dx, jnp.zeros_like(dx))


def twice_compared(f, slope):
    @jax.custom_jvp
    def relu(x):
        return compared_relu(f(x))

    @relu.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        y = compared_relu(f(x))  # itself known only through its derivative
        # The same in every coefficient, but for their rounding.
        return y, jnp.where(y == f(x), slope(x) * dx, jnp.zeros_like(dx))

    return relu


relu_of_sin = twice_compared(jnp.sin, jnp.cos)
relu_of_ratio = twice_compared(lambda x: x / (2 - x), lambda x: 2 / (2 - x) ** 2)


def whole(w):
    return w.astype(int).astype(w.dtype)


def both_signs(w):
    return jnp.stack([w[0], -w[0]])


# Functions of five numbers, none at a kink.
CHOOSING = {
    "segment_max": lambda w: jax.ops.segment_max(jnp.sin(w), PLACES, 3),
    "segment_min": lambda w: jax.ops.segment_min(jnp.sin(w), PLACES, 3),
    "at max": lambda w: (w**2).at[PLACES].max(jnp.sin(3 * w)),
    "at min": lambda w: (w**2).at[PLACES].min(jnp.sin(3 * w)),
    "rows at max": lambda w: jnp.outer(w, w).at[jnp.array([0, 0, 7])].max(jnp.outer(w[:3], w**2)),
    "compared relu": compared_relu,
    "compared relu of sin": lambda w: compared_relu(jnp.sin(4 * w)),
    "twice compared sin": relu_of_sin,
    "twice compared ratio": relu_of_ratio,
    "argmax": lambda w: w[jnp.argmax(jnp.sin(3 * w))] * w,
    "truncated": lambda w: whole(5 * w) * w,
    "cummax": lambda w: jax.lax.cummax(jnp.sin(5 * w)),
    "relu": lambda w: jax.nn.relu(jnp.sin(4 * w)),
    "softplus": lambda w: jax.nn.softplus(w),
}
POINT, MOVE = np.array([0.3, -0.7, 1.1, 0.45, -1.3]), np.array([1.0, -0.5, 0.7, 2.0, 0.3])


@pytest.mark.parametrize("name", CHOOSING)
def test_a_choice_far_from_its_tie_has_the_terms_of_nested_jvp(name, nested_terms, x64):
    w, d = jnp.asarray(POINT), jnp.asarray(MOVE)

    def f(w, _):
        return CHOOSING[name](w)

    ours = terms(f, w, d, None, 4)
    theirs = jax.jit(lambda w, d: nested_terms(f, w, d, None, 4))(w, d)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    compiled = jax.jit(lambda w, d: terms(f, w, d, None, 2))(w, d)
    np.testing.assert_allclose(compiled, ours[:3], rtol=1e-12, atol=1e-14)
    for order in (1, 2, 3):
        shorter = terms(f, w, d, None, order)
        np.testing.assert_allclose(shorter, ours[: order + 1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    "f",
    [
        compared_relu,
        relu_of_sin,
        relu_of_ratio,
        lambda w: jnp.zeros(2).at[jnp.array([0, 1, 1])].max(w),
        lambda w: jnp.zeros(3).at[jnp.array([0, 1, 1])].min(w),
        lambda w: both_signs(w)[jnp.argmax(both_signs(w))],
        lambda w: both_signs(w)[jnp.argmin(both_signs(w))],
        lambda w: whole(w + 1) * (w**2 + 1),
    ],
    ids=[
        *("relu", "relu of sin", "relu of a ratio", "scatter max", "scatter min"),
        *("argmax", "argmin", "truncated"),
    ],
)
def test_a_choice_at_its_tie_raises_at_every_order_and_follows_jax_on_demand(f, order):
    w, d = jnp.array([0.0, 0.5, -0.5]), jnp.array([1.0, 2.0, 3.0])
    with pytest.raises(NoTaylorTermError, match="no term of order 1"):
        terms(lambda w, _: f(w), w, d, None, order)
    compiled = jax.jit(lambda w, d: terms(lambda w, _: f(w), w, d, None, order))(w, d)
    chosen = terms(lambda w, _: f(w), w, d, None, order, at_kinks="jax")
    np.testing.assert_allclose(chosen, compiled, rtol=1e-6)
    np.testing.assert_allclose(chosen[1], jax.jvp(f, (w,), (d,))[1], rtol=1e-6)


def test_updates_that_move_together_are_no_kink_of_a_segment():
    found = terms(
        lambda w, _: jax.ops.segment_max(w**2, jnp.array([0, 0, 1]), 2),
        jnp.array([1.0, -1.0, 3.0]),
        jnp.array([2.0, -2.0, 1.0]),
        None,
        3,
    )
    np.testing.assert_allclose(found, [[1, 9], [4, 6], [4, 1], [0, 0]])


def test_a_tie_that_parts_at_second_order_keeps_the_first_term():
    def f(w, _):
        return jax.ops.segment_max(jnp.stack([w, w + w**2 / 2]), jnp.array([0, 0]), 1)

    w, d = jnp.zeros(2), jnp.array([1.0, 0.0])
    np.testing.assert_allclose(terms(f, w, d, None, 2)[1:, 0], [[1, 0], [0.5, 0]])


def test_pieces_that_fit_together_have_the_terms_of_the_whole():
    # JAX's own slope at 0 is 0 here; that of the function, from both sides, is 1.
    for f in (
        lambda w, _: jax.nn.relu(w) - jax.nn.relu(-w),
        lambda w, _: jnp.where(w == 0, jnp.zeros_like(w), w),
    ):
        found = terms(f, jnp.zeros(2), jnp.array([1.0, 2.0]), None, 2)
        np.testing.assert_array_equal(found, [[0, 0], [1, 2], [0, 0]])


def guarded(w):
    zero = w == 0
    return jnp.where(zero, 1.0, jnp.sin(w) / jnp.where(zero, 1.0, w))


def test_a_quotient_that_is_zero_by_zero_twice_over_has_its_limit():
    def f(w, _):
        zero = w == 0
        return jnp.where(zero, 0.5, (1 - jnp.cos(w)) / jnp.where(zero, 1.0, w) ** 2)

    found = terms(f, jnp.zeros(1), jnp.ones(1), None, 4).ravel()
    np.testing.assert_allclose(found, [1 / 2, 0, -1 / 24, 0, 1 / 720], rtol=1e-5)


@pytest.mark.parametrize("f", [guarded, lambda w: jnp.sinc(w / np.pi)], ids=["guarded", "sinc"])
def test_a_guarded_quotient_has_the_terms_of_its_limit(f):
    w, d = jnp.array([0.0, 0.0, 0.5]), jnp.array([1.0, 2.0, 0.0])
    np.testing.assert_array_equal(terms(lambda w, _: f(w), w, d, None, 0), f(w)[None])
    found = terms(lambda w, _: f(w), w, d, None, 4)[:, :2]
    wanted = np.outer([1, 0, -1 / 6, 0, 1 / 120], [1, 1]) * np.vander([1, 2], 5, increasing=True).T
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_order_zero_is_the_value_whatever_kinks_there():
    w = jnp.array([0.0, 2.0])
    for f in (jnp.floor, jnp.sign, jax.nn.relu, lambda w: jnp.where(w == 0, 5.0, w)):
        np.testing.assert_array_equal(terms(lambda w, _, f=f: f(w), w, w + 1, None, 0)[0], f(w))
        np.testing.assert_array_equal(expand(lambda w, _, f=f: f(w), w, 0)(w + 1, None), f(w))


def test_a_limit_that_cannot_be_computed_is_said_so():
    def f(w, _):  # 0/0 three times over
        zero = w == 0
        return jnp.where(zero, 1 / 6, (w - jnp.sin(w)) / jnp.where(zero, 1.0, w) ** 3)

    with pytest.raises(
        NoTaylorTermError, match=r"limit .* order 1 at a kink \(eq\) cannot be comp"
    ):
        terms(f, jnp.zeros(2), jnp.ones(2), None, 2)


def test_a_value_apart_from_both_sides_is_a_jump():
    with pytest.raises(NoTaylorTermError, match="outputs jump"):
        terms(lambda w, _: jnp.where(w == 0, 5.0, w), jnp.zeros(2), jnp.ones(2), None, 1)


def test_a_row_of_nan_leaves_the_others_alone():
    x = jnp.array([[1.0, 1.0], [jnp.nan, 1.0], [1.0, -1.0]])
    w, d = jnp.ones(2), jnp.array([1.0, 0.5])
    found = terms(lambda w, x: jax.nn.relu(x @ w) ** 3, w, d, x, 2)
    np.testing.assert_allclose(found[:, 0], [8, 18, 13.5])
    assert np.all(np.isnan(found[:, 1]))
    np.testing.assert_array_equal(found[:, 2], 0)
    with pytest.raises(NoTaylorTermError, match=r"no term of order 3.* in row 2\. Move"):
        terms(lambda w, x: jax.nn.relu(x @ w) ** 3, w, d, x, 3)


@pytest.mark.parametrize("slope", [0.0, 0.8])
def test_a_kink_in_half_precision_is_seen(slope):
    w = jnp.zeros(2, jnp.bfloat16)
    with pytest.raises(NoTaylorTermError, match="no term of order 1"):
        terms(lambda w, _: jnp.where(w > 0, w, slope * w), w, w + 1, None, 1)
    assert terms(lambda w, _: jax.nn.relu(w) ** 2, w, w + 1, None, 1).dtype == jnp.bfloat16


def test_an_image_with_an_empty_background_goes_through_on_demand():
    def f(params, x):
        h = jax.nn.relu(x * params["w"] + params["b"])
        return jnp.sum(h, axis=1)

    params = {"w": jnp.array(2.0), "b": jnp.array(0.0)}
    delta = jax.tree.map(jnp.ones_like, params)
    x = jnp.array([[1.0, 0.0], [0.0, 3.0]])
    with pytest.raises(NoTaylorTermError, match="pass at_kinks='jax'"):
        terms(f, params, delta, x, 1)
    found = terms(f, params, delta, x, 1, at_kinks="jax")
    np.testing.assert_array_equal(found, [[2.0, 6.0], [2.0, 4.0]])  # the zeros stay behind
    new = jax.tree.map(jnp.add, params, delta)
    model = expand(f, params, 1, at_kinks="jax")
    np.testing.assert_array_equal(model(new, x), [4.0, 10.0])
    assert model != expand(f, params, 1)
    assert model == expand(f, params, 1, at_kinks="jax")
    with pytest.raises(NoTaylorTermError, match="pass at_kinks='jax'"):
        expand(f, params, 1)(new, x)


def test_the_closed_form_takes_its_slope_at_a_kink_on_demand():
    net = TwoLayer(inputs=2, width=4)
    params = TwoLayerParams(jnp.zeros((4, 2)), jnp.ones(4))
    delta = TwoLayerParams(jnp.ones((4, 2)), jnp.zeros(4))
    found = terms(net, params, delta, jnp.eye(2), 1, at_kinks="jax")
    np.testing.assert_allclose(found[1], [2.0, 2.0])  # slope 1 at 0: four neurons over sqrt(4)


def test_other_words_for_kinks_are_refused(no_shape_checker):
    for call in (
        lambda: terms(lambda w, _: w, jnp.ones(1), jnp.ones(1), None, 1, at_kinks="zero"),  # pyright: ignore[reportArgumentType]  # on purpose
        lambda: expand(lambda w, _: w, jnp.ones(1), 1, at_kinks="zero"),  # pyright: ignore[reportArgumentType]  # on purpose
    ):
        with pytest.raises(ValueError, match="`at_kinks` must be"):
            call()
