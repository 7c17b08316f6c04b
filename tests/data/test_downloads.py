# SPDX-License-Identifier: Apache-2.0
"""Downloads from a server that the tests start on this machine; nothing leaves it."""

import functools
import hashlib
import http.server
import tarfile
import threading

import jax.random as jr
import numpy as np
import pytest

from unlazy.core.errors import DataFileError
from unlazy.data import available, downloads, load, where

PIXELS = 3072


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        del format, args


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A folder that is served over HTTP, as (folder, address)."""
    monkeypatch.setenv("no_proxy", "*")
    folder = tmp_path / "published"
    folder.mkdir()
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def announce(monkeypatch, name, folder, address, files):
    sums = {file: hashlib.md5((folder / file).read_bytes()).hexdigest() for file in files}
    monkeypatch.setitem(downloads.REMOTES, name, downloads.Remote(address, sums))


@pytest.fixture
def published_mnist(published, monkeypatch, make_split, write_idx_set):
    folder, address = published
    train = make_split(30, (2, 2), seed=0)
    write_idx_set(folder, train, make_split(20, (2, 2), seed=1))
    announce(monkeypatch, "mnist", folder, address, downloads.REMOTES["mnist"].files)
    return folder, train


def make_archive(folder, batches, cifar_bytes, *, extra=()):
    inside = folder / downloads.CIFAR_FOLDER
    inside.mkdir()
    for file, (images, labels) in zip(downloads.CIFAR_FILES, batches, strict=True):
        (inside / file).write_bytes(cifar_bytes(images, labels))
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as tar:
        tar.add(inside, downloads.CIFAR_FOLDER)
        for name in extra:
            tar.add(inside / "test_batch.bin", name)


def test_a_missing_set_is_fetched_once_into_the_cache(published_mnist, cache, monkeypatch):
    folder, (images, _) = published_mnist
    assert not available("mnist")
    first = load("mnist", key=jr.key(0))
    assert where("mnist") == cache / "mnist"
    assert first.x_train.shape == (len(images), 4)
    for file in folder.iterdir():
        file.unlink()
    monkeypatch.setitem(downloads.REMOTES, "mnist", downloads.Remote("http://127.0.0.1:9/", {}))
    np.testing.assert_array_equal(load("mnist", key=jr.key(0)).x_train, first.x_train)


def test_a_download_with_another_checksum_is_refused_and_not_kept(published_mnist, cache):
    folder, _ = published_mnist
    with (folder / "t10k-labels-idx1-ubyte.gz").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DataFileError, match=r"t10k-labels-idx1-ubyte.gz could not be .*MD5 hash"):
        load("mnist", key=jr.key(0))
    assert not (cache / "mnist" / "t10k-labels-idx1-ubyte.gz").exists()
    assert not available("mnist")


def test_without_a_network_the_error_says_what_is_missing_and_what_to_do(cache, root, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    sums = downloads.REMOTES["mnist"].files
    # Nothing listens on port 9 of this machine.
    monkeypatch.setitem(downloads.REMOTES, "mnist", downloads.Remote("http://127.0.0.1:9/", sums))
    (root / "mnist").mkdir()
    with pytest.raises(DataFileError) as caught:
        load("mnist", key=jr.key(0))
    message = str(caught.value)
    assert f"{root / 'mnist'} (without train-images-idx3-ubyte, " in message
    assert f"{cache / 'mnist'} (no such folder)" in message
    assert "train-images-idx3-ubyte.gz could not be fetched from http://127.0.0.1:9/" in message
    assert "Set UNLAZY_DATA to a folder that holds mnist/" in message
    assert "\n" not in message


def test_a_cache_that_can_not_be_written_is_a_clear_error(published_mnist, cache):
    del published_mnist
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataFileError, match=r"could not be fetched .* into .*cache"):
        load("mnist", key=jr.key(0))


def test_the_cifar_archive_is_unpacked_and_only_the_batches_of_it(
    published, cache, monkeypatch, make_split, cifar_bytes
):
    folder, address = published
    batches = [make_split(20, (PIXELS,), seed=i) for i in range(6)]
    make_archive(folder, batches, cifar_bytes, extra=["../escaped", "cifar-10-batches-bin/more"])
    announce(monkeypatch, "cifar10", folder, address, ["cifar-10-binary.tar.gz"])
    task = load("cifar10", key=jr.key(0))
    assert task.x_train.shape == (100, PIXELS)
    assert task.x_test.shape == (20, PIXELS)
    assert sorted(path.name for path in cache.rglob("*") if path.is_file()) == sorted(
        downloads.CIFAR_FILES
    )
    assert not (cache.parent / "escaped").exists()


def test_an_archive_without_a_batch_is_refused_and_not_taken_for_the_set(
    published, monkeypatch, cifar_bytes, make_split
):
    folder, address = published
    batches = [make_split(20, (PIXELS,), seed=i) for i in range(6)]
    make_archive(folder, batches, cifar_bytes)
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as tar:
        for file in downloads.CIFAR_FILES[:5]:
            tar.add(folder / downloads.CIFAR_FOLDER / file, f"{downloads.CIFAR_FOLDER}/{file}")
    announce(monkeypatch, "cifar10", folder, address, ["cifar-10-binary.tar.gz"])
    with pytest.raises(DataFileError, match=r"could not be fetched .*test_batch.bin"):
        load("cifar10", key=jr.key(0))
    assert not available("cifar10")
