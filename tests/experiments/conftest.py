# SPDX-License-Identifier: Apache-2.0
"""The toy experiment for every test of the engine, and a limit on the time that one waits."""

import contextlib
import importlib.util
import signal
import sys
from pathlib import Path

import pytest

TOY = Path(__file__).parent / "toy.py"
collect_ignore = ["logged.py"]  # it imports the toy, for processes that find both


@pytest.fixture(scope="session")
def toy():
    """The module of the toy experiment; tests are no package, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("toy", TOY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _within(seconds):
    def late(*_):
        raise AssertionError("it takes too long")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def within():
    """A scope that fails when it takes so many seconds, even in a call that waits for ever."""
    return _within
