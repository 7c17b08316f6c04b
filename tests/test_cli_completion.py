# SPDX-License-Identifier: Apache-2.0
"""Completion as shells ask for it: by environment variables, of a process of its own."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from unlazy import papers
from unlazy.papers import catalogue

UNLAZY = [sys.executable, "-m", "unlazy"]


def call(words, folder, **settings):
    """Standard output of the command line; standard error must be empty."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        words,
        cwd=folder,
        env={**environment, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout


def bash(line, folder):
    """The words that bash would offer for the last one."""
    place = str(len(line.split(" ")) - 1)
    settings = {"_UNLAZY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": place}
    return call(UNLAZY, folder, **settings).split("\n")[:-1]


def zsh(line, folder):
    """The expression that zsh would evaluate."""
    return call(UNLAZY, folder, _UNLAZY_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)


def fish(line, folder):
    """The words that fish would offer, without their descriptions."""
    settings = {"_UNLAZY_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    lines = call(UNLAZY, folder, _TYPER_COMPLETE_ARGS=line, **settings).splitlines()
    return [line.partition("\t")[0] for line in lines]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("unlazy d", ["diagnose", "doctor"]),
        ("unlazy run arora", ["arora2019/figure1", "arora2019/figure2"]),
        ("unlazy run arora2019/figure1 arora", ["arora2019/figure2"]),
        ("unlazy run --preset smoke nichani2022/t", ["nichani2022/theorem1"]),
        ("unlazy run --preset q", ["quick"]),
        (
            "unlazy run arora2019/figure1 --preset ",
            ["smoke", "quick", "paper", "lazy", "norm-one"],
        ),
        ("unlazy run arora2019/figure1 arora2019/figure2 --preset ", ["smoke", "quick", "paper"]),
        ("unlazy run --all --f", ["--force"]),
        ("unlazy measure table.csv --task c", ["classify"]),
        ("unlazy measure t", ["table.csv", "table.npz"]),
        ("unlazy diagnose t", ["table.py"]),
        ("unlazy doctor --out ", [""]),  # the shell completes folders
    ],
)
def test_bash_is_offered_commands_figures_presets_and_files(line, words, tmp_path):
    for ending in ("csv", "npz", "py", "txt"):
        (tmp_path / f"table.{ending}").touch()
    assert bash(line, tmp_path) == words


def test_zsh_and_fish_are_offered_the_same(tmp_path):
    names = ["arora2019/figure1", "arora2019/figure2"]
    offered = "\n".join(f'"{name}"' for name in names)
    assert zsh("unlazy run arora", tmp_path) == f"_arguments '*: :(({offered}))'\n"
    assert fish("unlazy run arora", tmp_path) == names
    assert fish("unlazy run --preset q", tmp_path) == ["quick"]
    assert zsh("unlazy doctor --out ", tmp_path) == "_files\n"


@pytest.mark.parametrize("name", ["folder", "table of mine.csv"])
def test_folders_and_names_that_need_quotes_are_left_to_the_shell(name, tmp_path):
    (tmp_path / "table.csv").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "table of mine.csv").touch()
    assert bash(f"unlazy measure {name[:1]}", tmp_path) == [""]
    (tmp_path / "folder" / "a.tsv").touch()
    assert bash("unlazy measure folder/", tmp_path) == ["folder/a.tsv"]
    assert bash("unlazy measure absent/", tmp_path) == [""]


def test_it_answers_in_well_under_a_second_without_jax(tmp_path):
    code = (
        "import sys; from unlazy import cli\n"
        "try: cli.main()\n"
        "finally: print(*{m.partition('.')[0] for m in sys.modules}, file=sys.stdout)"
    )
    settings = {"_UNLAZY_COMPLETE": "complete_bash", "COMP_CWORD": "3"}
    line = "unlazy run --preset q"
    started = time.monotonic()
    out = call([sys.executable, "-c", code], tmp_path, COMP_WORDS=line, **settings)
    assert time.monotonic() - started < 5  # a third of a second on a quiet machine
    first, _, modules = out.partition("\n")
    assert first == "quick"
    assert not set(modules.split()) & {"jax", "sklearn", "matplotlib", "pyarrow", "scipy"}


def test_the_names_of_presets_are_those_of_the_figures():
    for name in papers.names():
        assert set(catalogue.preset_names(name)) == set(papers.get(name).presets)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_shell_shows_and_installs_its_completion(tmp_path):
    program = tmp_path / "bin" / "unlazy"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m unlazy "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"

    def in_bash(line):
        # Not as the last command of the shell, which would then take its place.
        script = f"{line}; true"
        return call(["bash", "-c", script], tmp_path, HOME=str(tmp_path), PATH=path)

    shown = in_bash("unlazy --show-completion")
    assert "complete -o default -F _unlazy_completion unlazy" in shown
    assert shown.strip() == in_bash("_UNLAZY_COMPLETE=source_bash unlazy").strip()
    assert "bash completion installed in" in in_bash("unlazy --install-completion")
    assert ".bash_completions/unlazy.sh" in (tmp_path / ".bashrc").read_text()
    asked = (
        "source .bash_completions/unlazy.sh; COMP_CWORD=4\n"
        "COMP_WORDS=(unlazy run arora2019/figure1 --preset l)\n"
        "_unlazy_completion unlazy; echo ${COMPREPLY[@]}"
    )
    assert in_bash(asked) == "lazy\n"
