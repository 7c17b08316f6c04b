# SPDX-License-Identifier: Apache-2.0
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest

from unlazy.train.grid import compiling
from unlazy.train.grid.compiling import Compiler


def program(factor):
    return jax.jit(lambda x: factor * x).lower(1.0)


@pytest.fixture
def compilations(monkeypatch):
    """The texts of the programs that were compiled, in order."""
    seen, compiled = [], compiling._compiled

    def count(lowered, options):
        seen.append(lowered.as_text())
        return compiled(lowered, options)

    monkeypatch.setattr(compiling, "_compiled", count)
    return seen


def test_equal_programs_are_compiled_once_and_tuned_ones_apart(compilations):
    compile_ = Compiler()
    assert float(compile_(program(2.0))(3.0)) == 6.0
    assert float(compile_(program(2.0))(4.0)) == 8.0
    assert len(compilations) == 1
    assert float(compile_(program(2.0), tuned=False)(4.0)) == 8.0
    assert float(compile_(program(5.0))(4.0)) == 20.0
    assert len(compilations) == 3


def test_threads_that_ask_together_get_one_program(compilations):
    compile_, meeting = Compiler(), threading.Barrier(4)

    def ask(_):
        meeting.wait(timeout=30)
        return float(compile_(program(2.0))(3.0))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [6.0] * 4
    assert len(compilations) == 1


def test_the_oldest_programs_are_forgotten(compilations):
    compile_ = Compiler(most=2)
    for factor in (1.0, 2.0, 3.0, 3.0, 1.0):
        assert float(compile_(program(factor))(1.0)) == factor
    assert len(compilations) == 4


def test_a_failure_is_told_and_tried_again(monkeypatch):
    def fail(lowered, options):
        raise MemoryError

    compile_ = Compiler()
    with monkeypatch.context() as patch:
        patch.setattr(compiling, "_compiled", fail)
        with pytest.raises(MemoryError):
            compile_(program(2.0))
    assert float(compile_(program(2.0))(3.0)) == 6.0


def test_an_option_that_another_compiler_does_not_know_is_left_out():
    double = compiling._compiled(program(2.0), {"xla_of_another_version": True})
    assert float(double(3.0)) == 6.0
