# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import zlib

import pytest

from unlazy.core import disk
from unlazy.experiments import programs
from unlazy.experiments.programs import Programs, kept_programs

A, B = "jit_f-00-cache", "jit_g-11-cache"
DATA = {A: zlib.compress(b"the program f"), B: zlib.compress(b"the program g" * 100)}
# Two programs that differ in nothing but what they compute.
COMPILING = """
import sys
from unlazy.experiments import kept_programs
with kept_programs(print) as keep:
    import jax, jax.numpy as jnp
    x = jnp.arange(3.0)
    def alpha(x): return x + 1
    def omega(x): return 3 * x
    print(jax.jit(alpha)(x).tolist(), jax.jit(omega)(x).tolist())
"""


@pytest.fixture
def kept(tmp_path):
    """A folder in which an earlier run kept two programs."""
    first = Programs(tmp_path / "kept")
    for name, data in DATA.items():
        (first.session / name).write_bytes(data)
    first.keep()
    disk.discard(first.session)
    return first.folder


def session(folder):
    """What JAX would find in a later run."""
    later = Programs(folder)
    found = {path.name: path.read_bytes() for path in later.session.iterdir()}
    disk.discard(later.session)
    return found


def test_what_was_kept_is_found_in_a_folder_for_this_user_alone(kept):
    assert session(kept) == DATA
    assert kept.stat().st_mode & 0o777 == 0o700


def swap(folder):
    (folder / A).rename(folder / "aside")
    (folder / B).rename(folder / A)
    (folder / "aside").rename(folder / B)


def flip(folder):
    content = bytearray((folder / A).read_bytes())
    content[-3] ^= 1
    (folder / A).write_bytes(content)


def fifo(folder):
    (folder / A).unlink()
    os.mkfifo(folder / A)


DAMAGES = {
    "swapped": (swap, set()),
    "copied over": (lambda folder: (folder / A).write_bytes((folder / B).read_bytes()), {B}),
    "truncated": (lambda folder: os.truncate(folder / A, 40), {B}),
    "empty": (lambda folder: os.truncate(folder / A, 0), {B}),
    "flipped": (flip, {B}),
    "as JAX writes it": (lambda folder: (folder / A).write_bytes(DATA[A]), {B}),
    "a fifo": (fifo, {B}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_program_is_dropped_and_kept_anew(kept, damage):
    spoil, left = DAMAGES[damage]
    spoil(kept)
    later = Programs(kept)
    assert {path.name for path in later.session.iterdir()} == left
    assert {path.name for path in kept.iterdir() if path.is_file()} == left
    for name, data in DATA.items():
        (later.session / name).write_bytes(data)
    later.keep()
    disk.discard(later.session)
    assert session(kept) == DATA


def test_what_is_half_written_is_kept_when_it_is_whole(tmp_path):
    first = Programs(tmp_path / "kept")
    (first.session / A).write_bytes(DATA[A][:-2])
    first.keep()
    assert not (first.folder / A).exists()
    (first.session / A).write_bytes(DATA[A])
    first.keep()
    assert session(first.folder) == {A: DATA[A]}


def test_the_oldest_go_where_there_are_too_many(kept, monkeypatch):
    os.utime(kept / A, (1, 1))
    programs._bound(kept.parent)
    assert (kept / A).exists()
    monkeypatch.setattr(programs, "_MOST", (kept / B).stat().st_size)
    programs._bound(kept.parent)
    assert [path.name for path in kept.iterdir()] == [B]


def in_a_process(folder, **variables):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment |= {"UNLAZY_CACHE": str(folder), **variables}
    words = [sys.executable, "-c", COMPILING]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True)


def test_programs_that_were_swapped_or_cut_change_no_result_and_warn_of_nothing(tmp_path):
    right = "[1.0, 2.0, 3.0] [0.0, 3.0, 6.0]\n"
    assert in_a_process(tmp_path).stdout == right
    (alpha,), (omega,) = (list(tmp_path.rglob(f"jit_{n}-*-cache")) for n in ("alpha", "omega"))
    others = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*-cache")} | {alpha: 0, omega: 0}
    whole = alpha.read_bytes(), omega.read_bytes()
    alpha.write_bytes(whole[1])
    os.truncate(omega, len(whole[1]) // 2)
    again = in_a_process(tmp_path)
    assert (again.stdout, again.stderr) == (right, "")
    found = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*-cache")}
    assert found.keys() == others.keys()
    assert {p for p in found if found[p] != others[p]} == {alpha, omega}  # the others were used
    assert not list(tmp_path.rglob(".partial-*"))


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled").chmod(0o777)
    assert "not kept: other users can write to the folder" in in_a_process(tmp_path).stdout
    assert not list((tmp_path / "compiled").iterdir())


def test_in_a_program_that_uses_jax_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("UNLAZY_CACHE", str(tmp_path))
    with kept_programs(pytest.fail) as keep:
        keep()
    assert not list(tmp_path.iterdir())
