# SPDX-License-Identifier: Apache-2.0
"""Products of halves are the products, to the bounds that are stated."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.core.jaxprs import read, trace
from unlazy.kernels import empirical_ntk, empirical_ntk_diagonal, empirical_ntk_traced
from unlazy.kernels.empirical import features, gradient_products
from unlazy.kernels.empirical.gradient_products import (
    are_in_halves,
    outer_sums,
    product_with_weight,
)

OUTER_BOUND = 2.0**-15  # two remainders, and the product of small parts
INPUT_BOUND = 2.0**-22 + 2 * 2.0**-22  # the product of small parts, and their own rounding


def tf32(x):
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=10)


def rounded_value(x):
    """The rounded number, with the derivative of the number itself."""
    return x + jax.lax.stop_gradient(tf32(x) - x)


@jax.custom_vjp
def rounded_cotangent(x):
    return x


rounded_cotangent.defvjp(lambda x: (x, None), lambda _, dx: (tf32(dx),))


@pytest.fixture
def rounding(monkeypatch):
    """Backward passes as the units of a GPU make them: factors rounded, sums in float32."""
    exact = gradient_products._in_tf32

    def in_tf32(step, one, two):
        return [rounded_cotangent(exact(step, rounded_value(one), rounded_value(two))[0])]

    monkeypatch.setattr(gradient_products, "_in_tf32", in_tf32)


def test_halves_add_up_and_fit_the_units(getkey):
    x = jr.normal(getkey(), (1000,)) * 10.0 ** jr.uniform(getkey(), (1000,), minval=-9, maxval=9)
    high, low = gradient_products._split(x)
    np.testing.assert_array_equal(high + low, x)
    np.testing.assert_array_equal(tf32(high), high)
    assert float(jnp.max(jnp.abs(low / x))) <= 2.0**-11


@pytest.mark.parametrize("s", [1, 64, 1000])
def test_gradients_of_weights_are_within_their_bound(s, getkey):
    B = jr.normal(getkey(), (3, 20, s)) * 10.0 ** jr.uniform(getkey(), (3, 20, 1), minval=-6)
    A = jr.normal(getkey(), (3, s, 15))
    exact = np.asarray(B, np.float64) @ np.asarray(A, np.float64)
    scale = np.abs(np.asarray(B, np.float64)) @ np.abs(np.asarray(A, np.float64))
    gap = np.abs(np.asarray(outer_sums(B, A, in_halves=True), np.float64) - exact)
    assert np.max(gap / scale) < OUTER_BOUND + 1e-7 * s**0.5
    assert np.max(gap / scale) > 1e-7  # of halves indeed
    np.testing.assert_array_equal(outer_sums(B, A, in_halves=False), B @ A)


def conv(w, x):
    return jax.lax.conv_general_dilated(x[None], w, (2, 1), [(1, 1), (0, 2)])[0]


PRODUCTS = {
    "convolution": (conv, (5, 3, 3, 2), (3, 8, 7)),
    "inputs first": (lambda w, x: x @ w, (6, 4), (5, 6)),
    "weight first": (lambda w, x: w @ x, (4, 6), (6, 5)),
}


@pytest.mark.parametrize(("f", "of_weight", "of_input"), PRODUCTS.values(), ids=PRODUCTS)
def test_backward_pass_is_within_its_bound(f, of_weight, of_input, rounding, getkey):
    w, x = jr.normal(getkey(), of_weight), jr.normal(getkey(), of_input)
    program = trace(f, w, x)
    (place, step) = next(
        (k, s)
        for k, s in enumerate(program.steps)
        if s.eqn.primitive.name in ("dot_general", "conv_general_dilated")
    )
    side = step.operands.index(program.arguments[0])

    def run(product, w, x):
        def rule(k, step, operands):
            return product(operands) if k == place else step(*operands)

        return read(program.run([w, x], rule), program.results[0])

    out, pull = jax.vjp(partial(run, lambda both: product_with_weight(step, side, both)), w, x)
    np.testing.assert_array_equal(out, f(w, x))
    dz = jr.normal(getkey(), out.shape)
    dw, dx = pull(dz)
    with jax.enable_x64(True):
        wide = [jnp.asarray(np.asarray(a), jnp.float64) for a in (w, x, dz)]
        exact = jax.vjp(f, *wide[:2])[1](wide[2])
        scale = jax.vjp(f, *map(jnp.abs, wide[:2]))[1](jnp.abs(wide[2]))[1]
    np.testing.assert_allclose(dw, exact[0], atol=1e-5)
    gap = np.abs(np.asarray(dx, np.float64) - np.asarray(exact[1])) / np.asarray(scale)
    assert np.max(gap) < INPUT_BOUND + 5e-7  # the sums are rounded as well
    _, once = jax.vjp(partial(run, lambda both: gradient_products._in_tf32(step, *both)), w, x)
    gap = np.abs(np.asarray(once(dz)[1], np.float64) - np.asarray(exact[1])) / np.asarray(scale)
    assert np.max(gap) > 5e-5  # one product in TF32


def test_which_gradients_are_rounded(monkeypatch):
    class Device:
        def __init__(self, capability):
            self.compute_capability = capability

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for capability, expected in (("9.0", True), ("8.0", True), ("7.5", False), ("gfx90a", False)):
        monkeypatch.setattr(jax, "local_devices", lambda c=capability: [Device(c)])
        assert are_in_halves(128, np.dtype("float32")) is expected
    monkeypatch.setattr(jax, "local_devices", lambda: [Device("9.0")])
    assert not are_in_halves(127, np.dtype("float32"))
    assert not are_in_halves(128, np.dtype("float64"))
    monkeypatch.undo()
    assert not are_in_halves(128, np.dtype("float32"))  # a processor


class Network(eqx.Module):
    conv1: eqx.nn.Conv2d
    conv2: eqx.nn.Conv2d
    head: eqx.nn.Linear

    def __init__(self, key):
        keys = jr.split(key, 3)
        self.conv1 = eqx.nn.Conv2d(3, 8, 3, padding=1, key=keys[0])
        self.conv2 = eqx.nn.Conv2d(8, 8, 3, stride=2, key=keys[1])
        self.head = eqx.nn.Linear(8, 5, key=keys[2])

    def __call__(self, x):
        x = jax.nn.gelu(self.conv2(jax.nn.gelu(self.conv1(x))))
        return self.head(jnp.mean(x, axis=(1, 2)))


@pytest.fixture
def halved(monkeypatch, rounding):
    jax.clear_caches()
    monkeypatch.setattr(features, "are_in_halves", lambda _, dtype: dtype == np.float32)
    yield
    jax.clear_caches()


def _kernels(f, model, x):
    return {
        "full": empirical_ntk(f, model, x),
        "traced": empirical_ntk_traced(f, model, x),
        "sum": empirical_ntk_traced(f, model, x, sum_of_outputs=True),
        "diagonal": empirical_ntk_diagonal(f, model, x),
        "sign": empirical_ntk_traced(f, model, x, sign="both"),
    }


def test_kernels_of_rounded_gradients(halved, monkeypatch, getkey):
    model, x = Network(getkey()), jr.normal(getkey(), (6, 3, 9, 9))

    def f(model, x):
        return jax.vmap(model)(x)

    rounded = _kernels(f, model, x)
    monkeypatch.undo()
    jax.clear_caches()
    for name, K in _kernels(f, model, x).items():
        gap = float(jnp.max(jnp.abs(rounded[name] - K)) / jnp.max(jnp.abs(K)))
        assert gap <= (0 if name == "sign" else 2.0**-15), name
        assert name == "sign" or gap > 1e-8, name
