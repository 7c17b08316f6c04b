# SPDX-License-Identifier: Apache-2.0
"""The stored notebooks are those of the pages, whose code `test_documents` runs."""

import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
_SPEC = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
assert _SPEC is not None
assert _SPEC.loader is not None
notebooks = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(notebooks)

pages = pytest.mark.parametrize("page", notebooks.PAGES, ids=lambda page: page.stem)


@pages
def test_the_stored_notebook_is_that_of_its_page(page):
    stored = notebooks.path_of(page).read_text()
    assert stored == notebooks.notebook(page), "run `python docs/notebooks.py`"


@pages
def test_a_notebook_holds_the_code_of_its_page_and_an_installation(page):
    cells = json.loads(notebooks.path_of(page).read_text())["cells"]
    install, *code = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert install.startswith("%pip install --quiet unlazy")
    assert code == [block.rstrip("\n") for block in notebooks.code_of(page)]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")


@pages
def test_a_notebook_is_valid(page):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(notebooks.path_of(page), as_version=4))


@pages
def test_a_page_has_its_notebook_a_picture_and_ten_to_fifteen_steps(page):
    text = page.read_text()
    assert f"notebooks/{page.stem}.ipynb)" in text
    assert f"images/{page.stem}.png)" in text
    assert (DOCS / "images" / f"{page.stem}.png").stat().st_size < 120_000
    assert 10 <= text.count("\n## ") - 1 <= 15


def test_no_other_notebook_is_stored():
    assert {path.name for path in (DOCS / "notebooks").glob("*")} == {
        f"{page.stem}.ipynb" for page in notebooks.PAGES
    }
