# SPDX-License-Identifier: Apache-2.0
"""Writes `reference.md` and `reference/`: every public name, one page per room, from the stubs.

The pages hold names alone; what is said of them is read from docstrings when the site is built.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "unlazy"
ROOMS = {
    "For your own model and data": (
        *("taylor", "kernels", "dynamics", "labels", "certificates", "curvature", "escape"),
        *("train", "laziness", "estimators"),
    ),
    "What they lean on": (
        *("data", "nets", "activations", "losses", "linalg", "special", "core", "experiments"),
    ),
    "One room per paper": (
        *("papers.arora2019", "papers.bai_lee2020", "papers.allenzhu_li_liang2019"),
        *("papers.allenzhu_li2019", "papers.nichani2022", "papers.shared"),
    ),
}
TOP = {  # names of `unlazy` itself, and the rooms that they live in
    "activation": "activations",
    "Activation": "activations",
    "diagnose": "laziness",
    "polynomial": "activations",
    "Probe": "laziness",
}


class Name(NamedTuple):
    """A public name and the first line of its docstring."""

    name: str
    summary: str


def pages() -> dict[str, str]:
    """The text of every page, by its path from `docs/`."""
    rooms = [room for group in ROOMS.values() for room in group]
    return {"reference.md": _index()} | {f"reference/{room}.md": _page(room) for room in rooms}


def _index() -> str:
    top = [_row(name, room) for name, room in TOP.items()]
    parts = [
        "---\nsearch:\n  exclude: true  # what it lists is found on the pages of the rooms\n---",
        "# Reference",
        "Every public name with the first line of its docstring, and one page per room. Find a "
        "name with the search above, or on this page with the browser's own.",
        "`import unlazy as ul` has the rooms, as `ul.kernels`, and these names:",
        _table(top),
    ]
    for group, rooms in ROOMS.items():
        parts.append(f"## {group}")
        for room in rooms:
            parts += [f"### [{room}](reference/{room}.md)", _about(room).partition("\n\n")[0]]
            parts.append(_table([_row(entry.name, room) for entry in _names(room)]))
    return "\n\n".join(parts) + "\n"


def _page(room: str) -> str:
    entries = [f"::: unlazy.{room}.{entry.name}" for entry in _names(room)]
    links = [f"[`{entry.name}`](#unlazy.{room}.{entry.name})" for entry in _names(room)]
    about = [f"# unlazy.{room}", _about(room), " · ".join(links)]
    return "\n\n".join([*about, *entries]) + "\n"


def _table(rows: list[str]) -> str:
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def _row(name: str, room: str) -> str:
    [summary] = [entry.summary for entry in _names(room) if entry.name == name]
    return f"| [`{name}`](reference/{room}.md#unlazy.{room}.{name}) | {summary} |"


def _about(room: str) -> str:
    return str(ast.get_docstring(_parse(_file(f"unlazy.{room}"))))


@cache
def _names(room: str) -> list[Name]:
    module = _file(f"unlazy.{room}")
    if module.name != "__init__.py":
        found = [(name, module) for name in _listed(_parse(module))]
    else:
        stub = _parse(module.with_suffix(".pyi"))
        imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
        found = [(alias.name, _file(str(node.module))) for node in imports for alias in node.names]
    return [Name(name, _summary(name, module)) for name, module in sorted(found)]


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _listed(module: ast.Module) -> list[str]:
    """The names in `__all__`."""
    [names] = [
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return ast.literal_eval(names)


def _file(module: str) -> Path:
    path = SOURCE.parent / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _summary(name: str, module: Path) -> str:
    """The first sentence of the docstring of a name, or of the string below its assignment."""
    body = _parse(module).body
    for i, node in enumerate(body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return _first_line(ast.get_docstring(node))
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            after = body[i + 1] if i + 1 < len(body) else None
            if ast.unparse(target) == name:
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                return _first_line(after.value.value) if is_text else ""
    raise LookupError(f"{module} does not define {name}.")


def _first_line(docstring: str | None) -> str:
    """The first paragraph as a cell of a table, in which a bar would end the cell."""
    text = re.sub(r"\s+", " ", (docstring or "").partition("\n\n")[0]).strip()
    return re.sub(r"\$[^$]+\$", lambda formula: formula[0].replace("|", r"\vert "), text)


if __name__ == "__main__":
    (DOCS / "reference").mkdir(exist_ok=True)
    written = pages()
    for old in (DOCS / "reference").glob("*.md"):
        if f"reference/{old.name}" not in written:
            old.unlink()
    for path, text in written.items():
        (DOCS / path).write_text(text)
