# SPDX-License-Identifier: Apache-2.0
"""What the documents show runs: every Python block, in order, in one namespace a page."""

import re
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


SLOW = (  # they train networks
    *("good-directions.md", "beyond-two-layers.md", "monitoring.md", "cluster.md"),
    *("past-the-ntk.md", "steering-your-cnn.md", "what-no-kernel-learns.md"),
    "what-the-ntk-predicts.md",
    *("diagnose-flax.md", "diagnose-pytorch.md", "diagnose-fine-tuning.md"),
)
EXAMPLES = [
    pytest.param(page, id=_name(page), marks=pytest.mark.slow if page.name in SLOW else ())
    for page in PAGES
    if BLOCK.search(page.read_text())
]


@pytest.mark.parametrize("page", EXAMPLES)
def test_every_example_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # pages save figures where they are run
    namespace: dict[str, object] = {"__name__": "page"}
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):  # as users have it
        for block in BLOCK.findall(page.read_text()):
            exec(compile(block, page.name, "exec"), namespace)
    plt.close("all")
    assert "ul" in namespace


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_local_link_leads_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target
