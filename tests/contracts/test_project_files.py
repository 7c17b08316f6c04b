# SPDX-License-Identifier: Apache-2.0
"""Files that other services read say what the project itself says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKFLOW = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
PROJECT = (ROOT / "pyproject.toml").read_text()


def test_the_workflow_calls_targets_that_the_makefile_has():
    makefile = (ROOT / "Makefile").read_text().replace("$(VENV)", ".venv")
    targets = set(re.findall(r"run: make (\S+)", WORKFLOW))
    assert targets == {".venv/.test", "test", "test-all", "docs"}
    assert all(re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE) for target in targets)


def test_the_workflow_tests_the_oldest_versions_that_are_allowed():
    [python] = re.findall(r'requires-python = ">=([\d.]+)"', PROJECT)
    [jax] = re.findall(r'"jax>=([\d.]+),', PROJECT)
    assert f'python: "{python}", jax: oldest, install: "jax=={jax} jaxlib=={jax}"' in WORKFLOW


def test_the_citation_names_every_paper_by_the_number_in_the_gallery():
    citation = (ROOT / "CITATION.cff").read_text()
    cited = set(re.findall(r"arXiv:(\d+\.\d+)", citation))
    assert cited == {"1901.08584", "1910.01619", "1811.04918", "1905.10337", "2206.03688"}
    gallery = {page: page.read_text() for page in (ROOT / "docs" / "gallery").glob("*.md")}
    numbers = [set(re.findall(r"arXiv:(\d+\.\d+)", text)) for text in gallery.values()]
    assert set.union(*numbers) == cited
    assert all(numbers), "a page of the gallery does not name its paper"
