# SPDX-License-Identifier: Apache-2.0
"""Stores whose files were damaged or forged: a cell is read as it was written, or refused.

Some mutants have right checksums, as a forger would see to. Those are read or refused; nothing of
them is run, and no other error comes out. All within a bound on the memory.
"""

import ast
import contextlib
import hashlib
import json
import os
import pickle
import resource
import time
from pathlib import Path

import numpy as np
import pytest

import unlazy
from unlazy.core.errors import StoreError
from unlazy.experiments import Cell, CellResult, DamagedCellError, Store
from unlazy.experiments.leases import EXPIRES, Leases
from unlazy.experiments.store import ARRAYS, CELL, META, TABLE

CELL_A = Cell("toy/figure", 1, None, seed=1)
RESULT = CellResult(
    {"loss": np.array([0.5, 0.25]), "name": np.array(["a", "b"]), "fits": np.array([True, False])},
    {"W": np.ones((2, 2)), "index": np.arange(3)},
)
MOST_MEMORY = 2**30  # bytes that reading a cell of a few kilobytes may ask for


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    store.prepare()
    store.write(CELL_A, RESULT, {"seconds": 1.0})
    store.read(CELL_A)  # what reading imports needs memory too
    return store


@contextlib.contextmanager
def bounded(memory):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def mutant(data, rng):
    """The bytes with a few changes: some flipped, cut off, repeated or replaced."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at, length = (int(rng.integers(0, len(data) + 1)) for _ in range(2))
        kind = rng.integers(0, 5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            data[at : at + 8] = rng.bytes(8)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at:at] = data[at : at + length]
        elif kind == 4:
            data[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"9999", b"\x7f"])
    return bytes(data)


def complaint(store, name, content, *, forged):
    """What is wrong with how the store reads a cell with this file; None if all is well."""
    folder = store.folder(CELL_A)
    (folder / name).write_bytes(content)
    if forged:
        record = json.loads((folder / CELL).read_bytes())
        record["sha256"][name] = hashlib.sha256(content).hexdigest()
        (folder / CELL).write_text(json.dumps(record))
    try:
        found = store.meta(CELL_A) if name == META else store.read(CELL_A)
    except StoreError as error:
        return "several lines" if "\n" in str(error) else None
    except BaseException as error:
        return f"{name}: {type(error).__name__}: {error}"
    if isinstance(found, CellResult) and not forged:
        return None if found.table["loss"].tolist() == [0.5, 0.25] else f"{name}: other numbers"
    return None


def complaints(store, count, seed):
    rng = np.random.default_rng(seed)
    folder, found = store.folder(CELL_A), []
    whole = {name: (folder / name).read_bytes() for name in (CELL, TABLE, ARRAYS, META)}
    with bounded(MOST_MEMORY):
        for number in range(count):
            name = (CELL, TABLE, ARRAYS, META)[number % 4]
            forged = name in (TABLE, ARRAYS) and number % 8 < 4
            problem = complaint(store, name, mutant(whole[name], rng), forged=forged)
            found += [f"{number}: {problem}"] if problem else []
            for one in (name, CELL):
                (folder / one).write_bytes(whole[one])
    return found


def test_a_damaged_or_forged_cell_is_read_or_refused(store):
    assert not complaints(store, 400, seed=1)


@pytest.mark.slow
def test_many_damaged_or_forged_cells_are_read_or_refused(store):
    assert not complaints(store, 100_000, seed=2)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("it was unpickled",))


def test_an_array_of_objects_is_refused_and_not_unpickled(store):
    folder = store.folder(CELL_A)
    np.savez(folder / ARRAYS, W=np.array([Bomb()], dtype=object))
    for content in ((folder / ARRAYS).read_bytes(), pickle.dumps(Bomb())):
        assert complaint(store, ARRAYS, content, forged=True) is None
        with pytest.raises(DamagedCellError):
            store.read(CELL_A)


def test_a_damaged_lease_stops_nobody_for_long(tmp_path):
    rng = np.random.default_rng(3)
    with Leases(tmp_path) as leases:
        assert leases.take("a")
        whole = (tmp_path / "a.0").read_bytes()
        for _ in range(200):
            (tmp_path / "b.0").write_bytes(mutant(whole, rng))
            if not leases.take("b"):  # its process may be known to have ended
                then = time.time() - 1.1 * EXPIRES
                os.utime(tmp_path / "b.0", (then, then))
                assert leases.take("b")
            leases.give_back("b", done=True)
            assert [path.name for path in tmp_path.iterdir()] == ["a.0"]


def test_nothing_that_reads_files_imports_pickle_or_lets_numpy_use_it():
    root = Path(unlazy.__file__).parent
    files = [*(root / "experiments").rglob("*.py"), *(root / "core").rglob("*.py")]
    assert len(files) > 30
    files.remove(root / "experiments/local_worker.py")  # it talks with the process it belongs to
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                assert not {"pickle", "cloudpickle", "dill", "marshal", "shelve"} & set(names), path
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load"):
                options = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert options.get("allow_pickle") == "False", path
