# SPDX-License-Identifier: Apache-2.0
"""Convolutions in another order of axes compute the same, wherever they stand."""

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from jax import lax
from jax.extend.core.primitives import conv_general_dilated_p
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from unlazy.core.convolutions import looped
from unlazy.core.jaxprs import equations, programs_in
from unlazy.kernels import empirical_ntk
from unlazy.linalg.extremes import extreme_eigen
from unlazy.train import fit, fit_grid

_FAST = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


def _orders(closed: Any, *, loops: bool = True) -> list[bool]:
    """Whether each convolution, of those in loops, has the order of axes that is fast."""
    if loops:
        names = ("scan", "while")
        found = [e for e in equations(closed.jaxpr) if e.primitive.name in names]
        inner = [e for loop in found for program in programs_in(loop) for e in equations(program)]
    else:
        inner = list(equations(closed.jaxpr))
    numbers = [
        e.params["dimension_numbers"] for e in inner if e.primitive is conv_general_dilated_p
    ]
    return [n.lhs_spec == n.out_spec == _FAST[len(n.lhs_spec)] for n in numbers]


CASES = {
    "channels first": ({"window_strides": (1, 1), "padding": "SAME"}, (2, 3, 6, 5), (4, 3, 3, 2)),
    "strides": ({"window_strides": (2, 3), "padding": "VALID"}, (2, 3, 7, 8), (4, 3, 3, 2)),
    "unlike edges": (
        {"window_strides": (1, 2), "padding": [(0, 2), (3, 1)], "rhs_dilation": (2, 1)},
        (2, 3, 7, 8),
        (4, 3, 3, 2),
    ),
    "transposed": (
        {"window_strides": (1, 1), "padding": [(2, 1), (1, 2)], "lhs_dilation": (2, 3)},
        (2, 3, 4, 5),
        (4, 3, 3, 2),
    ),
    "groups": (
        {"window_strides": (1, 1), "padding": "SAME", "feature_group_count": 3},
        (2, 6, 5, 4),
        (9, 2, 3, 3),
    ),
    "line": ({"window_strides": (2,), "padding": "SAME"}, (2, 3, 9), (4, 3, 3)),
    "solid": ({"window_strides": (1, 1, 1), "padding": "SAME"}, (2, 2, 4, 3, 5), (3, 2, 2, 3, 1)),
    "samples last": (
        {
            "window_strides": (1, 1),
            "padding": "SAME",
            "dimension_numbers": ("HWCN", "IOHW", "CHWN"),
        },
        (6, 5, 3, 2),
        (3, 4, 3, 3),
    ),
}


@pytest.mark.parametrize(("options", "shape", "kernel"), CASES.values(), ids=CASES)
def test_convolution_and_its_gradients_in_the_fast_order(options, shape, kernel):
    x, w = jr.normal(jr.key(0), shape), jr.normal(jr.key(1), kernel)

    def conv(w, x):
        return lax.conv_general_dilated(x, w, **options)

    def both(w, x):
        out, pull = jax.vjp(conv, w, x)
        return out, pull(jnp.cos(out))

    closed = jax.make_jaxpr(looped(both))(w, x)
    assert len(_orders(closed, loops=False)) == 3
    assert all(_orders(closed, loops=False))
    for got, expected in zip(
        jax.tree.leaves(jax.jit(looped(both))(w, x)), jax.tree.leaves(both(w, x)), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=1e-5 * float(jnp.max(jnp.abs(expected))))


def test_groups_of_a_batch():
    """As the gradient of a grouped convolution, or one of many kernels, is."""
    x, w = jr.normal(jr.key(0), (4, 3, 6, 5)), jr.normal(jr.key(1), (8, 3, 3, 2))

    def conv(w, x):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", batch_group_count=2)

    np.testing.assert_allclose(looped(conv)(w, x), conv(w, x), atol=1e-5)


@functools.partial(jax.custom_jvp, nondiff_argnums=())
def _doubled(x):
    return 2 * lax.conv_general_dilated(x, jnp.ones((3, 3, 3, 3)), (1, 1), "SAME")


_doubled.defjvp(lambda primals, tangents: (_doubled(*primals), 7 * tangents[0]))  # on purpose


def _nested(w, x):
    """Convolutions in a loop, a branch, a jitted function, a checkpoint and a derivative's rule."""
    conv = jax.checkpoint(lambda x: lax.conv_general_dilated(x, w, (1, 1), "SAME"))

    def turn(x, k):
        x = lax.cond(k > 0, jax.jit(conv), lambda x: -conv(x), x)
        return x / jnp.max(jnp.abs(x)), jnp.sum(x)

    x, sums = lax.scan(turn, _doubled(x), jnp.arange(3))
    x = lax.while_loop(lambda x: jnp.max(x) < 5, lambda x: 2 * conv(x) + 1, x)
    return x, sums


def test_convolutions_within_everything():
    w, x = jr.normal(jr.key(0), (3, 3, 2, 2)), jr.normal(jr.key(1), (2, 3, 4, 4))
    closed = jax.make_jaxpr(looped(_nested))(w, x)
    assert len(_orders(closed, loops=False)) == 4
    assert all(_orders(closed, loops=False))
    for got, expected in zip(looped(_nested)(w, x), _nested(w, x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_own_derivatives_are_kept():
    x = jr.normal(jr.key(1), (2, 3, 4, 4))
    gradient = jax.grad(lambda x: jnp.sum(looped(_doubled)(x)))(x)
    np.testing.assert_array_equal(gradient, jnp.full(x.shape, 7.0))


def test_body_that_is_a_pytree_of_arrays():
    matvec = Partial(jnp.matmul, jnp.eye(2))
    np.testing.assert_array_equal(
        jax.jit(lambda v: lax.map(looped(matvec), v))(jnp.eye(2)), jnp.eye(2)
    )


def test_body_without_convolutions_is_left_as_it_is():
    def body(tree, key):
        return {"sum": tree["a"] @ tree["b"] + jr.normal(key, (2,)), "same": tree["a"]}

    tree = {"a": jnp.eye(2), "b": jnp.arange(2.0)}
    got, expected = looped(body)(tree, key=jr.key(0)), body(tree, jr.key(0))
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, got, expected)


def test_body_reads_what_is_traced_around_it():
    w, xs = jr.normal(jr.key(0), (3, 3, 2, 2)), jr.normal(jr.key(1), (4, 2, 3, 4, 4))

    @jax.jit
    def summed(w, xs):
        conv = looped(lambda x: lax.conv_general_dilated(x, w, (1, 1), "SAME"))
        return jnp.sum(lax.map(conv, xs))

    alone = sum(jnp.sum(lax.conv_general_dilated(x, w, (1, 1), "SAME")) for x in xs)
    np.testing.assert_allclose(summed(w, xs), alone, atol=1e-3)  # of 384 terms of order 5


def _loss(w, data):
    x, y = data
    h = jax.nn.relu(lax.conv_general_dilated(x, w["k"], (1, 1), "SAME"))
    return jnp.mean((jnp.mean(h, axis=(2, 3)) @ w["a"] - y) ** 2)


_PARAMS = {"k": jr.normal(jr.key(0), (4, 3, 3, 3)), "a": jr.normal(jr.key(1), (4,))}
_DATA = jr.normal(jr.key(2), (8, 3, 6, 6)), jr.normal(jr.key(3), (8,))


def test_training_takes_the_steps_that_it_would_take_alone():
    history = fit(_loss, _PARAMS, _DATA, optimizer=optax.sgd(0.1), steps=4)
    params = _PARAMS
    for _ in range(4):
        gradient = jax.grad(_loss)(params, _DATA)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    jax.tree.map(
        lambda got, expected: np.testing.assert_allclose(got, expected, atol=1e-6),
        history.params,
        params,
    )


def _hessian(v):
    flat, unravel = ravel_pytree(_PARAMS)
    gradient = jax.grad(lambda flat: _loss(unravel(flat), _DATA))
    return jax.jvp(gradient, (flat,), (v.astype(flat.dtype),))[1].astype(v.dtype)


def _slope(params):
    return jnp.sum(jax.grad(_loss)(params, _DATA)["k"])


def _kernel():
    def f(w, x):
        h = jax.nn.relu(lax.conv_general_dilated(x, w["k"], (1, 1), "SAME"))
        return jnp.mean(h, axis=(2, 3)) @ w["a"]

    return empirical_ntk(f, _PARAMS, _DATA[0], implementation="ntk-vector")


INSTRUMENTS = {
    "fit": lambda: fit(
        _loss, _PARAMS, _DATA, optimizer=optax.sgd(0.01), steps=2, record={"slope": _slope}
    ),
    "grid": lambda: fit_grid(
        _loss, _PARAMS, _DATA, learning_rates=[0.1, 0.01], epochs=2, batch_size=4, key=jr.key(0)
    ),
    "eigenvalues": lambda: extreme_eigen(_hessian, jnp.ones(112), steps=4),
    "kernel": _kernel,
}


@pytest.fixture
def programs(tmp_path):
    """A folder to which JAX writes every program that it compiles."""
    jax.clear_caches()
    jax.config.update("jax_dump_ir_to", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_dump_ir_to", None)


@pytest.mark.parametrize("instrument", INSTRUMENTS.values(), ids=INSTRUMENTS)
def test_instruments_have_no_slow_convolution_in_a_loop(instrument, programs):
    instrument()
    texts = [path.read_text() for path in programs.iterdir()]
    looping = [text for text in texts if "stablehlo.while" in text]
    orders = [found for text in looping for found in re.findall(r"dim_numbers = (\[.*?\])x", text)]
    assert orders
    assert set(orders) == {"[b, 0, 1, f]"}
