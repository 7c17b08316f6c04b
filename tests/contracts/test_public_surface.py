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
    *("core", "special", "linalg", "activations", "losses", "data", "nets"),
    *("taylor", "kernels", "dynamics", "labels", "certificates", "curvature", "escape", "train"),
    *("laziness", "estimators", "experiments"),
    # A paper may use what an earlier one proved.
    *("papers.shared", "papers.arora2019", "papers.bai_lee2020", "papers.allenzhu_li_liang2019"),
    *("papers.allenzhu_li2019", "papers.nichani2022"),
    *("papers.catalogue", "papers", "options", "surroundings", "cli", "__main__"),
)
PACKAGES = [
    *(info.name for info in pkgutil.iter_modules([str(SOURCE)]) if info.name != "__main__"),
    *(room for room in ROOMS if room.startswith("papers.") and room != "papers.catalogue"),
]


def public_names():
    for package in PACKAGES:
        module = importlib.import_module(f"unlazy.{package}")
        for name in getattr(module, "__all__", []):
            yield pytest.param(getattr(module, name), id=f"{package}.{name}")


def imported_names(path):
    """The dotted names that a file imports, at the top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room_of(name):
    """The room of a dotted name such as `unlazy.kernels.mlp.ntk`; None of another library's."""
    parts = name.split(".")
    if parts[0] != "unlazy":
        return None
    return next((r for r in (".".join(parts[1:3]), ".".join(parts[1:2])) if r in ROOMS), None)


FILES = sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pyi")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_calls_only_the_rooms_above_it(path):
    place = path.relative_to(SOURCE).with_suffix("")
    if place.parts == ("__init__",):
        return
    room = room_of(".".join(("unlazy", *place.parts)))
    assert room is not None, f"{place} has no place in the house"
    found = {name: room_of(name) for name in imported_names(path)}
    below = {name for name, r in found.items() if r and ROOMS.index(r) > ROOMS.index(room)}
    # Promised by its old name in `train`, where people look for it; it lives in its paper's room.
    below -= {"unlazy.papers.allenzhu_li_liang2019.three_layer_algorithm.three_layer_sgd"}
    assert not below


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("__init__.pyi")), ids=str)
def test_no_public_name_is_also_the_name_of_a_module_beside_it(path):
    # Importing the module would hide the function of the same name.
    modules = {info.name for info in pkgutil.iter_modules([str(path.parent)])}
    package = ".".join(("unlazy", *path.parent.relative_to(SOURCE).parts))
    named = (name.rpartition(".") for name in imported_names(path))
    assert not {name for source, _, name in named if source != package} & modules


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


def test_float64_is_entered_by_its_one_scope():
    for path in SOURCE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        used = any(isinstance(node, ast.Attribute) and node.attr == "enable_x64" for node in nodes)
        assert not used or path.name == "float64.py", path


def test_every_file_opens_with_its_licence():
    for folder in ("src", "tests", "benchmarks"):
        for path in (SOURCE.parents[1] / folder).rglob("*.py"):
            assert path.read_text().startswith("# SPDX-License-Identifier: Apache-2.0\n"), path


def test_the_names_promised_at_the_top_are_there():
    for name in dir(unlazy):
        assert getattr(unlazy, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = unlazy.nothing  # pyright: ignore[reportAttributeAccessIssue]  # on purpose


def test_importing_unlazy_changes_nothing_and_brings_in_nothing_heavy():
    code = (
        "import sys, unlazy; heavy = {'jax', 'sklearn', 'matplotlib'} & set(sys.modules);"
        "assert not heavy, heavy; import jax; unlazy.kernels; assert not jax.config.jax_enable_x64"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


INSTRUMENTS = ("taylor", "kernels", "curvature", "dynamics", "labels", "certificates")


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.relative_to(SOURCE).parts[0].split(".")[0] in INSTRUMENTS],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_an_instrument_knows_no_learner(path):
    # Where a learner has a closed form, it offers it and the instrument asks for it.
    allowed = {"unlazy.nets.partition", "unlazy.nets.combine"}
    assert not {name for name in imported_names(path) if room_of(name) == "nets"} - allowed


def test_no_file_is_longer_than_one_concept_takes():
    # If one is: which part of it is a concept of its own?
    assert not [path for path in FILES if len(path.read_text().splitlines()) > 400]
