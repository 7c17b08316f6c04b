# SPDX-License-Identifier: Apache-2.0
import io

import pytest

from unlazy.experiments import reporter_for, run_experiment
from unlazy.experiments.bars import BarReporter
from unlazy.experiments.progress import LineReporter


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_are_for_terminals_and_lines_for_the_rest(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(reporter_for(Terminal()), BarReporter)
    assert isinstance(reporter_for(io.StringIO()), LineReporter)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(reporter_for(Terminal()), LineReporter)


def test_a_log_has_one_plain_line_a_cell(toy, tmp_path):
    log = io.StringIO()
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path, progress=LineReporter(log))
    lines = log.getvalue().splitlines()
    assert lines[:2] == ["note: few points", "toy/figure1: 3 cells"]
    assert [line.split(" (")[0] for line in lines[2:]] == [
        f"[{i + 1}/3] cell {i}" for i in range(3)
    ]


def test_a_log_says_what_was_stored_already(toy, tmp_path):
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    log = io.StringIO()
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path, progress=LineReporter(log))
    assert "3 cells, 3 of them stored already" in log.getvalue()


@pytest.mark.parametrize(("stored", "jobs"), [(False, 1), (False, 3), (True, 1)])
def test_the_bars_reach_their_end_and_go_away(toy, tmp_path, monkeypatch, stored, jobs):
    monkeypatch.setenv("TERM", "xterm")
    if stored:
        run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    bars = BarReporter(Terminal())
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path, jobs=jobs, progress=bars)
    (task,) = bars.bars.tasks
    assert task.completed == task.total == (0 if stored else 3)
    assert not bars.bars.live.is_started
