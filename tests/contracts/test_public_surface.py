# SPDX-License-Identifier: Apache-2.0
"""Every public name imports, explains itself, and every room calls only the rooms above it."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import unlazy

SOURCE = Path(unlazy.__file__).parent
# DESIGN: data flows one way; what supports every room comes first.
ROOMS = (
    *(
        "errors",
        "machine",
        "numbers_in_json",
        "drawing",
        "fitting",
        "entries",
        "checks",
        "turns",
        "compiling",
        "special",
        "linalg",
        "draws",
        "activation_families",
        "activations",
        "losses",
        "data",
        "nets",
    ),
    *("taylor", "kernels"),
    *("dynamics", "bounds", "escape", "construct", "landscape", "train", "diagnose"),
    *("estimators", "experiments", "measure", "papers"),
    *("interrupts", "streams", "cli", "__main__"),
)
PACKAGES = [
    info.name for info in pkgutil.iter_modules([str(SOURCE)]) if info.name not in ("__main__",)
]


def public_names():
    for package in PACKAGES:
        module = importlib.import_module(f"unlazy.{package}")
        for name in getattr(module, "__all__", []):
            yield pytest.param(getattr(module, name), id=f"{package}.{name}")


def imported_rooms(path):
    """The rooms of unlazy that a file imports, at the top or inside of functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "unlazy" else []
            if node.module == "unlazy":
                names = [f"unlazy.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "unlazy" and len(parts) > 1 and parts[1] in ROOMS:
                yield parts[1]


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_a_room_calls_only_the_rooms_above_it(path):
    room = room_of(path)
    if room == "__init__":
        return
    assert room in ROOMS, f"{room} has no place in the house"
    below = {other for other in imported_rooms(path) if ROOMS.index(other) > ROOMS.index(room)}
    assert not below


@pytest.mark.parametrize("thing", list(public_names()))
def test_every_public_name_has_a_docstring_with_a_source_for_its_formula(thing):
    text = inspect.getdoc(thing)
    if not (inspect.isclass(thing) or inspect.isroutine(thing) or hasattr(thing, "__wrapped__")):
        return  # an alias or a constant, documented where it is defined
    assert text
    assert "$$" not in text or "Source:" in text


def methods(thing):
    """A function itself; of a class its public methods."""
    if not inspect.isclass(thing):
        return [thing]
    public = (m for name, m in vars(thing).items() if name == "__call__" or name[0] != "_")
    functions = (getattr(m, "__func__", getattr(m, "method", m)) for m in public)
    # A field may hold a private function, as its default.
    return [f for f in functions if getattr(f, "__qualname__", "").startswith(thing.__name__)]


def is_entry(function):
    while function is not None:
        if getattr(function, "is_entry", False):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


@pytest.mark.parametrize("thing", list(public_names()))
def test_every_public_function_explains_its_failures(thing):
    if getattr(thing, "_is_protocol", False) or getattr(thing, "__module__", "")[:6] != "unlazy":
        return
    for function in methods(thing):
        if inspect.isfunction(function) and function.__module__[:6] == "unlazy":
            parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
            assert is_entry(function) or not parameters, function


def test_no_private_module_of_jax_is_imported():
    for path in SOURCE.rglob("*.py"):
        assert "jax._src" not in path.read_text(), path


def test_every_file_opens_with_its_licence():
    for folder in ("src", "tests", "benchmarks"):
        for path in (SOURCE.parents[1] / folder).rglob("*.py"):
            assert path.read_text().startswith("# SPDX-License-Identifier: Apache-2.0\n"), path


def test_the_names_promised_at_the_top_are_there():
    for name in unlazy.__all__:
        assert getattr(unlazy, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = unlazy.nothing  # pyright: ignore[reportAttributeAccessIssue]  # on purpose


def test_importing_unlazy_changes_nothing_and_brings_in_nothing_heavy():
    code = (
        "import sys, unlazy; heavy = {'jax', 'sklearn', 'matplotlib'} & set(sys.modules);"
        "assert not heavy, heavy; import jax; unlazy.kernels; assert not jax.config.jax_enable_x64"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
