# SPDX-License-Identifier: Apache-2.0
import contextlib
import dataclasses
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import pytest

import unlazy
from unlazy import cli, papers
from unlazy.core.errors import DataFileError

TOY = Path(__file__).parent / "experiments" / "toy.py"


@pytest.fixture(scope="module")
def toy():
    spec = importlib.util.spec_from_file_location("toy_of_the_command_line", TOY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def registry(toy, tmp_path, monkeypatch):
    """The toy is the only figure, and the working folder is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNLAZY_OUT", raising=False)
    use(monkeypatch, toy.EXPERIMENT)


def use(monkeypatch, experiment):
    real = papers.get
    monkeypatch.setattr("unlazy.papers.catalogue._FIGURES", ("toy/figure1",))
    monkeypatch.setattr(papers, "get", lambda n: experiment if n == "toy/figure1" else real(n))


@pytest.fixture
def call(capsys):
    """Calls the command line; returns the exit code, standard output and standard error."""

    def call(*args):
        with pytest.raises(SystemExit) as caught:
            cli.main(args)
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return call


def test_a_run_prints_notes_claims_figure_and_time_and_exits_0(call, tmp_path):
    code, out, err = call("run", "toy/figure1", "--preset", "smoke")
    assert code == 0
    for text in (
        "few points",
        "TOY-1",
        "The mean stays small.",
        "holds",
        "cells computed: 3, reused: 0",
    ):
        assert text in out
    assert str(Path("runs/toy/figure1/smoke/figure.png")) in out
    assert (tmp_path / "runs/toy/figure1/smoke/figure.svg").exists()
    assert "[3/3] cell 2" in err


def test_a_second_run_reuses_and_force_does_not(call):
    call("run", "toy/figure1", "--preset", "smoke")
    assert "cells computed: 0, reused: 3" in call("run", "toy/figure1", "--preset", "smoke")[1]
    assert (
        "cells computed: 3, reused: 0"
        in call("run", "toy/figure1", "--preset", "smoke", "--force")[1]
    )


def test_a_changed_verdict_exits_1(call):
    code, out, _ = call("run", "toy/figure1", "--preset", "strict")
    assert code == 1
    assert "REFUTED: recorded" in out
    assert "verdicts as recorded: 0 of 1" in out


def test_a_refutation_that_is_on_record_exits_0(call, toy, monkeypatch):
    def claims(config, results):
        return [dataclasses.replace(c, expected="refuted") for c in toy.claims(config, results)]

    use(monkeypatch, dataclasses.replace(toy.EXPERIMENT, claims=claims))
    code, out, _ = call("run", "toy/figure1", "--preset", "strict")
    assert code == 0
    assert "refuted (as recorded)" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run"], "Known: toy/figure1"),
        (["run", "toy/figure1", "--all"], "either `NAME` or `--all`"),
        (["run", "toy/figure2"], "Did you mean 'toy/figure1'?"),
        (["run", "toy"], "must be one of this paper's figures, got 'toy'."),
        (["run", "toy/figure1", "--preset", "qick"], "Did you mean 'quick'?"),
        (["run", "toy/figure1", "--bogus"], "--bogus"),
        (["run", "toy/figure1", "more"], "more"),
        (["runn"], "runn"),
        (["run", "toy/figure1", "--preset", "smoke", "--out", "file/below"], "'file' is a file"),
        (["run", "toy/figure2"], "`NAME` must be a known name, got 'toy/figure2'."),
        (["run", "toy/figure1", "--preset", "qick"], "`--preset` must be a known name, got --pre"),
        (["run", "toy/figure1", "--jobs", "0"], "`--jobs` must be greater than or equal to 1"),
        (["run", "toy/figure1", "--jobs", "two"], "`--jobs` must be a valid integer. See unlazy r"),
        (
            ["run", "toy/figure1", "--jobs", "2", "--scheduler", "tcp://localhost:1"],
            "`--jobs` must be left out with a scheduler, whose workers decide it, got --jobs=2.",
        ),
        (["run", "toy/figure1", "--scheduler", "moon"], "`--scheduler` must be an address such as"),
        (["run", "toy/figure1", "--scheduler", "http://a:1"], "got --scheduler='http://a:1'."),
        (["run", "toy/figure1", "--out", ""], "`--out` must be the name of a folder, got an empty"),
        (["doctor", "--out", ""], "`--out` must be the name of a folder, got an empty"),
        (["measure"], "Missing argument 'FILE'. See unlazy measure --help."),
        (["list", "more"], "See unlazy list --help."),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(call, tmp_path, args, message):
    (tmp_path / "file").write_text("")
    code, out, err = call(*args)
    assert (code, out) == (2, "")
    assert err.startswith("unlazy: ")
    assert err.count("\n") == 1
    assert message in err
    code, out, _ = call(*args, "--json")
    assert code == 2
    assert message in json.loads(out)["error"]


def failing_toy(toy, monkeypatch, error):
    def run(config, *, seed, progress):
        sys.stdout.write("a library that prints\n")
        if config.index == 1:
            raise error
        return toy.run(config, seed=seed, progress=progress)

    use(monkeypatch, dataclasses.replace(toy.EXPERIMENT, run=run))


def test_a_known_error_inside_a_cell_is_one_line_that_tells_how_to_resume(call, toy, monkeypatch):
    failing_toy(toy, monkeypatch, DataFileError("`mnist` must be a gzip file, got a page."))
    code, _, err = call("run", "toy/figure1", "--preset", "smoke")
    assert code == 2
    assert "Traceback" not in err
    assert "must be a gzip file" in err.splitlines()[-1]
    assert "resumes" in err.splitlines()[-1]


def test_an_unforeseen_error_inside_a_cell_shows_its_traceback_too(call, toy, monkeypatch):
    failing_toy(toy, monkeypatch, ZeroDivisionError("by zero"))
    code, out, err = call("run", "toy/figure1", "--preset", "smoke", "--json")
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("unlazy: the cell 'cell 1' of toy/figure1 failed")
    assert "ZeroDivisionError: by zero" in json.loads(out)["error"]


def test_an_unforeseen_error_outside_the_cells_is_not_mistaken_for_a_verdict(
    call, toy, monkeypatch
):
    def claims(config, results):
        raise IndexError(config, results)

    use(monkeypatch, dataclasses.replace(toy.EXPERIMENT, claims=claims))
    code, out, err = call("run", "toy/figure1", "--preset", "smoke", "--json")
    assert code == 2
    assert "Traceback" in err
    assert json.loads(out)["error"].startswith("IndexError")


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_an_interrupt_exits_130_and_tells_how_to_resume(call, toy, monkeypatch, flags):
    failing_toy(toy, monkeypatch, KeyboardInterrupt())
    code, out, err = call("run", "toy/figure1", "--preset", "smoke", *flags)
    assert code == 130
    assert "interrupted" in err.splitlines()[-1]
    assert "resumes" in err.splitlines()[-1]
    assert not flags or "interrupted" in json.loads(out)["error"]


@pytest.mark.parametrize(
    ("jobs", "outcome", "number"),
    [
        ("1", "result", signal.SIGINT),
        ("1", "error", signal.SIGTERM),
        ("2", "error", signal.SIGINT),
    ],
)
def test_an_interrupt_that_a_library_swallows_or_turns_into_an_error_counts(
    call, toy, monkeypatch, jobs, outcome, number
):
    def run(config, *, seed, progress):
        if config.index == 1:
            with contextlib.suppress(KeyboardInterrupt):
                signal.pthread_kill(threading.main_thread().ident or 0, number)
                time.sleep(0.05)
            if outcome == "error":
                raise RuntimeError("INTERNAL: KeyboardInterrupt")
        return toy.run(config, seed=seed, progress=progress)

    use(monkeypatch, dataclasses.replace(toy.EXPERIMENT, run=run))
    code, _, err = call("run", "toy/figure1", "--preset", "smoke", "--jobs", jobs)
    assert code == 128 + number
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("unlazy: interrupted; finished cells are stored")


def test_an_interrupt_after_the_last_cell_counts_too(call, toy, monkeypatch):
    def claims(config, results):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return toy.claims(config, results)

    use(monkeypatch, dataclasses.replace(toy.EXPERIMENT, claims=claims))
    assert call("run", "toy/figure1", "--preset", "smoke")[0] == 130


@pytest.mark.parametrize("command", ["list", "doctor"])
def test_every_command_can_be_interrupted(call, monkeypatch, command):
    def interrupted(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(papers, "get", interrupted)
    monkeypatch.setattr("unlazy.experiments.doctor.examine", interrupted)
    assert call(command) == (130, "", "unlazy: interrupted.\n")


def test_the_exit_codes_are_those_that_readme_and_help_tell(call):
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    for code, what in cli.EXIT_CODES.items():
        assert f"| {code} | {what} |" in readme
        assert str(code) in call("--help")[1]


def test_json_of_a_run_is_one_object_and_nothing_else(call, toy, monkeypatch):
    def run(config, *, seed, progress):
        sys.stdout.write("a library that prints\n")
        return toy.run(config, seed=seed, progress=progress)

    use(monkeypatch, dataclasses.replace(toy.EXPERIMENT, run=run))
    code, out, err = call("run", "toy/figure1", "--preset", "smoke", "--json")
    (report,) = json.loads(out)["figures"]
    assert code == 0
    assert report["ok"] is True
    assert report["cells"] == {"computed": 3, "reused": 0}
    assert report["claims"][0]["verdict"] == "holds"
    assert report["notes"] == ["few points"]
    assert all(Path(path).exists() for path in report["figures"])
    assert "a library that prints" in err


def test_all_runs_every_figure_and_exits_1_when_one_verdict_has_changed(call, toy, monkeypatch):
    monkeypatch.setattr("unlazy.papers.catalogue._FIGURES", ("toy/figure1", "toy/figure1"))
    code, out, _ = call("run", "--all", "--preset", "smoke", "--json")
    content = json.loads(out)
    assert code == 0
    assert [figure["cells"]["computed"] for figure in content["figures"]] == [3, 0]
    assert call("run", "--all", "--preset", "strict")[0] == 1


def test_several_figures_are_run_one_after_the_other(call):
    twice = ["toy/figure1", "toy/figure1", "--preset", "smoke"]
    code, out, _ = call("run", *twice)
    assert code == 0
    assert "cells computed: 3, reused: 0" in out
    assert "cells computed: 0, reused: 3" in out
    content = json.loads(call("run", *twice, "--json")[1])
    assert [figure["cells"]["reused"] for figure in content["figures"]] == [3, 3]


def test_a_mistaken_name_is_found_before_anything_is_computed(call, tmp_path):
    code, _, err = call("run", "toy/figure1", "toy/figure7", "--preset", "smoke")
    assert code == 2
    assert "Did you mean 'toy/figure1'?" in err
    assert not list(tmp_path.rglob("meta.json"))


def test_json_of_a_changed_verdict_exits_1(call):
    code, out, _ = call("run", "toy/figure1", "--preset", "strict", "--json")
    assert code == 1
    assert json.loads(out)["figures"][0]["ok"] is False


def test_the_output_folder_comes_from_the_option_or_the_environment(call, tmp_path, monkeypatch):
    monkeypatch.setenv("UNLAZY_OUT", str(tmp_path / "elsewhere"))
    call("run", "toy/figure1", "--preset", "smoke")
    assert (tmp_path / "elsewhere" / "cells").exists()
    call("run", "toy/figure1", "--preset", "smoke", "--out", "here")
    assert (tmp_path / "here" / "cells").exists()
    assert not (tmp_path / "runs").exists()


def test_list_shows_figures_presets_and_how_long_they_take(call):
    code, out, _ = call("list")
    assert code == 0
    for text in ("toy/figure1", "A toy", "smoke", "12 cells", "a second"):
        assert text in out
    figures = json.loads(call("list", "--json")[1])["figures"]
    assert figures[0]["name"] == "toy/figure1"
    assert figures[0]["presets"]["quick"] == {"about": "12 cells", "takes": "a second"}


def test_doctor_tells_versions_devices_precision_and_data(call):
    code, out, _ = call("doctor")
    assert code == 0
    for text in ("float64", "works", "mnist", "jaxlib", "runs can be written"):
        assert text in out
    findings = json.loads(call("doctor", "--json")[1])
    assert set(findings) == {"ok", "versions", "optional", "devices", "precision", "data", "out"}
    assert set(findings["data"]) == {"mnist", "fashion-mnist", "cifar10", "digits"}


def test_doctor_does_not_blame_float64_for_an_output_that_cannot_be_written(call, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, _ = call("doctor", "--out", "file")
    assert code == 1
    assert "float64        works" in out
    assert "output         FAULT: " in out
    assert "is a file" in out


def test_doctor_exits_1_when_float64_does_not_work(call, monkeypatch):
    from unlazy.experiments import environment

    monkeypatch.setattr(environment, "product_error", lambda dtype: 1e-7)  # noqa: ARG005
    code, out, _ = call("doctor")
    assert code == 1
    assert "float64        FAULT: it fails on the default device" in out


def test_version_and_help(call):
    from unlazy import __version__

    assert call("--version")[:2] == (0, f"unlazy {__version__}\n")
    code, out, _ = call("--help")
    assert code == 0
    assert "doctor" in out
    assert call() == (0, out, "")


def test_help_shows_no_types_of_python(call):
    for command in ([], ["run"], ["measure"], ["diagnose"], ["list"], ["doctor"]):
        out = call(*command, "--help")[1]
        assert "--help" in out
        assert not re.search(r"<\w+.*?>", out)


def test_the_working_folder_can_be_the_output_folder(call, tmp_path):
    assert call("run", "toy/figure1", "--preset", "smoke", "--out", ".")[0] == 0
    assert (tmp_path / "cells").exists()


def test_it_can_be_run_as_a_module():
    words = [sys.executable, "-m", "unlazy", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(unlazy.__version__)


def test_the_command_line_adds_no_heavy_import_of_its_own():
    code = (
        "import sys, unlazy; before = set(sys.modules); import unlazy.cli, unlazy.papers\n"
        "print(*{m.partition('.')[0] for m in set(sys.modules) - before})"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "typer" in child.stdout
    assert not set(child.stdout.split()) & {"jax", "sklearn", "matplotlib", "pyarrow", "scipy"}


DIAGNOSED = """
import jax.numpy as jnp

def diagnose():
    f = lambda w, x: jnp.tanh(x @ w)
    x = jnp.linspace(0.0, 1.0, 24).reshape(8, 3)
    return f, jnp.ones(3), jnp.full(3, 1.1), x, jnp.ones(8)
"""


@pytest.mark.parametrize(
    "command",
    [
        ["measure", "table.csv", "--raw"],
        pytest.param(["diagnose", "model.py"], marks=pytest.mark.slow),
        pytest.param(["run", "arora2019/figure1", "--preset", "smoke"], marks=pytest.mark.slow),
    ],
    ids=lambda command: command[0],
)
def test_a_process_of_its_own_keeps_its_compiled_programs_in_the_users_cache(tmp_path, command):
    rows = [f"{(i + 1) / 7:.3f},{(i * i) % 5},{i % 2}" for i in range(40)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,y", *rows]))
    (tmp_path / "model.py").write_text(DIAGNOSED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment |= {"UNLAZY_CACHE": str(tmp_path / "cache"), "UNLAZY_OUT": str(tmp_path / "out")}
    code = f"from unlazy.cli import main; main({command})"
    child = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=False)
    assert child.returncode == 0
    assert len(list((tmp_path / "cache" / "compiled").rglob("*-cache"))) > 10
    if command[0] == "run":
        assert {path.name for path in (tmp_path / "out").iterdir()} == {"arora2019", "cells"}


def test_a_run_inside_of_a_program_leaves_its_settings_of_jax(call, tmp_path):
    before = dict(jax.config.values)
    assert call("run", "toy/figure1", "--preset", "smoke", "--out", str(tmp_path / "out"))[0] == 0
    assert dict(jax.config.values) == before
    assert not (tmp_path / "out" / "compiled").exists()


def test_every_registered_figure_is_what_it_says(monkeypatch):
    monkeypatch.undo()
    for name in papers.names():
        experiment = papers.get(name)
        assert experiment.name == name
        assert set(experiment.presets) >= {"smoke", "quick", "paper"}
