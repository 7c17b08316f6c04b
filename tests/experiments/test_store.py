# SPDX-License-Identifier: Apache-2.0
import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from unlazy.core import disk
from unlazy.core.errors import StoreError
from unlazy.experiments import Cell, CellResult, DamagedCellError, Store
from unlazy.experiments.canonical import compact_json
from unlazy.experiments.store import ARRAYS, CELL, META, TABLE, MissingCellError


@dataclass(frozen=True)
class Config:
    n: int = 3


CELL_A, CELL_B = (Cell("toy/figure", 1, Config(), seed=seed) for seed in (1, 2))


def result(value=0.5):
    return CellResult({"loss": np.array([value, 0.25])}, {"W": np.full((2, 2), value)})


def files(folder: Path):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def temporaries(store: Store):
    return list(store.root.rglob(".partial-*"))


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "runs")
    store.prepare()
    return store


def test_what_is_written_is_read_back_with_its_meta(store):
    assert not store.has(CELL_A)
    store.write(CELL_A, result(), {"seconds": 1.5})
    assert store.has(CELL_A)
    assert not store.has(CELL_B)
    assert store.read(CELL_A).table["loss"].tolist() == [0.5, 0.25]
    assert store.read(CELL_A).arrays["W"].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert store.meta(CELL_A) == {"seconds": 1.5}
    assert store.folder(CELL_A).relative_to(store.root).parts[:3] == ("cells", "toy", "figure")


def test_two_writes_differ_in_the_meta_alone(store, tmp_path):
    other = Store(tmp_path / "other")
    other.prepare()
    store.write(CELL_A, result(), {"seconds": 1.5})
    time.sleep(1.1)  # a date hidden in a file has a resolution of a second
    other.write(CELL_A, result(), {"seconds": 2.5})
    one, two = files(store.folder(CELL_A)), files(other.folder(CELL_A))
    assert set(one) == {CELL, TABLE, ARRAYS, META}
    assert {name for name in one if one[name] != two[name]} == {META}


def test_a_stored_cell_stays_unless_it_is_to_be_replaced(store):
    store.write(CELL_A, result(0.5), {})
    store.write(CELL_A, result(0.75), {})
    assert store.read(CELL_A).table["loss"][0] == 0.5
    store.write(CELL_A, result(0.75), {}, replace=True)
    assert store.read(CELL_A).table["loss"][0] == 0.75
    assert not temporaries(store)


def test_remove_takes_the_cell_and_nothing_else(store):
    store.write(CELL_A, result(), {})
    store.write(CELL_B, result(), {})
    store.remove(CELL_A)
    store.remove(CELL_A)
    assert not store.has(CELL_A)
    assert store.has(CELL_B)
    assert not temporaries(store)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", [CELL, TABLE, ARRAYS])
@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink, lambda p: p.write_bytes(b"")])
def test_damage_is_found_and_the_folder_named(store, name, damage):
    store.write(CELL_A, result(), {})
    damage(store.folder(CELL_A) / name)
    with pytest.raises(DamagedCellError, match=store.folder(CELL_A).name):
        store.read(CELL_A)


def test_a_folder_that_holds_another_cell_is_found(store):
    store.write(CELL_A, result(), {})
    os.rename(store.folder(CELL_A), store.folder(CELL_B))
    with pytest.raises(DamagedCellError, match="describes another cell"):
        store.read(CELL_B)


def test_a_cell_that_is_replaced_or_removed_while_it_is_read_is_not_called_damaged(store):
    ended, seen = threading.Event(), []

    def read():
        while not ended.is_set():
            try:
                seen.append(store.read(CELL_A).table["loss"][0])
            except MissingCellError:  # for a moment there is none
                seen.append(None)

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for number in range(20):
            store.write(CELL_A, result(0.5), {}, replace=True)
            if number % 3 == 0:
                store.remove(CELL_A)
        ended.set()
        assert [reader.result() for reader in readers] == [None, None]
    assert {0.5} <= set(seen) <= {0.5, None}


def test_json_nested_too_deeply_is_damage(store):
    store.write(CELL_A, result(), {})
    (store.folder(CELL_A) / CELL).write_bytes(b"[" * 10**5)
    with pytest.raises(DamagedCellError):
        store.read(CELL_A)


@pytest.mark.parametrize("below", ["file", "file/runs", "file/a/b"])
def test_a_file_in_the_way_is_named(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write to the folder .* is a file") as caught:
        Store(tmp_path / below).prepare()
    assert f"'{tmp_path / 'file'}' is a file" in str(caught.value)
    assert "\n" not in str(caught.value)


def fifo(path):
    os.mkfifo(path)


def socket_file(path):
    os.mknod(path, stat.S_IFSOCK | 0o600)


def link_to_nothing(path):
    path.symlink_to("nothing")


def link_to_itself(path):
    path.symlink_to(path)


def folder(path):
    path.mkdir()
    (path / "something").write_text("")


KINDS = {
    "a fifo": fifo,
    "a socket": socket_file,
    "a link to nothing": link_to_nothing,
    "a folder": folder,
}


def put(path, make):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    make(path)


@pytest.mark.parametrize("name", [CELL, TABLE, ARRAYS, META])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_named_and_the_cell_can_be_stored_again(store, name, kind):
    store.write(CELL_A, result(), {})
    put(store.folder(CELL_A) / name, KINDS[kind])
    with pytest.raises(DamagedCellError, match=f"damaged: {name} is {kind}"):
        store.meta(CELL_A) if name == META else store.read(CELL_A)
    store.remove(CELL_A)
    store.write(CELL_A, result(), {"seconds": 1})
    assert store.read(CELL_A).table["loss"][0] == 0.5
    assert not temporaries(store)


@pytest.mark.parametrize("make", [fifo, socket_file, link_to_nothing, link_to_itself, Path.touch])
def test_what_is_no_folder_of_a_cell_is_named_and_the_cell_can_be_stored_again(store, make):
    store.write(CELL_A, result(), {})
    put(store.folder(CELL_A), make)
    assert store.has(CELL_A)
    with pytest.raises(DamagedCellError, match=r"is a (fifo|socket|link to nothing|file)\."):
        store.read(CELL_A)
    store.remove(CELL_A)
    assert not store.has(CELL_A)
    store.write(CELL_A, result(), {})
    assert store.read(CELL_A).table["loss"][0] == 0.5


@pytest.mark.parametrize("place", ["", "cells", "cells/toy", "cells/toy/figure"])
@pytest.mark.parametrize("kind", ["a fifo", "a link to nothing", "a socket"])
def test_what_is_no_folder_of_the_store_is_named_before_anything_is_computed(store, place, kind):
    store.prepare("toy/figure")
    put(store.root / place, KINDS[kind])
    with pytest.raises(StoreError) as caught:
        store.prepare("toy/figure")
    assert f"'{store.root / place}' is {kind}." in str(caught.value)


@pytest.mark.parametrize("call", ["lstat", "open"])
def test_what_may_not_be_read_is_named(store, monkeypatch, call):
    store.write(CELL_A, result(), {})
    real = getattr(os, call)

    def refuse(path, *args, **kwargs):
        if isinstance(path, Path) and path.is_relative_to(store.folder(CELL_A)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, *args, **kwargs)

    # Not by the modes of files, which do not hold for root.
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(StoreError, match=r"cannot read .* permission denied") as caught:
        store.read(CELL_A) if store.has(CELL_A) else None
    assert not isinstance(caught.value, DamagedCellError)
    assert call == "lstat" or f"'{store.folder(CELL_A) / CELL}'" in str(caught.value)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_failed_write_says_why_and_leaves_nothing(store, monkeypatch, code, call):
    store.write(CELL_A, result(), {})
    before = files(store.root)

    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StoreError) as caught:
        store.write(CELL_B, result(), {})
    monkeypatch.undo()
    assert os.strerror(code).lower() in str(caught.value).lower()
    assert f"'{store.root}'" in str(caught.value)
    assert files(store.root) == before
    assert not store.has(CELL_B)
    assert not temporaries(store)


def test_a_disk_that_fills_up_is_found_before_anything_is_computed(store, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError, match="no space left on device"):
        store.prepare()
    assert not temporaries(store)


def test_a_replacement_that_fails_leaves_the_old_cell(store, monkeypatch):
    store.write(CELL_A, result(0.5), {})
    rename, calls = os.rename, []

    def fail_second(source, target):
        calls.append(target)
        if len(calls) == 2:  # the first takes the old cell away, the third brings it back
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail_second)
    with pytest.raises(StoreError, match=os.strerror(errno.EIO).lower()):
        store.write(CELL_A, result(0.75), {}, replace=True)
    assert len(calls) == 3
    assert store.read(CELL_A).table["loss"][0] == 0.5
    assert not temporaries(store)


class Killed(BaseException):
    """Stands for SIGKILL: after it, nothing of the writer touches the disk any more."""


def kill_at(monkeypatch, nth):
    """Let the process die at its nth call that changes the disk; returns the number of calls."""
    calls = [0]

    def mortal(real):
        def call(*args, **kwargs):
            calls[0] += 1
            if calls[0] >= nth:
                raise Killed
            return real(*args, **kwargs)

        return call

    for name in ("fsync", "rename", "mkdir", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, mortal(getattr(os, name)))
    monkeypatch.setattr(disk, "discard", mortal(disk.discard))
    return calls


def one_write(store, monkeypatch, nth, *, replace):
    """Try to write cell A, dying at the nth call; returns how many calls there were."""
    with monkeypatch.context() as patch:
        calls = kill_at(patch, nth)
        with contextlib.suppress(Killed):
            store.write(CELL_A, result(0.75), {}, replace=replace)
        return calls[0]


@pytest.mark.parametrize("replace", [False, True])
def test_a_writer_killed_at_any_call_leaves_a_whole_cell_or_none(tmp_path, monkeypatch, replace):
    calls = one_write(Store(tmp_path / "all"), monkeypatch, 10**6, replace=replace)
    assert calls > 8
    outcomes = set()
    for nth in range(1, calls + 2):
        store = Store(tmp_path / str(nth))
        store.prepare()
        store.write(CELL_B, result(), {})
        if replace:
            store.write(CELL_A, result(0.5), {})
        one_write(store, monkeypatch, nth, replace=replace)
        seen = store.read(CELL_A).table["loss"][0] if store.has(CELL_A) else None
        outcomes.add(seen)
        assert store.read(CELL_B).table["loss"][0] == 0.5
        store.write(CELL_A, result(0.75), {}, replace=True)
        assert store.read(CELL_A).table["loss"][0] == 0.75
    # None also with `replace`: the old cell goes before the new one comes, and is computed again.
    assert outcomes == ({0.5, None, 0.75} if replace else {None, 0.75})


def leftover(store, pid, host=None, age=120.0):
    path = disk.temporary_path(store.root / "cells")
    _, _, rest = path.name.removeprefix(".partial-").partition("-")
    token, _, here = rest.partition("-")
    path = path.with_name(f".partial-{pid}-{token}-{host or here}")
    path.mkdir()
    (path / TABLE).write_bytes(b"half")
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def test_only_what_a_dead_run_left_is_cleared(store):
    dead = 2**22 + 1  # above the largest process number of Linux
    gone = [leftover(store, dead), leftover(store, dead, host="other-machine", age=90_000)]
    kept = [
        leftover(store, os.getpid()),
        leftover(store, dead, host="other-machine"),
        leftover(store, dead, age=1),
    ]
    store.write(CELL_A, result(), {})
    store.prepare()
    assert [path.exists() for path in gone] == [False, False]
    assert [path.exists() for path in kept] == [True, True, True]
    assert store.has(CELL_A)


META_TEXTS = ["{", "", "[]", "null", '{"seconds": NaN}', "[" * 100_000, '{"a": 1e999}']


@pytest.mark.parametrize("text", META_TEXTS)
def test_a_cell_is_found_by_its_digest_whatever_its_meta_says(store, text):
    store.write(CELL_A, result(), {"seconds": 1})
    (store.folder(CELL_A) / META).write_text(text)
    found = store.by_digest(CELL_A.experiment, CELL_A.digest)
    assert found.meta == {}
    assert found.result.table["loss"][0] == 0.5
    (store.folder(CELL_A) / META).unlink()
    assert store.by_digest(CELL_A.experiment, CELL_A.digest).meta == {}


@pytest.mark.parametrize(
    "identity",
    [
        [],
        {},
        CELL_A.identity() | {"seed": "1"},
        CELL_A.identity() | {"version": True},
        CELL_A.identity() | {"experiment": "toy/other"},
        CELL_A.identity() | {"config": [[[[]]]] * 2, "more": 1},
    ],
)
def test_a_forged_cell_that_its_digest_fits_is_refused(store, identity):
    store.write(CELL_A, result(), {})
    digest = hashlib.sha256(compact_json(identity).encode()).hexdigest()
    folder = store.folder(CELL_A).rename(store.folder(CELL_A).parent / digest[:20])
    record = json.loads((folder / CELL).read_text())
    (folder / CELL).write_text(json.dumps(record | {"cell": identity, "digest": digest}))
    with pytest.raises(DamagedCellError, match=r"is damaged: .*cell\.json"):
        store.by_digest(CELL_A.experiment, digest)
