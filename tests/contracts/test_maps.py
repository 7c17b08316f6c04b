# SPDX-License-Identifier: Apache-2.0
"""The maps of the papers are true: what they name exists, and what the source cites is in them."""

import ast
import importlib
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from unlazy import papers

ROOT = Path(__file__).parents[2]
MAPS = sorted((ROOT / "docs" / "papers").glob("*.md"))
IDENTIFIER = re.compile(r"\b(?:AR|BL|LG|NB|RN)-[A-Z]?\d+[a-z]?\b")
COUNTS = re.compile(r"(\d+) statements.*?(\d+) have a function.*?(\d+) have none", re.DOTALL)


class Row(NamedTuple):
    """One statement of a paper."""

    id: str
    where: str
    statement: str
    function: str
    test: str
    verdict: str

    @property
    def names(self) -> list[str]:
        """The functions, classes and figures that have it."""
        return [] if self.function.startswith("none") else re.findall(r"`([^`]+)`", self.function)


def rows(page: Path) -> list[Row]:
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.read_text().splitlines()]
    table = [Row(*(cell.strip() for cell in row)) for row in cells if len(row) == 6]
    return [row for row in table if (row.id != "id" and set(row.id) != {"-"}) or row.id == "-"]


ALL = {page.stem: rows(page) for page in MAPS}


def is_there(name: str) -> bool:
    """Whether `unlazy.<name>` exists: a figure, or modules, then classes, then their parts."""
    if "/" in name:
        return name in papers.names()
    value = importlib.import_module("unlazy")
    for part in name.split("."):
        fields = getattr(value, "__dataclass_fields__", {})
        if not hasattr(value, part):
            if part in fields:
                return True
            try:
                importlib.import_module(f"{value.__name__}.{part}")
            except (ModuleNotFoundError, AttributeError):
                return False
        value = getattr(value, part)
    return True


def test_there_is_a_map_of_each_paper():
    assert set(ALL) == {name.split("/")[0] for name in papers.names()}


def test_every_identifier_that_is_cited_is_in_the_map():
    known = {row.id.split("/")[0] for table in ALL.values() for row in table}
    cited = {}
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    for path in [*files, *(ROOT / "docs").rglob("*.md")]:
        for found in IDENTIFIER.findall(path.read_text()):
            cited.setdefault(found, path.name)
    assert {found: name for found, name in cited.items() if found not in known} == {}


@pytest.mark.parametrize("paper", sorted(ALL))
def test_every_function_of_a_map_exists(paper):
    names = {name for row in ALL[paper] for name in row.names}
    assert {name for name in names if not is_there(name)} == set()


@pytest.mark.parametrize("paper", sorted(ALL))
def test_every_test_of_a_map_exists(paper):
    trees = (ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py"))
    known = {n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    named = {name for row in ALL[paper] for name in re.findall(r"`([^`]+)`", row.test)}
    assert named - known == set()


@pytest.mark.parametrize("paper", sorted(ALL))
def test_a_statement_has_a_function_and_a_check_or_a_reason(paper):
    for row in ALL[paper]:
        if row.function.startswith("none"):
            assert row.function.startswith("none: "), row
        else:
            assert row.names, row
            assert row.test, row
    identified = [row.id for row in ALL[paper] if row.id != "-"]
    assert len(identified) == len(set(identified))


@pytest.mark.parametrize("paper", sorted(ALL))
def test_a_map_counts_its_statements_without_a_function(paper):
    text = (ROOT / "docs" / "papers" / f"{paper}.md").read_text()
    counts = COUNTS.search(text)
    assert counts is not None
    without = sum(row.function.startswith("none") for row in ALL[paper])
    assert [int(n) for n in counts.groups()] == [
        len(ALL[paper]),
        len(ALL[paper]) - without,
        without,
    ]


def counted(paper: str) -> list[int]:
    """Statements, those with a function, tests that check them, and statements not as printed."""
    table = ALL[paper]
    tests = {name for row in table for name in re.findall(r"`([^`]+)`", row.test)}
    amended = sum(bool(re.search(r"refuted|corrected", row.verdict)) for row in table)
    return [len(table), sum(bool(row.names) for row in table), len(tests), amended]


@pytest.mark.parametrize("paper", sorted(ALL))
def test_the_readme_counts_what_the_map_holds(paper):
    lines = (ROOT / "README.md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("|") and f"papers/{paper}.md" in line]
    assert [int(cell) for cell in line.split("|")[3:-1]] == counted(paper)
