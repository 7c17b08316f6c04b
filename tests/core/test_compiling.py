# SPDX-License-Identifier: Apache-2.0
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import pytest

from unlazy.core import compiling
from unlazy.kernels import empirical_ntk
from unlazy.train import fit_grid


@pytest.mark.parametrize("tuned", [False, True])
def test_threads_that_ask_together_get_one_compilation(compilations, monkeypatch, tuned):
    monkeypatch.setitem(compiling._UNTUNED, "cpu", {"xla_cpu_enable_fast_math": False})
    meeting = threading.Barrier(4)

    @jax.jit
    def triple(x):
        return 3 * x

    def ask(_):
        with jax.log_compiles(True):  # scoped settings do not reach other threads
            lowered = triple.lower(1.0)
            meeting.wait(timeout=60)
            return float(compiling.compiled(lowered, tuned=tuned)(2.0))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [6.0] * 4
    assert compilations.count("triple") == 1


def test_losses_that_differ_in_a_callback_alone_are_told_apart():
    def loss_of(offset):
        def add(value):
            return value + offset

        def loss(w, batch):
            shift = jax.pure_callback(add, jax.ShapeDtypeStruct((), jnp.float32), jnp.float32(0))
            return jnp.mean((batch @ w) ** 2) + jax.lax.stop_gradient(shift)

        return loss

    def trained(offset):
        results = fit_grid(
            loss_of(jnp.float32(offset)), jnp.ones(2), jnp.eye(2), learning_rates=[0.01], epochs=1
        )
        return float(results.table()["train"][0])

    assert trained(100.0) - trained(1.0) == pytest.approx(99.0, rel=1e-5)


@pytest.fixture
def untuned(monkeypatch):
    """Options for this machine's compiler too, which leave the results as they are."""
    monkeypatch.setitem(compiling._UNTUNED, "cpu", {"xla_cpu_enable_fast_math": False})


def test_an_option_that_another_compiler_does_not_know_is_left_out(monkeypatch):
    known = {"xla_cpu_enable_fast_math": False}
    monkeypatch.setitem(compiling._UNTUNED, "cpu", {"xla_of_another_version": True} | known)
    assert compiling._options(compiling._UNTUNED) == known
    monkeypatch.setitem(compiling._UNTUNED, "cpu", {"xla_of_another_version": True})
    assert compiling._options(compiling._UNTUNED) is None
    double = compiling.compiled(jax.jit(lambda x: 2 * x).lower(1.0), tuned=False)
    assert float(double(3.0)) == 6.0
    assert float(compiling.jit_untuned(lambda x: 2 * x)(jnp.ones(()))) == 2.0


def test_untuned_programs_are_compiled_once_and_run_within_others(compilations, untuned):
    @compiling.jit_untuned
    def cube(x, power):
        return x**power  # static, as for filter_jit

    x = jnp.arange(3.0)
    assert [float(value) for value in cube(x, 3)] == [0.0, 1.0, 8.0]
    assert [float(value) for value in cube(x + 1, 3)] == [1.0, 8.0, 27.0]
    assert compilations.count("cube") == 1
    within = {
        "jit": jax.jit(lambda x: cube(x, 3)),
        "jit, of a constant": jax.jit(lambda y: y + cube(x, 3) - x),
        "vmap": jax.vmap(lambda x: cube(x, 3)),
        "grad": jax.grad(lambda x: jnp.sum(cube(x, 3)) / 3),
    }
    expected = {name: x**3 for name in within} | {"grad": x**2}
    for name, function in within.items():
        assert jnp.allclose(function(x), expected[name]), name


def test_empirical_kernels_are_the_same_without_tuning(untuned):
    def f(w, x):
        return jnp.tanh(x @ w)

    w, x = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3), jnp.linspace(-1.0, 2.0, 8).reshape(4, 2)
    K = empirical_ntk(f, w, x)
    J = jax.vmap(lambda row: jax.jacobian(lambda w: f(w, row[None])[0])(w).reshape(3, -1))(x)
    assert jnp.allclose(K, jnp.einsum("iap,jbp->ijab", J, J), atol=1e-6)
