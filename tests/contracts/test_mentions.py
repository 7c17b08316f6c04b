# SPDX-License-Identifier: Apache-2.0
"""Every name that the documents, docstrings and errors mention can be reached as written."""

import ast
import re
import runpy
from pathlib import Path

import pytest

import unlazy as ul

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCE = Path(ul.__file__).parent
NAMES = {"Activation", "activation", "polynomial", "diagnose", "Probe"}  # at the top, in no room
ROOMS = "|".join(sorted(set(dir(ul)) - NAMES))
# As `ul.room.name`; as `room.name` in backquotes; as advice, "Use room.name" or "Call room.name".
FULL = re.compile(r"\bul\.([A-Za-z_]+(?:\.[A-Za-z_]\w*)*)")
SHORT = re.compile(
    rf"(?:`|\b(?:[Cc]all|[Uu]se|[Pp]ass) )((?:{ROOMS})\.[A-Za-z_][\w.]*\w)(?:`|\(|\.)"
)


def strings(path: Path) -> str:
    """The text of all strings of a source file: docstrings and messages."""
    tree = ast.parse(path.read_text())
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return "\n".join(text for text in texts if isinstance(text, str))


def is_reachable(name: str) -> bool:
    """Whether `ul.<name>` resolves, as far as it consists of rooms, classes and functions."""
    value = ul
    for part in name.split("."):
        fields = getattr(value, "__dataclass_fields__", {})
        if part in fields or not hasattr(value, part):
            return part in fields
        value = getattr(value, part)
    return True


REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize("room", sorted(page.stem for page in REFERENCE.glob("*.md")))
def test_every_room_of_the_reference_is_reachable(room):
    assert is_reachable(room)
    assert room.split(".")[0] in dir(ul)
    for name in re.findall(r"^::: unlazy\.([\w.]+)", (REFERENCE / f"{room}.md").read_text(), re.M):
        assert is_reachable(name), name


def test_the_reference_lists_every_public_name():
    # If not: python docs/reference.py
    written = runpy.run_path(str(ROOT / "docs" / "reference.py"))["pages"]()
    found = {REFERENCE.with_suffix(".md"), *REFERENCE.glob("*.md")}
    assert {ROOT / "docs" / path for path in written} == found
    for path, text in written.items():
        assert text == (ROOT / "docs" / path).read_text(), path
    index = written["reference.md"]
    rooms = re.findall(r"^### \[(\w+)", index, re.MULTILINE)
    assert set(rooms) == set(dir(ul)) - NAMES
    top = index.split("\n## ")[0]
    assert set(re.findall(r"^\| \[`(\w+)`\]", top, re.MULTILINE)) == NAMES


def test_every_name_in_the_documents_is_reachable():
    missing = {
        (page.name, name)
        for page in PAGES
        for name in FULL.findall(page.read_text())
        if not is_reachable(name)
    }
    assert not missing


def test_every_name_in_docstrings_and_messages_is_reachable():
    texts = {path: strings(path) for path in SOURCE.rglob("*.py")}
    missing = {
        (str(path.relative_to(SOURCE)), name)
        for path, text in texts.items()
        for pattern in (FULL, SHORT)
        for name in pattern.findall(text)
        if not is_reachable(name)
    }
    assert not missing


def test_dir_and_all_are_true():
    for name in dir(ul):
        assert getattr(ul, name) is not None
    assert set(ul.__all__) == set(dir(ul))  # pyright: ignore[reportAttributeAccessIssue]  # not in the stub
    assert list(dir(ul)) == sorted(dir(ul))
    for room in (ul.dynamics, ul.losses, ul.activations, ul.kernels):
        assert set(dir(room)) == set(room.__all__), room  # pyright: ignore[reportAttributeAccessIssue]  # not in the stub


def test_the_tour_of_the_house_leads_to_files():
    tour = (ROOT / "CONTRIBUTING.md").read_text().split("### A tour")[1].split("\n## ")[0]
    answers = [line.split("|")[2] for line in tour.splitlines() if line.startswith("|")][2:]
    assert len(answers) >= 10
    for answer in answers:
        paths = re.findall(r"`([\w/]+\.(?:py|md))`", answer)
        assert paths, answer
        assert all((SOURCE / path).exists() or (ROOT / path).exists() for path in paths), answer
