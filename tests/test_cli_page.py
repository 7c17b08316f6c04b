# SPDX-License-Identifier: Apache-2.0
"""The page on the command line names every option of every command, and no other."""

import re
from pathlib import Path

import pytest
import typer.main

from unlazy import cli

PAGE = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text()
PROGRAM = typer.main.get_command(cli.app)
COMMANDS = {"unlazy": PROGRAM} | {
    f"unlazy {name}": command for name, command in getattr(PROGRAM, "commands", {}).items()
}
SECTIONS = dict(re.findall(r"^## `(unlazy[ \w-]*)`\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))


def real_options(command):
    """The options of a command as the page should show them, such as `--jobs N`."""
    with command.make_context("unlazy", [], resilient_parsing=True) as context:
        params = command.get_params(context)
    options = [param for param in params if param.param_type_name == "option"]
    names = [max(option.opts, key=len) for option in options]  # --help, not -h
    return {f"{name} {option.metavar}".strip() for name, option in zip(names, options, strict=True)}


def shown_options(section):
    return set(re.findall(r"^\| `(--[^`]+)`", section, re.MULTILINE))


def test_every_command_has_a_section_and_every_section_is_of_a_command():
    assert set(SECTIONS) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_shows_the_options_of_its_command_with_their_values(name):
    # The help option is shown once, for all commands.
    expected = real_options(COMMANDS[name]) - ({"--help"} if name != "unlazy" else set())
    assert shown_options(SECTIONS[name]) == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_arguments_and_variables_of_the_environment_are_named(name):
    for param in COMMANDS[name].params:
        if param.param_type_name == "argument":
            assert f"{name} {param.metavar}" in SECTIONS[name]
        if param.envvar:
            assert f"| `{param.envvar}` |" in PAGE


def test_the_exit_codes_are_those_of_the_program():
    assert all(f"| {code} | {what} |" in PAGE for code, what in cli.EXIT_CODES.items())
