# SPDX-License-Identifier: Apache-2.0
"""What functions read from NumPy arrays of 64 bits neither breaks here nor breaks their owner."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.core.float64 import float64
from unlazy.core.sheltering import Sheltered, sheltered

WIDE = np.arange(3.0)
SCALE = 2.0


def fresh(n=40, d=5):
    """Arrays that no trace has seen."""
    x = np.random.default_rng(0).standard_normal((n, d))
    return x, x[:, 0].copy()


def certify(loss):
    return ul.curvature.certify(loss, jnp.ones(5), key=jr.key(0)).loss


def dynamics(loss):
    flow = ul.dynamics.LossDynamics.from_gram(np.eye(5), np.ones(5), lambda u, _: loss(u))
    return flow.at_step(0).loss


def extremes(loss):
    return ul.curvature.extreme_eigenvalues(loss, jnp.ones(5), key=jr.key(0)).largest


@pytest.mark.parametrize("instrument", [certify, dynamics, extremes])
@pytest.mark.parametrize("users_first", [False, True])
def test_a_loss_that_reads_float64_arrays_goes_on_in_both_precisions(instrument, users_first):
    x, y = fresh()

    def loss(w):
        return jnp.mean((x @ w - y) ** 2)

    with float64():
        copied = x.copy(), y.copy()
        expected = instrument(lambda w: jnp.mean((jnp.asarray(copied[0]) @ w - copied[1]) ** 2))
    users = jax.jit(loss)
    if users_first:
        users(jnp.ones(5))
    assert instrument(loss) == pytest.approx(expected, rel=1e-12)  # float64, also of what is read
    assert users(jnp.ones(5)) == pytest.approx(np.mean((x.sum(1) - y) ** 2), rel=1e-5)
    assert jax.jit(jnp.sum)(y) == pytest.approx(y.sum(), rel=1e-4)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_kernel_that_reads_float64_arrays_goes_on_in_both_precisions(jitted):
    x, y = fresh()
    mean = x.mean(0)

    def kernel(a, b=None):
        a, b = a - mean[None], (a if b is None else b) - mean[None]
        return jnp.exp(-jnp.sum((a[:, None] - b[None]) ** 2, axis=-1))

    apart = x - mean
    K = np.exp(-np.sum((apart[:, None] - apart[None]) ** 2, axis=-1))
    users = jax.jit(kernel) if jitted else kernel
    assert users(jnp.asarray(x, "float32")).shape == (40, 40)
    fitted = ul.kernels.KernelRegression(users, ridge=0.1).fit(x, y)
    expected = K @ np.linalg.solve(K + 0.1 * np.eye(40), y)
    np.testing.assert_allclose(fitted.predict(x), expected, atol=1e-9)
    H = ul.kernels.operator(users, x)
    assert ul.labels.energy(H, y) == pytest.approx(y @ np.linalg.solve(K, y), rel=1e-6)
    assert users(jnp.asarray(x[:7], "float32")).shape == (7, 7)
    assert jax.jit(jnp.sum)(mean) == pytest.approx(mean.sum(), abs=1e-4)


def reads_a_global(w):
    return SCALE * jnp.sum(w * WIDE)


def calls_one_that_reads(w):
    return reads_a_global(w) + 1


def reads_within(w):
    return jax.tree.reduce(jnp.add, jax.tree.map(lambda leaf: jnp.sum(leaf * WIDE), [w, w]))


def counts_down(n, w):
    return w @ WIDE if n == 0 else counts_down(n - 1, w)


def has_defaults(w, wide=WIDE, *, more=(WIDE, {"wide": [WIDE]})):
    return jnp.sum(w * wide * more[0] * more[1]["wide"][0])


@pytest.mark.parametrize(
    "function",
    [
        reads_a_global,
        calls_one_that_reads,
        reads_within,
        has_defaults,
        functools.partial(counts_down, 3),
        functools.partial(lambda wide, w: jnp.sum(w * wide), WIDE),
        jax.jit(reads_a_global),
        jax.vmap(lambda w: w * WIDE.sum()),
        jax.vmap(jax.grad(lambda w: w**2 * jnp.sum(jnp.asarray(WIDE)))),
    ],
)
def test_what_is_read_is_found_and_has_the_same_values(function):
    w = jnp.array([1.0, -2.0, 3.0], "float32")
    apart = sheltered(function)
    assert isinstance(apart, Sheltered)
    assert (apart, hash(apart)) == (sheltered(function), hash(sheltered(function)))
    np.testing.assert_allclose(apart(w), function(w), rtol=1e-6)
    with float64():
        closed = jax.make_jaxpr(apart)(jnp.ones(3))
    views = [c for c in closed.consts if np.shape(c) == (3,)]
    assert all(c is not WIDE for c in views)
    np.testing.assert_allclose(jax.jit(jnp.sum)(WIDE), 3.0)  # the trace above still lives


def test_numbers_and_contents_are_read_at_each_call(monkeypatch):
    wide = np.ones(3)
    apart, inner = sheltered(reads_a_global), sheltered(lambda w: jnp.sum(w * wide))
    assert (apart(jnp.ones(3)), inner(jnp.ones(3))) == (6.0, 3.0)
    monkeypatch.setitem(reads_a_global.__globals__, "SCALE", 5.0)
    wide[0] = 10.0
    assert (apart(jnp.ones(3)), inner(jnp.ones(3))) == (15.0, 12.0)


@jax.custom_jvp
def with_a_rule(w):
    return jnp.sum(w * WIDE)


def loops(w):
    return w


ITSELF: list = [loops]
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    "function",
    [
        ul.kernels.relu_gram,
        functools.partial(ul.kernels.ntk, depth=2),
        ul.nets.TwoLayer(inputs=3, width=4),
        ul.activation("tanh"),
        jnp.tanh,
        np.tanh,
        len,
        with_a_rule,  # whose rule a copy would lose
        lambda w: w * jnp.ones(3) * np.ones(3, "float32"),
        lambda w: ITSELF and w,
    ],
)
def test_whatever_reads_no_wide_array_stays_itself(function):
    assert sheltered(function) is function
