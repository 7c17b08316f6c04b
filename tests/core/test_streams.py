# SPDX-License-Identifier: Apache-2.0
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from unlazy import cli
from unlazy.core import streams
from unlazy.core.errors import BrokenPipeOutputError, OutputError

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")


@pytest.fixture
def stream(monkeypatch):
    """Puts a file of the system in place of `sys.stdout` or `sys.stderr`."""

    def put(name, file, encoding="utf-8"):
        text = io.TextIOWrapper(io.BufferedWriter(io.FileIO(file, "w")), encoding)
        monkeypatch.setattr(sys, name, text)
        made.append(text)

    made = []
    yield put
    for text in made:
        text.close()


def broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@needs_full
def test_a_full_device_is_an_error_that_is_told_once(stream):
    stream("stdout", FULL)
    with streams.guarded():
        with pytest.raises(OutputError, match=r"standard output: no space left on device\."):
            print("x", flush=True)  # noqa: T201
        print("x", flush=True)  # noqa: T201
    assert OutputError.exit_code == 74


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_reader_that_went_away_is_an_error_of_its_own(stream, name):
    stream(name, broken_pipe())
    with streams.guarded():
        with pytest.raises(BrokenPipeOutputError, match=r"the reader of standard .* went away"):
            print("x", file=getattr(sys, name), flush=True)
        print("x", file=getattr(sys, name), flush=True)
    assert BrokenPipeOutputError.exit_code == 141


@needs_full
def test_standard_error_is_written_as_well_as_can_be(stream):
    stream("stderr", FULL)
    with streams.guarded():
        print("x", file=sys.stderr, flush=True)  # noqa: T201


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_stream_that_is_closed_takes_what_accompanies_the_result_alone(monkeypatch, name):
    monkeypatch.setattr(sys, name, None)
    with streams.guarded():
        print("x", file=getattr(sys, name), flush=True)
        if name == "stderr":
            streams.check_output()
        else:
            with pytest.raises(OutputError, match="standard output is closed"):
                streams.check_output()
    assert getattr(sys, name) is None


@pytest.mark.parametrize(
    ("encoding", "written"),
    [("utf-8", "λ é".encode()), ("latin-1", b"\\u03bb \xe9"), ("ascii", rb"\u03bb \xe9")],
)
def test_a_character_that_the_terminal_lacks_is_written_as_in_a_string(
    stream, tmp_path, encoding, written
):
    stream("stdout", tmp_path / "out", encoding)
    with streams.guarded():
        sys.stdout.write("λ é")
    assert (tmp_path / "out").read_bytes() == written


def test_a_file_that_asks_to_come_back_later_gets_everything(stream):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    text = "x" * 300_000  # more than a pipe holds
    stream("stdout", writing)
    reader = subprocess.Popen(["wc", "-c"], stdin=reading, stdout=subprocess.PIPE, text=True)
    os.close(reading)
    with streams.guarded():
        sys.stdout.write(text)
    sys.stdout.close()
    assert int(reader.communicate(timeout=20)[0]) == len(text)


def test_streams_without_a_file_are_left_alone(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    with streams.guarded():
        assert sys.stdout is stream


@pytest.mark.parametrize(
    ("redirection", "code", "line"),
    [
        ("--help >&-", 74, "unlazy: standard output is closed. Send it to a file or to /dev/null."),
        ("--help 2>&-", 0, ""),
        ("nonsense 2>&-", 2, ""),
        ("--version | true", 141, ""),
        ("--help > /dev/full", 74, "unlazy: cannot write to standard output: no space left on"),
        ("nonsense --json > /dev/full", 2, "unlazy: No such command 'nonsense'."),
    ],
)
def test_the_command_line_has_one_line_and_a_code_for_each(tmp_path, redirection, code, line):
    if "full" in redirection and not FULL.exists():
        pytest.skip("only Linux has /dev/full")
    words, _, rest = redirection.partition(" | ")
    call = f"{shlex.quote(sys.executable)} -c 'from unlazy.__main__ import main; main()' {words}"
    if rest:  # the reader must be gone before the first character
        call = f"(sleep 0.2; {call}; echo $? >&3) 3>code | {rest}; exit $(cat code)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["sh", "-c", call], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == code
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == (1 if line else 0)


def test_a_deleted_working_folder_is_one_line_and_exit_code_66(tmp_path, capsys, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for flags in ([], ["--json"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(["run", "arora2019/figure1", *flags])
        out, err = capsys.readouterr()
        assert caught.value.code == 66
        assert err == "unlazy: the working folder has been deleted. Change to one that exists.\n"
        assert not flags or "has been deleted" in json.loads(out)["error"]
