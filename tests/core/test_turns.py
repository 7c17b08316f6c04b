# SPDX-License-Identifier: Apache-2.0
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from unlazy.core.turns import Turns


def test_threads_run_together_and_tune_together_but_never_both():
    turns, seen, present = Turns(), [], {"running": 0, "tuning": 0}
    chance, lock = random.Random(0), threading.Lock()

    def take(kind):
        with getattr(turns, kind)():
            with lock:
                present[kind] += 1
                seen.append(dict(present))
            time.sleep(0.001)
            with lock:
                present[kind] -= 1

    kinds = [chance.choice(["running", "tuning"]) for _ in range(300)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take, kinds))
    assert all(min(counts.values()) == 0 for counts in seen)
    assert max(counts["running"] for counts in seen) > 1
    assert max(counts["tuning"] for counts in seen) > 1


def test_whoever_wants_to_tune_waits_for_what_runs_and_for_nothing_begun_later():
    turns, order = Turns(), []
    first, release = threading.Event(), threading.Event()

    def run_first():
        with turns.running():
            first.set()
            release.wait(timeout=60)
            order.append("run")

    def tune():
        with turns.tuning():
            order.append("tune")

    def run_later():
        with turns.running():
            order.append("run later")

    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(run_first)]
        first.wait(timeout=60)
        tasks.append(pool.submit(tune))
        give_up = time.monotonic() + 60
        while not turns._waiting_to_tune and time.monotonic() < give_up:
            time.sleep(0.001)
        tasks.append(pool.submit(run_later))
        release.set()
        for task in tasks:
            task.result(timeout=60)
    assert order == ["run", "tune", "run later"]


@pytest.mark.parametrize("kind", ["running", "tuning"])
def test_an_error_ends_the_turn(kind):
    turns = Turns()
    with pytest.raises(ZeroDivisionError), getattr(turns, kind)():
        raise ZeroDivisionError
    for other in ("running", "tuning"):
        with getattr(turns, other)():
            pass


def test_what_waits_within_a_turn_is_not_kept_by_those_that_want_to_tune():
    turns, held, go_on = Turns(), threading.Event(), threading.Event()

    def run():
        with turns.running():
            held.set()
            go_on.wait(timeout=60)
            turns.wait()

    def tune():
        with turns.tuning():
            return turns._running

    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(run)
        held.wait(timeout=60)
        tuning = pool.submit(tune)
        give_up = time.monotonic() + 60
        while not turns._waiting_to_tune and time.monotonic() < give_up:
            time.sleep(0.001)
        go_on.set()
        running.result(timeout=60)
        assert tuning.result(timeout=60) == 0
