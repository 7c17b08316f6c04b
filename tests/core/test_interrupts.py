# SPDX-License-Identifier: Apache-2.0
import importlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from unlazy.core.interrupts import Interrupts

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
# Toy cells that spend their time in the garbage collector, with a callback such as JAX has.
COLLECTING = """
import dataclasses, gc, importlib.util, sys, time
spec = importlib.util.spec_from_file_location("toy", sys.argv[1])
toy = sys.modules["toy"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toy)
from unlazy import papers
from unlazy.__main__ import main
from unlazy.papers import catalogue

def busy(*_):
    end = time.monotonic() + 0.005
    while time.monotonic() < end:
        pass

def run(config, *, seed, progress):
    for step in range(100):
        gc.collect(0)
        progress(step, 100)
    return toy.run(config, seed=seed, progress=progress)

gc.callbacks.append(busy)
catalogue._FIGURES = ("toy/figure1",)
papers.get = lambda name: dataclasses.replace(toy.EXPERIMENT, run=run)
sys.argv[1:] = ["run", "toy/figure1", "--preset", "smoke", "--out", sys.argv[2]]
main()
"""
STUBBORN = """
import time
from unlazy.core.interrupts import INTERRUPTS
INTERRUPTS.watch()
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
time.sleep(60)
"""

# A call of LAPACK that takes half a minute, during which the main thread runs no Python.
FACTORISING = """
import numpy as np
from unlazy.core.interrupts import INTERRUPTS
INTERRUPTS.watch()
H = np.ones((5000, 5000))
try:
    print("ready", flush=True)
    INTERRUPTS.aside(lambda: np.linalg.eigvalsh(H))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    INTERRUPTS.leave()
"""


class Loud:
    """Gets a signal where nobody can catch what it raises."""

    def __init__(self, number=signal.SIGINT):
        self.number = number

    def __del__(self):
        signal.raise_signal(self.number)
        time.sleep(0)  # where the handler runs


def wait_after(call):
    """Forget what it returns, and wait long enough for an interrupt to come."""
    call()
    time.sleep(10)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_that_was_swallowed_is_raised_again(number, code):
    interrupts = Interrupts()
    with interrupts.watched():
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            wait_after(lambda: Loud(number))
        assert time.monotonic() - began < 9
        assert (interrupts.received, interrupts.exit_code) == (number, code)


def test_an_interrupt_that_was_caught_is_found_at_the_next_check():
    interrupts = Interrupts()
    interrupts.check()
    with interrupts.watched():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.settle()
        interrupts.check()
        signal.raise_signal(signal.SIGINT)
    assert interrupts.received is None


def test_an_import_is_finished_before_it_is_interrupted(tmp_path, monkeypatch):
    text = "import signal\nsignal.raise_signal(signal.SIGINT)\nWHOLE = True\n"
    (tmp_path / "interrupted_module.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with Interrupts().watched(), pytest.raises(KeyboardInterrupt):
        wait_after(lambda: importlib.import_module("interrupted_module"))
    assert sys.modules.pop("interrupted_module").WHOLE


def test_handlers_come_back_and_what_is_ignored_stays_ignored():
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook, threading.active_count()
    with Interrupts().watched():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook, threading.active_count()) == before
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts().watched():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before[0])


def test_outside_of_the_main_thread_nothing_is_changed():
    seen = []

    def look():
        with Interrupts().watched():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_ends_the_process_at_once(number):
    child = subprocess.Popen(
        [sys.executable, "-c", STUBBORN],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(number)
    assert child.stdout.readline() == "interrupted\n"
    time.sleep(0.3)  # sooner, it might be the same one, passed on
    child.send_signal(number)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 128 + number
    assert err == "unlazy: interrupted twice; ended at once.\n"


def interrupted(command, wait, number=signal.SIGINT, **variables):
    """The exit code and the last line of a child that gets a signal, by `wait`, while it runs."""
    child = subprocess.Popen(
        command,
        env=ENVIRONMENT | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait(child)
    child.send_signal(number)
    _, err = child.communicate(timeout=120)
    assert "Traceback" not in err
    return child.returncode, err.splitlines()[-1]


def test_a_run_ends_with_130_wherever_the_interrupt_lands(tmp_path):
    rng = random.Random(1)
    toy = Path(__file__).parents[1] / "experiments" / "toy.py"
    command = [sys.executable, "-c", COLLECTING, str(toy), str(tmp_path)]

    def wait(child):
        assert "cells" in child.stderr.readline() + child.stderr.readline()
        time.sleep(rng.uniform(0, 0.3))

    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
        code, line = interrupted(command, wait, number, JAX_COMPILATION_CACHE_DIR=str(tmp_path))
        assert code == 128 + number
        assert line.startswith("unlazy: interrupted; finished cells are stored")


@pytest.mark.slow
def test_a_real_figure_ends_with_130_wherever_the_interrupt_lands(tmp_path):
    rng = random.Random(2)
    code = "from unlazy.__main__ import main; main()"
    words = ["run", "arora2019/figure1", "--preset", "smoke", "--force", "--out", str(tmp_path)]

    def wait(child):
        time.sleep(rng.uniform(0.5, 2.5))  # later it may be over: it takes 4 s, and 3 the next time
        assert child.poll() is None

    for _ in range(20):
        command = [sys.executable, "-c", code, *words]
        ended, line = interrupted(command, wait, UNLAZY_CACHE=str(tmp_path / "cache"))
        if ended == -signal.SIGINT:  # the run was over: Python had put its handlers away
            assert line.startswith("[4/4]")
            continue
        assert ended == 130
        assert line.startswith("unlazy: interrupted")


def test_work_aside_gives_its_result_or_its_error():
    interrupts = Interrupts()
    assert interrupts.aside(threading.current_thread) is threading.main_thread()  # unwatched
    with interrupts.watched():
        assert interrupts.aside(threading.current_thread) is not threading.main_thread()
        with pytest.raises(ZeroDivisionError):
            interrupts.aside(lambda: 1 // 0)


def test_an_interrupt_ends_a_long_call_of_lapack_at_once():
    process = subprocess.Popen(
        [sys.executable, "-c", FACTORISING], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted\n"
    assert process.returncode == 130
    assert time.monotonic() - started < 5  # a tenth of a second on an idle machine
