# SPDX-License-Identifier: Apache-2.0
"""Kernels and Taylor terms of models of Flax Linen, Flax NNX and Equinox, against brute force."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unlazy as ul

pytest.importorskip("flax")

from . import real_models  # it needs flax

NORMED = [name for name in real_models.CASES if "batch norm" in name]
# Compiled for seconds each; one transformer and one GRU are in every run.
SLOW = ("nnx transformer", "nnx GRU", "equinox transformer", "equinox GRU")
CASES = [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
    for name in real_models.CASES
]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    with jax.enable_x64(True):
        yield real_models.CASES[request.param]()


@pytest.fixture(scope="module", params=NORMED)
def normed(request):
    """The models with running statistics."""
    with jax.enable_x64(True):
        yield real_models.CASES[request.param]()


def jacobian(case, x):
    """The Jacobian of the outputs with respect to the parameters alone, (n, c, p)."""
    jac = jax.jit(jax.jacrev(lambda weights: case.plain(weights, x)))(case.weights)
    return np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(jac)], -1)


def nested_terms(case, x, order):
    """The terms by `jax.jvp` of `jax.jvp` of ..., along the line of the parameters alone."""

    def along(t):
        start, end = case.weights, case.end_weights
        return case.plain(jax.tree.map(lambda a, b: a + t * (b - a), start, end), x)

    rows, current = [], along
    for k in range(order + 1):
        rows.append(jax.jit(current)(jnp.zeros(())) / math.factorial(k))
        current = slope(current)
    return jnp.stack(rows)


def slope(function):
    return lambda t: jax.jvp(function, (t,), (jnp.ones_like(t),))[1]


def test_the_kernels_are_those_of_the_jacobian(case):
    x1, x2 = case.inputs(3), case.inputs(2, seed=1, scale=1.7)
    J1, J2 = np.split(jacobian(case, jnp.concatenate([x1, x2])), [3])
    full = np.einsum("acp,bdp->abcd", J1, J2)
    close = {"rtol": case.rounding, "atol": case.rounding * np.abs(full).max()}
    kernel = ul.kernels.empirical_ntk(case.f, case.params, x1, x2)
    np.testing.assert_allclose(kernel, full, **close)
    traced = ul.kernels.empirical_ntk_traced(case.f, case.params, x1, x2)
    np.testing.assert_allclose(traced, np.einsum("abcc->ab", full), **close)
    diagonal = ul.kernels.empirical_ntk_diagonal(case.f, case.params, x2)
    np.testing.assert_allclose(diagonal, np.einsum("acp,adp->acd", J2, J2), **close)


def test_the_taylor_terms_are_those_of_nested_derivatives(case):
    x = case.inputs(3, seed=2)
    delta = ul.taylor.displacement(case.params, case.end)
    found = ul.taylor.terms(case.f, case.params, delta, x, 3)
    expected = nested_terms(case, x, 3)
    for k in range(4):
        scale = np.abs(expected[k]).max()
        np.testing.assert_allclose(
            found[k], expected[k], rtol=case.rounding, atol=case.rounding * scale
        )


def test_the_taylor_model_is_the_sum_of_the_terms(normed):
    x = normed.inputs(2, seed=3)
    delta = ul.taylor.displacement(normed.params, normed.end)
    model = ul.taylor.expand(normed.f, normed.params, 2)
    # Of the end, the parameters alone: the statistics stay at the start.
    new = jax.tree.map(
        lambda start, d: None if d is None else start + d,
        *(normed.params, delta),
        is_leaf=lambda leaf: leaf is None,
    )
    expected = jnp.sum(ul.taylor.terms(normed.f, normed.params, delta, x, 2), axis=0)
    np.testing.assert_allclose(model(new, x), expected, rtol=1e-12, atol=1e-12)


def test_training_moves_the_parameters_as_gradient_descent_does(normed):
    x, rate = normed.inputs(3, seed=4), 0.01

    def loss(params, x):
        return jnp.mean(normed.f(params, x) ** 2)

    history = ul.train.fit(loss, normed.params, x, optimizer=optax.sgd(rate), steps=1)
    gradient = jax.grad(lambda weights: jnp.mean(normed.plain(weights, x) ** 2))(normed.weights)
    moved = ul.taylor.displacement(normed.params, history.params)
    pairs = zip(jax.tree.leaves(moved), jax.tree.leaves(gradient), strict=True)
    for step, slope_ in pairs:
        np.testing.assert_allclose(step, -rate * slope_, rtol=1e-8, atol=1e-12)
    frozen = eqx.filter(ul.nets.partition(normed.params, None)[1], eqx.is_array)
    after = eqx.filter(ul.nets.partition(history.params, None)[1], eqx.is_array)
    for before, end in zip(jax.tree.leaves(frozen), jax.tree.leaves(after), strict=True):
        assert (before == end).all()
    assert len(repr(history).splitlines()) == 2
