# SPDX-License-Identifier: Apache-2.0
"""A computation that begins with a function as it was gives what the function is now."""

import types
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.core import guesses
from unlazy.core.filtering import jit_filtered
from unlazy.core.guesses import begun
from unlazy.kernels import empirical_ntk_traced

W, X = jr.normal(jr.key(0), (3, 2)), jr.normal(jr.key(1), (6, 3))


class Begun:
    """`f(w, x)`, compiled, with what `begun` did for it."""

    def __init__(self):
        self.traces = self.launches = 0

        def traced(f, w, x):
            self.traces += 1
            return f(w, x)

        self.jitted = jit_filtered(traced)

    def __call__(self, f, w=W, x=X, *, wait=False):
        def compute(f):
            self.launches += 1
            return self.jitted(f, w, x)

        self.launches = 0
        rows = jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype)
        return begun(compute, f, (w, rows), (), wait=wait)


def number():
    config = types.SimpleNamespace(alpha=1.0)
    return lambda w, x: config.alpha * (x @ w), lambda value: setattr(config, "alpha", value)


def array_in_place():
    alpha = np.ones((), np.float32)
    return lambda w, x: alpha * (x @ w), lambda value: alpha.__setitem__((), value)


class Mutable:
    alpha = 1.0

    def outputs(self, w, x):
        return self.alpha * (x @ w)


def bound_method():
    made = Mutable()
    return made.outputs, lambda value: setattr(made, "alpha", value)


CASES = [number, array_in_place, bound_method]


def test_an_unchanged_function_is_launched_once_and_compiled_once():
    (f, _), run = number(), Begun()
    values = [np.asarray(run(f)) for _ in range(3)]
    assert (run.launches, run.traces) == (1, 1)
    np.testing.assert_array_equal(values[0], values[2])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_changed_function_is_launched_anew(case):
    (f, change), run = case(), Begun()
    for value, launches in [(1.0, 1), (1.0, 1), (3.0, 2), (3.0, 1), (1.0, 2)]:
        change(value)
        np.testing.assert_allclose(run(f), value * (X @ W), rtol=1e-6)
        assert run.launches == launches
    assert run.traces == 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_guess_at_a_new_shape_leaves_no_program_of_the_wrong_function(case):
    # Traced under the name of the old program, the new function would come back with the old one.
    (f, change), run = case(), Begun()
    run(f, x=X[:3])
    for value in (5.0, 1.0, 5.0):
        change(value)
        np.testing.assert_allclose(run(f), value * (X @ W), rtol=1e-6)


def test_a_guess_whose_programs_were_dropped_traces_nothing():
    (f, change), run = number(), Begun()
    run(f)
    jax.clear_caches()
    for value in (5.0, 1.0):
        change(value)
        np.testing.assert_allclose(run(f), value * (X @ W), rtol=1e-6)


def test_an_error_of_the_guess_is_no_error_and_one_of_the_function_is():
    state = types.SimpleNamespace(fails=False, shape=(6, 2))

    def f(w, x):
        if state.fails:
            raise ValueError("not today")
        return x @ w

    def compute(f):
        out = jit_filtered(lambda f, w, x: f(w, x))(f, W, X)
        if out.shape != state.shape:
            raise ValueError("a guess")
        return out

    rows = jax.ShapeDtypeStruct((2, 3), X.dtype)
    begun(compute, f, (W, rows), (), wait=False)
    begun(compute, f, (W, rows), (), wait=False)
    state.fails = True
    with pytest.raises(ValueError, match="not today"):
        begun(compute, f, (W, rows), (), wait=False)


def test_what_prints_is_never_guessed():
    config, seen = types.SimpleNamespace(alpha=1.0), []

    def f(w, x):
        jax.debug.callback(lambda value: seen.append(float(value)), jnp.float32(config.alpha))
        return x @ w

    run = Begun()
    for value in (1.0, 1.0, 2.0):
        config.alpha = value
        jax.block_until_ready(run(f))
    jax.effects_barrier()
    assert seen == [1.0, 1.0, 2.0]


def test_only_the_latest_functions_are_kept():
    kept = [number()[0] for _ in range(guesses._MOST + 3)]
    for f in kept:
        begun(id, f, (W, X), (), wait=False)
    assert len(guesses._LAST) == guesses._MOST
    assert (kept[-1], ()) in guesses._LAST
    assert (kept[0], ()) not in guesses._LAST


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_kernel_is_that_of_the_network_as_it_is_now(case):
    f, change = case()
    for n, value in [(4, 1.0), (4, 1.0), (6, 2.0), (6, 1.0), (4, 2.0), (6, 2.0), (4, 1.0)]:
        change(value)
        K = empirical_ntk_traced(f, W, X[:n])
        np.testing.assert_allclose(K, 2 * value**2 * (X[:n] @ X[:n].T), rtol=1e-4, atol=1e-5)


def test_a_network_that_begins_to_mix_rows_is_refused():
    state = types.SimpleNamespace(mixes=False)

    def f(w, x):
        z = x @ w
        return z - jnp.mean(z, axis=0, keepdims=True) if state.mixes else z

    empirical_ntk_traced(f, W, X)
    state.mixes = True
    with pytest.raises(ValueError, match="each row of `x` by itself"):
        empirical_ntk_traced(f, W, X)


def test_a_guess_of_many_blocks_is_settled_first():
    f, change = number()
    need: dict[str, Any] = {"memory": 600}  # one row at a time
    K = empirical_ntk_traced(f, W, X, **need)
    change(2.0)
    np.testing.assert_allclose(empirical_ntk_traced(f, W, X, **need), 4 * K, rtol=1e-5)
    change(3.0)
    seen = []
    tripled = empirical_ntk_traced(f, W, X, progress=lambda *done: seen.append(done), **need)
    np.testing.assert_allclose(tripled, 9 * K, rtol=1e-5)
    assert seen[-1] == (36, 36)
