# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest

import unlazy.data
from unlazy.core.errors import DataFileError, UnknownNameError
from unlazy.data import available, downloads, fingerprint, where

PIXELS = 3072


@pytest.fixture
def small_set(make_split):
    return make_split(20, (2, 2), seed=0), make_split(10, (2, 2), seed=1)


@pytest.fixture
def small_batch(make_split):
    return make_split(10, (PIXELS,), seed=0)


def test_digits_are_always_there():
    assert available("digits")
    folder = where("digits")
    assert folder is not None
    assert folder.name == "sklearn"


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_nothing_is_found_in_empty_folders(name, root):
    assert not available(name)
    (root / "mnist").mkdir()
    assert where(name) is None


@pytest.mark.parametrize("gz", [True, False])
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
def test_idx_files_are_found_in_each_layout(name, folder, gz, root, small_set, write_idx_set):
    write_idx_set(root / folder, *small_set, gz=gz)
    assert where(name) == root / folder
    other = "mnist" if name == "fashion-mnist" else "fashion-mnist"
    assert not available(other)


def test_cifar_is_found_with_any_number_of_batches(root, small_batch, write_cifar_set):
    folder = root / "cifar-10-batches-bin"
    write_cifar_set(folder, [small_batch], small_batch)
    assert where("cifar10") == folder


def test_the_python_version_of_cifar_is_not_read_and_the_error_says_what_to_download(
    root, monkeypatch
):
    monkeypatch.setenv("no_proxy", "*")
    sums = downloads.REMOTES["cifar10"].files
    # Nothing listens on port 9 of this machine.
    monkeypatch.setitem(downloads.REMOTES, "cifar10", downloads.Remote("http://127.0.0.1:9/", sums))
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for file in ("data_batch_1", "test_batch"):
        (folder / file).write_bytes(b"not even opened")
    assert where("cifar10") is None
    with pytest.raises(
        DataFileError,
        match=r"cifar-10-batches-py, the Python version, is not read: .* "
        r"Unpack cifar-10-binary.tar.gz instead",
    ):
        fingerprint("cifar10")


@pytest.mark.parametrize("gone", ["data_batch_1.bin", "test_batch.bin"])
def test_cifar_without_a_training_or_test_batch_is_not_found(
    gone, root, small_batch, write_cifar_set
):
    write_cifar_set(root / "cifar-10-batches-bin", [small_batch], small_batch)
    (root / "cifar-10-batches-bin" / gone).unlink()
    assert not available("cifar10")


def test_the_users_folder_comes_before_the_cache(root, cache, small_set, write_idx_set):
    write_idx_set(cache / "mnist", *small_set)
    assert where("mnist") == cache / "mnist"
    write_idx_set(root / "mnist", *small_set)
    assert where("mnist") == root / "mnist"


def test_an_incomplete_folder_is_passed_over_for_the_cache(root, cache, small_set, write_idx_set):
    write_idx_set(root / "mnist", *small_set)
    write_idx_set(cache / "mnist", *small_set)
    (root / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert where("mnist") == cache / "mnist"


def test_a_folder_that_does_not_exist_is_passed_over(cache, monkeypatch, small_set, write_idx_set):
    monkeypatch.setenv("UNLAZY_DATA", str(cache.parent / "no such folder"))
    write_idx_set(cache / "mnist", *small_set)
    assert where("mnist") == cache / "mnist"


@pytest.mark.parametrize("ask", [available, where])
def test_an_unknown_name_is_refused_with_the_nearest(ask):
    with pytest.raises(UnknownNameError, match=r"got name='mnits'. Did you mean 'mnist'\?"):
        ask("mnits")


def test_importing_the_package_does_not_import_what_only_some_sets_need():
    program = (
        "import sys, unlazy.data; unlazy.data.where('digits'); "
        "print([m for m in ('pooch', 'sklearn.datasets') if m in sys.modules])"
    )
    path = str(Path(unlazy.data.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_the_fingerprint_changes_with_any_byte_and_with_nothing_else(
    root, make_split, write_idx_set
):
    train, test = make_split(20, (2, 2), seed=0), make_split(10, (2, 2), seed=1)
    write_idx_set(root / "mnist", train, test)
    first = fingerprint("mnist")
    write_idx_set(root / "mnist", train, test)
    assert fingerprint("mnist") == first
    images = train[0].copy()
    images[3, 1, 1] ^= 1
    write_idx_set(root / "mnist", (images, train[1]), test)
    assert fingerprint("mnist") != first


def test_digits_have_a_fingerprint_and_unknown_sets_have_none():
    assert fingerprint("digits") == fingerprint("digits")
    with pytest.raises(UnknownNameError, match="Did you mean 'mnist'"):
        fingerprint("mnist2")
