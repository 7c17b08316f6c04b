# SPDX-License-Identifier: Apache-2.0
import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from unlazy import cli
from unlazy.experiments.bars import bar_on

MODEL = """
import jax.numpy as jnp
import numpy as np

x = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
start, end = (jnp.arange(3.0) + shift for shift in (0.0, 1.0))
f = lambda w, x: jnp.tanh(x @ w)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder is empty, and the user's modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def call(capsys):
    """Calls the command; returns the exit code, standard output and standard error."""

    def call(*args):
        with pytest.raises(SystemExit) as caught:
            cli.main(["diagnose", *args])
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return call


def write(folder, body, name="run.py", head=MODEL):
    (folder / name).write_text(head + textwrap.dedent(body))


def test_a_script_that_returns_a_mapping_is_diagnosed(call, folder):
    write(folder, """
        def diagnose():
            print("training")
            return dict(f=f, params_start=start, params_end=end, x=x, y=x[:, 0] > 0)
    """)  # fmt: skip
    code, out, err = call("run.py", "--html", "pages/report.html", "--plot", "report.svg")
    assert code == 0
    assert out.startswith("Laziness of a model with 3 parameters")
    assert "Kernel drift:" in out
    assert "page: pages/report.html" in out
    assert "training" in err
    assert "training\n" not in out
    assert "<svg" in (folder / "report.svg").read_text()
    assert "Is this model lazy?" in (folder / "pages" / "report.html").read_text()


def test_json_is_one_object_whatever_the_script_prints(call, folder):
    write(folder, """
        def mine():
            print("training")
            return f, start, end, x
    """)  # fmt: skip
    code, out, _ = call("run.py:mine", "--json", "--plot", "report.png", "--seconds", "10")
    found = json.loads(out)
    assert code == 0
    assert found["model"]["parameters"] == 3
    assert found["figure"] == "report.png"
    assert (folder / "report.png").read_bytes().startswith(b"\x89PNG")


def test_a_function_of_a_module_in_the_working_folder_may_return_a_report(call, folder):
    (folder / "package").mkdir()
    write(folder, "value = 3", "package/beside.py", head="")
    write(folder, """
        import unlazy as ul
        from package.beside import value

        def made():
            return ul.diagnose(f, start, end, x)
    """, "package/models.py")  # fmt: skip
    code, out, _ = call("package.models:made")
    assert code == 0
    assert "3 parameters" in out
    code, _, err = call("package.models:made", "--seconds", "5")
    assert code == 2
    assert "`--seconds` must be left out" in err


def test_a_script_imports_what_lies_beside_it_and_sees_no_arguments(call, folder):
    (folder / "code").mkdir()
    write(folder, "", "code/helper.py")
    write(folder, """
        import argparse
        from helper import *
        argparse.ArgumentParser().parse_args()

        def diagnose():
            return f, start, end, x

        if __name__ == "__main__":
            raise RuntimeError
    """, "code/run.py", head="")  # fmt: skip
    before = list(sys.path)
    assert call("code/run.py")[0] == 0
    assert sys.path == before


@pytest.mark.parametrize(
    ("target", "body", "message"),
    [
        ("absent.py", "", "must be a file that exists, got 'absent.py'"),
        ("absent:made", "", "must name a module that can be imported from"),
        ("run", "", "must name a function of the module 'run'"),
        ("run.py:", "", "must be a script"),
        ("run.py", "def other(): pass", "must have a function `diagnose`, but it has other"),
        ("run.py:f", "f = 3", "`f` of 'run.py' must be a function, got int"),
        ("run.py", "from unlazy import diagnose", "it has no function of its own"),
        ("run.py", "def diagnose(a): pass", "must take no arguments, got diagnose(a)"),
        ("run.py", "def diagnose(): return 3", "must return a mapping of the arguments"),
        ("run.py", "def diagnose(): return 1, 2", "got a tuple of 2"),
        ("run.py", "def diagnose(): return {'model': 3}", "got `model`"),
        ("run.py", "def diagnose(): return {'f': 3}", "got none named `params_start`"),
        (
            "run.py",
            "from numpy import ones\ndef diagnose(): return abs, ones(2), ones(2), ones((1, 2))",
            "`x` must hold two samples at least",
        ),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(call, folder, target, body, message):
    write(folder, body, head="")
    code, out, err = call(target)
    assert (code, out) == (2, "")
    assert err.startswith("unlazy: ")
    assert err.count("\n") == 1
    assert message in err
    assert message in json.loads(call(target, "--json")[1])["error"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--plot", "figure.pdf"], "`--plot` must end in .png or .svg"),
        (["--html", "."], "`--html` must name a file"),
        (["--plot", "run.py/figure.png"], "'run.py' is a file"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_clear_line(call, folder, args, message):
    write(folder, "def diagnose(): return f, start, end, x")
    code, _, err = call("run.py", *args)
    assert code == 2
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("body", "last"),
    [
        (
            "def diagnose():\n    return 1 / 0",
            "the function `diagnose` of 'run.py' failed: ZeroDivisionError: division by zero",
        ),
        ("import absent_library", "the script 'run.py' failed: ModuleNotFoundError"),
        ("def diagnose(:", "the script 'run.py' failed: SyntaxError"),
        (
            "import jax.numpy as jnp\ndef f(p, x): raise KeyError('deep inside')\n"
            "def diagnose(): return f, jnp.ones(2), jnp.ones(2), jnp.ones((3, 2))",
            "'run.py' returns what `diagnose` refuses: `f` must accept these `params` and "
            "a batch of samples, got KeyError: 'deep inside'",
        ),
    ],
)
def test_an_error_of_the_users_code_shows_the_users_traceback_and_the_function(
    call, folder, body, last
):
    write(folder, body, head="")
    code, out, err = call("run.py")
    assert (code, out) == (2, "")
    assert "run.py" in err
    assert "scripts.py" not in err
    assert err.splitlines()[-1].startswith(f"unlazy: {last}")
    assert err.splitlines()[-2]
    assert re.search(r"Traceback|SyntaxError", err)


@pytest.mark.parametrize("option", ["--seconds", "--memory"])
def test_a_limit_is_checked_before_the_script_is_run_and_named_as_it_was_given(
    call, folder, option
):
    name = option.removeprefix("--")
    write(folder, "raise RuntimeError", head="")
    assert f"`{option}` must be a positive number, got -1. See" in call("run.py", option, "-1")[2]
    write(folder, f"""
        def diagnose():
            return dict(f=f, params_start=start, params_end=end, x=x, {name}=-1)
    """)  # fmt: skip
    assert f"`diagnose` refuses: `{name}` must be a positive number" in call("run.py")[2]


def test_a_script_that_exits_is_an_error(call, folder):
    write(folder, "import sys\nsys.exit(0)", head="")
    code, _, err = call("run.py")
    assert code == 2
    assert "ended the program with exit(0)" in err


def test_the_model_can_be_interrupted(call, folder):
    write(folder, """
        import signal

        def g(w, x):
            signal.raise_signal(signal.SIGINT)
            return f(w, x)

        def diagnose():
            return g, start, end, x
    """)  # fmt: skip
    code, _, err = call("run.py")
    assert code == 130
    assert err == "unlazy: interrupted.\n"


@pytest.mark.slow
def test_a_process_of_its_own_ends_soon_after_an_interrupt(folder):
    write(folder, """
        import time

        def diagnose():
            print("asleep", flush=True)
            time.sleep(60)
    """)  # fmt: skip
    words = [sys.executable, "-m", "unlazy", "diagnose", "run.py"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "asleep\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130
        assert child.stderr.read() == "unlazy: interrupted.\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_is_shown_on_a_terminal_alone(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        with bar_on(stream, "diagnosing") as progress:
            progress(1, 2)
        assert ("diagnosing" in stream.getvalue()) == shown
