# SPDX-License-Identifier: Apache-2.0
"""Writes `reference.md`: every public name, room by room, from the stubs that list them."""

import ast
from pathlib import Path

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "unlazy"
ROOMS = (
    *("taylor", "kernels", "dynamics", "labels", "certificates", "curvature", "escape", "train"),
    *(
        "laziness",
        "estimators",
        "data",
        "nets",
        "activations",
        "losses",
        "linalg",
        "special",
        "core",
    ),
    *("experiments", "papers.arora2019", "papers.bai_lee2020", "papers.allenzhu_li_liang2019"),
    *("papers.allenzhu_li2019", "papers.nichani2022", "papers.shared"),
)


def page() -> str:
    """The text of the page."""
    return "\n\n".join(["# Reference", *(_room(room) for room in ROOMS)]) + "\n"


def _room(room: str) -> str:
    folder = SOURCE / room.replace(".", "/")
    if not folder.is_dir():
        return f"## {room}\n\n::: unlazy.{room}\n    options:\n      show_root_heading: false"
    about = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    stub = ast.parse((folder / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = [(alias.name, node.module) for node in imports for alias in node.names]
    listed = [f"::: {module}.{name}" for name, module in sorted(names)]
    return "\n\n".join([f"## {room}", str(about), *listed])


if __name__ == "__main__":
    (DOCS / "reference.md").write_text(page())
