# SPDX-License-Identifier: Apache-2.0
"""What the documents show runs: every Python block, in order, in one namespace a page."""

import re
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


SLOW = (  # they train networks
    *("good-directions.md", "beating-kernels.md", "beyond-two-layers.md", "monitoring.md"),
    *("random-signs.md", "cluster.md"),
    *("diagnose-flax.md", "diagnose-pytorch.md", "diagnose-fine-tuning.md"),
)
EXAMPLES = [
    pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in SLOW else ())
    for page in PAGES
    if BLOCK.search(page.read_text())
]


@pytest.mark.parametrize("page", EXAMPLES)
def test_every_example_runs(page):
    namespace: dict[str, object] = {}
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):  # as users have it
        for block in BLOCK.findall(page.read_text()):
            exec(compile(block, page.name, "exec"), namespace)
    assert "ul" in namespace


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_local_link_leads_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target
