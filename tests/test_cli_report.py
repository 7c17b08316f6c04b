# SPDX-License-Identifier: Apache-2.0
"""`unlazy report`, called as a user calls it."""

import json

import pytest

from unlazy import cli


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Calls the command line in an empty folder; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNLAZY_OUT", raising=False)

    def call(*args):
        with pytest.raises(SystemExit) as caught:
            cli.main(args)
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return call


def test_a_report_is_written_beside_the_runs_and_named(call, tmp_path):
    assert call("run", "allenzhu_li2019/certificates", "--preset", "smoke")[0] == 0
    code, out, _ = call("report")
    assert code == 0
    assert "report: runs/report/index.html" in out
    page = tmp_path / "runs/report/allenzhu_li2019--certificates--smoke.html"
    assert "RN-46" in page.read_text()
    assert 'id="panels"' in page.read_text()  # its code was found
    code, out, _ = call("report", "--to", "site", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["page"] == "site/index.html"
    assert told["runs"] == [{"experiment": "allenzhu_li2019/certificates", "preset": "smoke"}]


def test_without_runs_one_line_says_what_to_do(call):
    code, out, err = call("report")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "unlazy run --all" in err


def test_a_target_that_cannot_be_written_is_named(call, tmp_path):
    assert call("run", "allenzhu_li2019/certificates", "--preset", "smoke")[0] == 0
    (tmp_path / "taken").write_text("")
    code, _, err = call("report", "--to", "taken")
    assert code == 2
    assert "'taken'" in err


def test_an_empty_target_is_not_the_working_folder(call, tmp_path):
    code, out, err = call("report", "--to", "")
    assert (code, out) == (2, "")
    assert "must be the name of a folder, got an empty one" in err
    assert not list(tmp_path.iterdir())
