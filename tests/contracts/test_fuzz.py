# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments at every public name: what is refused names the argument.

"Unclear" are errors that a user cannot act on: other kinds than ValueError and TypeError, messages
from inside other libraries, and calls that do not end; see `fuzz.py`. The share is of all calls
with a wrong argument. Draws are seeded: a verdict changes only when the code does.
"""

import importlib.util
import inspect
import random
import sys
from pathlib import Path

import jax
import pytest

FUZZ = Path(__file__).parent / "fuzz.py"
MOST_UNCLEAR = 0.02  # of all calls
MOST_UNCLEAR_IN_A_SAMPLE = 0.06  # chance 2e-4 of 15 or more among 250 if all are at MOST_UNCLEAR
MOST_OTHER_NAMES = 0.05


@pytest.fixture(scope="module")
def fuzz():
    """The module of the fuzz; tests are no package, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("fuzz", FUZZ)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def as_users_run(no_shape_checker, monkeypatch, tmp_path):
    """Without the shape checker, in a folder of its own, and quick to compile."""
    monkeypatch.chdir(tmp_path)
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def share(outcomes, *kinds):
    return sum(outcome.kind in kinds for outcome in outcomes) / len(outcomes)


def test_a_sample_of_wrong_arguments_is_refused_by_name(fuzz):
    draw = random.Random(20191)
    calls = fuzz.record(fuzz.rooms(), lambda sources: draw.sample(sources, 20))
    outcomes = [fuzz.judge(trial) for trial in draw.sample(fuzz.trials(calls), 250)]
    assert share(outcomes, "unclear", "hang") < MOST_UNCLEAR_IN_A_SAMPLE, fuzz.report(outcomes, 10)


@pytest.mark.slow
def test_every_public_name_refuses_wrong_arguments_by_name(fuzz):
    outcomes = []
    for room in fuzz.rooms():
        calls = [call for call in fuzz.record([room]) if call.room == room]
        outcomes += [fuzz.judge(trial) for trial in fuzz.trials(calls)]
        jax.clear_caches()
    text = fuzz.report(outcomes, 40)
    public = {name for name, value in fuzz.public_objects().values() if inspect.isroutine(value)}
    untried = public - {outcome.name for outcome in outcomes}
    assert len(untried) < 0.1 * len(public), untried
    assert share(outcomes, "unclear", "hang") < MOST_UNCLEAR, text
    assert share(outcomes, "other name") < MOST_OTHER_NAMES, text


def test_outcomes_are_told_apart(fuzz):
    def function(size, other=1):
        if size == 1:
            raise ValueError("`size` must be 2, got size=1.")
        if size == 2:
            raise ValueError("`other` must be 2, got other=1.")
        return {3: 1}[size]

    def outcome(size):
        arguments = fuzz.inspect.signature(function).bind(size)
        trial = fuzz.Trial(fuzz.Call("room.function", function, arguments), "size", "", size)
        return fuzz.judge(trial).kind

    assert [outcome(size) for size in (1, 2, 3, 4)] == [
        "clear",
        "other name",
        "returned",
        "unclear",
    ]
