# SPDX-License-Identifier: Apache-2.0
"""The command `unlazy measure`, on files as users have them."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from unlazy import cli


@pytest.fixture
def people(tmp_path):
    """A table with an identifier, text, missing cells and two labels that are wrong."""
    rng = np.random.default_rng(0)
    size = rng.standard_normal(80).round(3)
    kind = np.where(size > 0, "large", "small")
    wrong = np.argsort(np.abs(np.abs(size) - 0.8))[:2]  # amid rows of their own kind
    kind[wrong] = np.where(kind[wrong] == "large", "small", "large")
    lines = [f"{i},{s},{'uv'[i % 2]},{k}" for i, (s, k) in enumerate(zip(size, kind, strict=True))]
    path = tmp_path / "people.csv"
    path.write_text("id,size,group,kind\n" + "\n".join(lines) + "\n80,,u,large\n81,1.0,v,\n")
    return path, {int(row) for row in wrong}


@pytest.fixture
def call(capsys, tmp_path):
    def call(*args):
        with pytest.raises(SystemExit) as caught:
            cli.main(["measure", *map(str, args), "--out", str(tmp_path / "out")])
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return call


def test_the_report_names_columns_suspects_and_files(call, people, tmp_path):
    path, wrong = people
    code, out, err = call(path, "--y", "kind", "--html", tmp_path / "page.html")
    assert (code, err) == (0, "")
    assert "These labels are learnable" in out
    assert "id      dropped" in out
    assert "1 missing: the median" in out
    assert "1 without a label left out" in out
    assert "rows look mislabelled" in out
    assert "page.html" in out
    assert (tmp_path / "out" / "measure" / "people.png").exists()
    assert "<svg" in (tmp_path / "page.html").read_text()
    code, out, _ = call(path, "--y", "kind", "--json", "--top", "2")
    content = json.loads(out)
    assert code == 0
    assert {suspect["row"] for suspect in content["suspects"]} == wrong
    assert [use["use"] for use in content["columns"]] == ["dropped", "number", "levels"]


def test_raw_numbers_and_chosen_columns(call, people):
    path, _ = people
    code, _, err = call(path, "--y", "kind", "--raw")
    assert code == 2
    assert "`--x` must be columns of numbers for --raw, got group" in err
    code, out, _ = call(path, "--y", "kind", "--x", "size,id", "--rows", "50", "--json")
    assert code == 0
    assert [use["use"] for use in json.loads(out)["columns"]] == ["number", "number"]


def test_a_column_that_is_not_there_is_answered_with_those_that_are(call, people):
    code, out, err = call(people[0])
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "`--y` must name the column of the labels, as none is called 'y'." in err
    assert "Columns: id, size, group, kind." in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--x", "siz"],
            "`--x` must be one of the columns or arrays, got --x='siz'. Did you mean 'size'?",
        ),
        (["--x", "size,kind"], "`--x` must leave out 'kind', which `--y` names as the labels."),
        (["--task", "guess"], "`--task` must be one of auto, classify, regress, got 'guess'."),
        (["--task", "regress"], "`--y` must be numbers for --task='regress'"),
        (["--rows", "1"], "`--rows` must be greater than or equal to 2."),
        (["--top", "0"], "`--top` must be greater than or equal to 1."),
        (["--rows", "2"], "`--rows` must be large enough for labels that differ, got 2:"),
        (["--html", "people.csv/page.html"], "'people.csv' is a file"),
    ],
)
def test_a_mistake_names_the_option(call, people, monkeypatch, args, message):
    monkeypatch.chdir(people[0].parent)
    code, out, err = call(people[0], "--y", "kind", *args)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_nothing_is_measured_if_the_output_cannot_be_written(call, people, monkeypatch):
    monkeypatch.setattr("unlazy.laziness.label_report.files.measure_file", None)
    code, _, err = call(people[0], "--html", people[0] / "page.html")
    assert code == 2
    assert f"'{people[0]}' is a file" in err


@pytest.mark.parametrize("seconds", [2.0, 6.0])
def test_an_interrupt_ends_it_at_once_wherever_it_is(seconds, tmp_path):
    x = np.random.default_rng(0).standard_normal((6000, 5))
    np.savez(tmp_path / "large.npz", x=x, y=x[:, 0] > 0)
    process = subprocess.Popen(
        [sys.executable, "-m", "unlazy", "measure", "large.npz"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(seconds)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "unlazy: interrupted.\n")
    assert time.monotonic() - started < 5  # a quarter of a second on a busy machine
