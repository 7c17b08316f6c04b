# SPDX-License-Identifier: Apache-2.0
"""The site holds together: every link leads to its place, and nothing is asked of another host.

The sources are checked wherever the tests run; the site itself where the `docs` extra is installed.
"""

import re
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
SETTINGS = (ROOT / "mkdocs.yml").read_text()
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)")
# Two displayed formulas on neighbouring lines are read as one, with dollar signs inside.
ADJACENT = re.compile(r"\$\$\n[ \t]*\$\$\S")


def prose(page: Path) -> str:
    """The text of a page without code."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)[^`\n]*\1", lambda code: re.sub(r"[\[\]()]", "", code[0]), text)


def anchors(page: Path) -> set[str]:
    """What a link can point to: headings, as Python-Markdown names them, and documented names."""
    text = prose(page)
    found: set[str] = set(re.findall(r"^::: ([\w.]+)", text, re.MULTILINE))
    found |= set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#{1,6} +(.+?)(?: #+)?$", text, re.MULTILINE):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        plain = re.sub(r"[`*]", "", plain)
        plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        name, count = slug, 0
        while name in found:
            count += 1
            name = f"{slug}_{count}"
        found.add(name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_link_of_a_page_leads_to_a_place_within_the_site(page):
    for target in LINK.findall(prose(page)):
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), target
        assert file.is_relative_to(DOCS.resolve()), f"{target} is not part of the site"
        if anchor:
            assert anchor in anchors(file), target


def test_every_page_is_in_the_navigation_once():
    listed = re.findall(r"([\w./-]+\.md)$", SETTINGS.split("nav:")[1].split("\ntheme:")[0], re.M)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_the_sources_ask_nothing_of_another_host():
    assert not re.findall(r"https?://", SETTINGS)
    assert "font: false" in SETTINGS
    # The theme would fetch a script for each of these.
    assert not re.search(r"glightbox|repo_url|mermaid|navigation\.instant|analytics", SETTINGS)
    for page in PAGES:
        assert not re.search(r"!\[[^\]]*\]\(https?:|<(?:img|script|link)\b", prose(page)), page
        assert "```mermaid" not in page.read_text(), page
    for style in DOCS.rglob("*.css"):
        urls = re.findall(r"url\(([^)]+)\)", style.read_text())
        assert all((style.parent / url).is_file() for url in urls), style
    for script in re.findall(r"assets/[\w./-]+", SETTINGS):
        assert (DOCS / script).is_file(), script


def test_scripts_of_others_come_with_their_licence():
    assert all(
        (DOCS / "assets" / name / "LICENSE").is_file() for name in ("katex", "iframe-worker")
    )


def test_displayed_formulas_stand_apart():
    files = [*PAGES, *(ROOT / "src").rglob("*.py")]
    assert not [str(file) for file in files if ADJACENT.search(file.read_text())]


class Page(HTMLParser):
    """The links, the resources and the anchors of a built page."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.anchors: set[str] = set()
        self.classes: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what the tag refers to."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.classes |= set(given.get("class", "").split())
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.resources.append(given["href"])
        elif "src" in given:
            self.resources.append(given["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built from a copy of the sources."""
    if find_spec("zensical") is None or find_spec("mkdocstrings_handlers") is None:
        pytest.skip("the docs extra is not installed: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


def built_pages(site: Path) -> Iterator[tuple[Path, Page]]:
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":  # its links start at the root of a server
            yield path, Page(path)


@pytest.mark.slow
def test_every_link_of_the_built_site_leads_to_a_place_and_no_resource_is_elsewhere(site):
    pages = dict(built_pages(site))
    assert len(pages) == len(PAGES)
    for path, page in pages.items():
        assert not page.classes & {"mermaid", "glightbox"}, path  # fetched by the theme's script
        for target in page.links + page.resources:
            where = f"{path.relative_to(site)}: {target}"
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                assert target in page.links or parts.scheme == "data", where
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert file.is_file(), where
            if parts.fragment and file in pages:
                assert unquote(parts.fragment) in pages[file].anchors, where


@pytest.mark.slow
def test_the_search_of_the_built_site_knows_every_public_name(site):
    index = (site / "search.js").read_text()
    names = re.findall(r"^\| \[`(\w+)`\]", (DOCS / "reference.md").read_text(), re.MULTILINE)
    assert len(names) > 400
    assert not [name for name in names if name not in index]
