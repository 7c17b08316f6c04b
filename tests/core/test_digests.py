# SPDX-License-Identifier: Apache-2.0
"""Digests of inner programs are kept while they cannot change, with the rules that are in them."""

import gc

import jax
import jax.numpy as jnp
import numpy as np

from unlazy.core import digests
from unlazy.core.current import program_of
from unlazy.core.digests import digest

X = jnp.arange(3.0)


def written(monkeypatch):
    """The programs that are written out from now on."""
    programs, write = [], digests._program

    def noted(jaxpr, *rest):
        programs.append(jaxpr)
        return write(jaxpr, *rest)

    monkeypatch.setattr(digests, "_program", noted)
    return programs


def test_compiled_function_is_written_out_once(monkeypatch):
    f = jax.jit(lambda x: jnp.sin(x) + 1)
    first, programs = program_of(f, X), written(monkeypatch)
    assert program_of(f, X) == first
    assert not programs
    program_of(lambda x: f(x), X)
    assert len(programs) == 1  # that around it
    assert program_of(jax.jit(lambda x: jnp.sin(x) + 2), X) != first


def test_compiled_function_is_traced_once_for_each_kind_of_arguments():
    traces = []

    @jax.jit
    def f(w, x):
        traces.append((x.shape, x.dtype))
        return x @ w["W"]

    w, row = {"W": jnp.eye(3)}, jax.ShapeDtypeStruct((2, 3), jnp.float32)
    first = program_of(f, w, row)
    assert program_of(f, w, row) == first
    assert len(traces) == 1
    assert program_of(f, w, jax.ShapeDtypeStruct((5, 3), jnp.float32)) != first
    assert len(traces) == 2


def test_numbers_among_the_arguments_of_a_compiled_function_count():
    f = jax.jit(lambda w, x: x * w["scale"])
    assert program_of(f, {"scale": 2.0}, X) == program_of(f, {"scale": 2.0}, X)
    assert program_of(f, {"scale": 2.0}, X) != program_of(f, {"scale": 3.0}, X)


def test_array_of_numpy_that_changes_in_place():
    scales = np.array([1.0, 2.0, 3.0], np.float32)
    inner = jax.jit(lambda x: x * scales)
    for f in (inner, jax.jit(lambda x: jnp.sin(inner(x)))):
        first = program_of(f, X)
        scales += 1
        assert program_of(f, X) != first
        scales -= 1
        assert program_of(f, X) == first


@jax.custom_jvp
def odd(x):
    return x**3


odd.defjvp(lambda primals, tangents: (odd(*primals), tangents[0]))


def test_rules_are_found_where_a_part_was_seen_before():
    """In the first trace `part` comes alone, then within `whole`; in the second within it only."""
    part = jax.jit(lambda x: odd(x))
    whole = jax.jit(lambda x: part(x) + 1)
    both = digest(jax.make_jaxpr(lambda x: part(x) + whole(x))(X))
    alone = digest(jax.make_jaxpr(lambda x: whole(x))(X))
    assert both.rules
    assert alone.rules == both.rules
    assert digest(jax.make_jaxpr(lambda x: whole(x))(X)) == alone


def test_digests_are_forgotten_with_their_programs():
    gc.collect()
    before = len(digests._PROGRAMS)
    f = jax.jit(lambda x: jnp.cos(x) * 3)
    program_of(f, X)
    assert len(digests._PROGRAMS) == before + 1
    del f
    gc.collect()
    assert len(digests._PROGRAMS) == before
