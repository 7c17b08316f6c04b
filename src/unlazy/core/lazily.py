# SPDX-License-Identifier: Apache-2.0
"""Packages whose names are imported when they are first used.

The stub `__init__.pyi` of a package lists its public names, for people, for type checkers and for
this module. Nothing else is imported until a name is asked for, so that a run pays for what it
uses: one figure needs a fifth of the library.
"""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def public_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from its stub.

    The stub of the package with that `__name__` has lines `from module import name as name`.
    """
    module = sys.modules[package]
    source = _sources(Path(str(module.__file__)).with_suffix(".pyi"))

    def get(name: str) -> Any:
        if name not in source:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if source[name] == package:  # a module of this package
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(source[name]), name)
        setattr(module, name, value)  # found without this function from now on
        return value

    return get, lambda: sorted(source), sorted(source)


def _sources(stub: Path) -> dict[str, str]:
    """The module of each name in a stub."""
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}
