# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from unlazy.core import disk
from unlazy.core.errors import StoreError
from unlazy.core.processes import _state, has_ended, this_process
from unlazy.experiments.leases import Leases

DEAD = 2**22 + 1  # above the largest process number of Linux


@pytest.fixture
def leases(tmp_path):
    with Leases(tmp_path / "leases") as leases:
        yield leases


def foreign(leases, owner, age=0.0, number=0):
    """The lease on the cell "a" of another process, last touched so many seconds ago."""
    path = leases.folder / f"a.{number}"
    path.write_bytes(owner if isinstance(owner, bytes) else json.dumps(owner).encode())
    then = time.time() - age
    os.utime(path, (then, then))


def files(leases):
    return sorted(path.name for path in leases.folder.iterdir())


def test_a_lease_has_one_holder_until_it_is_given_back(leases):
    with Leases(leases.folder) as others:
        assert leases.take("a")
        assert leases.take("b")
        assert not others.take("a")
        assert not leases.take("a")  # another thread of this process asks
        leases.give_back("a")
        assert others.take("a")
        assert not leases.take("a")
    assert files(leases) == ["b.0"]


def test_the_end_of_the_scope_gives_back_all(tmp_path):
    with Leases(tmp_path) as leases:
        assert leases.take("a")
    assert files(leases) == []


@pytest.mark.parametrize(
    ("changes", "age", "taken"),
    [
        ({}, 0.0, False),
        ({"pid": DEAD}, 0.0, True),
        ({"started": "1"}, 0.0, True),  # the number is another process's by now
        ({"started": None}, 0.0, False),
        ({"machine": "another", "pid": DEAD}, 0.0, False),
        ({"machine": "another", "pid": DEAD}, 50.0, False),
        ({"machine": "another", "pid": DEAD}, 70.0, True),
        ({}, 70.0, True),  # it was suspended, or could not give the lease back
        ({"pid": "1"}, 0.0, False),
        ({"pid": 10**30}, 0.0, False),
        ({"pid": -1}, 0.0, False),
    ],
)
def test_the_lease_of_a_dead_or_silent_process_is_taken_over(leases, changes, age, taken):
    foreign(leases, this_process() | changes, age)
    assert leases.take("a") == taken
    assert files(leases) == (["a.0", "a.1"] if taken else ["a.0"])


@pytest.mark.parametrize("content", [b"", b"[" * 5000, b"[]", b"\xff\xfe", b'"text"', b"0" * 10**5])
def test_a_lease_that_says_nothing_lives_as_long_as_it_is_young(leases, content):
    foreign(leases, content)
    assert not leases.take("a")
    foreign(leases, content, age=70.0)
    assert leases.take("a")


def test_a_child_that_nobody_has_waited_for_has_ended():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        _, started = _state(child.pid)
        owner = this_process() | {"pid": child.pid, "started": started}
        assert not has_ended(owner)
        assert child.stdin is not None
        child.stdin.close()
        deadline = time.monotonic() + 10
        while not has_ended(owner) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert has_ended(owner)
    assert has_ended(owner)


def test_many_that_take_over_one_lease_find_one_holder(leases):
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            foreign(leases, this_process() | {"pid": DEAD})
            assert sum(pool.map(lambda _: leases.take("a"), range(8))) == 1
            leases.give_back("a", done=True)
            assert files(leases) == []


def test_a_failed_holder_leaves_the_expired_lease_so_that_the_next_one_comes_after_it(leases):
    foreign(leases, this_process() | {"pid": DEAD})
    with pytest.raises(ZeroDivisionError), leases.holding("a"):
        raise ZeroDivisionError
    assert files(leases) == ["a.0"]
    with leases.holding("a") as ours:
        assert ours
    assert files(leases) == []


def test_a_lease_is_kept_alive_while_it_is_held(tmp_path, monkeypatch):
    elsewhere = this_process() | {"machine": "another"}
    monkeypatch.setattr("unlazy.experiments.leases.this_process", lambda: elsewhere)
    with Leases(tmp_path, expires=0.6) as leases:
        assert leases.take("a")
        for _ in range(12):
            time.sleep(0.1)
            assert not Leases(tmp_path, expires=0.6).take("a")
    foreign(leases, elsewhere)
    time.sleep(0.7)
    assert Leases(tmp_path, expires=0.6).take("a")


def test_a_file_is_kept_young_and_removed_at_the_end(tmp_path):
    file = disk.temporary_path(tmp_path)
    file.touch()
    then = time.time() - 90_000
    os.utime(file, (then, then))
    with Leases(tmp_path / "leases", expires=0.6) as leases:
        leases.keep(file)
        time.sleep(0.3)
        disk.clear_abandoned(tmp_path)  # as another run does
        assert file.exists()
    assert not file.exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file"), Leases(tmp_path / "file"):
        pass
