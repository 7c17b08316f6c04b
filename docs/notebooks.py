# SPDX-License-Identifier: Apache-2.0
"""Write the notebooks of the tour and the tutorials: the text and the code of each page, as cells.

    python docs/notebooks.py              write docs/notebooks/*.ipynb
    python docs/notebooks.py --pictures   run the pages, which draw their pictures, in docs/images

Notebooks hold no outputs, and their cells are named by their place, so that the same page gives
the same bytes.
"""

import contextlib
import json
import posixpath
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
PAGES = (DOCS / "tour.md", *sorted((DOCS / "tutorials").glob("*.md")))

_BLOCK = re.compile(r"^```python\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[([^]]*)\]\((?!https?:)([^)]+)\)")
_HERE = re.compile(r"^\[The notebook of this page\].*?\n\n", re.MULTILINE | re.DOTALL)
_INSTALL = "%pip install --quiet unlazy"
_EXTRA = {"steering-your-cnn": " flax"}


def code_of(page: Path) -> list[str]:
    """The Python blocks of a page, in order."""
    return _BLOCK.findall(page.read_text())


def notebook(page: Path) -> str:
    """The notebook of a page, as the text of its file."""
    text = _HERE.sub("", page.read_text())
    cells = [_cell("code", _INSTALL + _EXTRA.get(page.stem, ""), 0)]
    for place, part in enumerate(_BLOCK.split(text)):
        source = part.strip("\n") if place % 2 else _plain_links(part, page).strip()
        if source:
            cells.append(_cell("code" if place % 2 else "markdown", source, len(cells)))
    content = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, source: str, place: int) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": kind, "id": f"cell-{place}", "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": source.splitlines(keepends=True)}


def _plain_links(text: str, page: Path) -> str:
    """Links to other pages as words: an uploaded notebook has no neighbours. Pictures go."""
    folder = page.parent.relative_to(DOCS.parent).as_posix()

    def words(link: re.Match[str]) -> str:
        picture, title, target = link.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        return "" if picture else f"{title} (`{path}`)"

    return _LINK.sub(words, text)


def path_of(page: Path) -> Path:
    """Where the notebook of a page is kept."""
    return DOCS / "notebooks" / f"{page.stem}.ipynb"


def main(arguments: list[str]) -> None:
    """Write all notebooks, or run all pages where their pictures are kept."""
    for page in PAGES:
        if arguments == ["--pictures"]:
            with contextlib.chdir(DOCS / "images"):
                exec(compile("\n".join(code_of(page)), page.name, "exec"), {"__name__": page.stem})
        else:
            path_of(page).write_text(notebook(page))


if __name__ == "__main__":
    main(sys.argv[1:])
