# SPDX-License-Identifier: Apache-2.0
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest

from unlazy.experiments import shared_by_cells, workers


@pytest.mark.parametrize(
    ("statistics", "jobs"),
    [
        (None, 1),
        ({}, 1),
        ({"bytes_limit": 8 * 2**30}, 1),
        ({"bytes_limit": 40 * 2**30}, 2),
        ({"bytes_limit": 140 * 2**30}, 6),
    ],
)
def test_as_many_cells_at_a_time_as_fit_the_accelerator(statistics, jobs, monkeypatch):
    class Device:
        def memory_stats(self):
            return statistics

    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert workers.default_jobs() == jobs


def test_cells_wait_for_what_one_of_them_computes():
    computed, meeting = [], threading.Barrier(3)

    @shared_by_cells(latest=2)
    def square(n):
        time.sleep(0.05)
        computed.append(n)
        return n * n

    def ask(n):
        meeting.wait(timeout=30)
        return square(n)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(ask, [3, 3, 4])) == [9, 9, 16]
    assert sorted(computed) == [3, 4]
    assert square(5) == square(5) == 25
    assert len(computed) == 3
