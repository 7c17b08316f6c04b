# SPDX-License-Identifier: Apache-2.0
"""Writers of small image files, and a surrounding in which nothing real is found or fetched."""

import gzip
import struct

import numpy as np
import pytest


def _idx_bytes(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def _cifar_bytes(images, labels):
    return np.column_stack([labels, images]).astype(np.uint8).tobytes()


@pytest.fixture(scope="session")
def idx_bytes():
    return _idx_bytes


@pytest.fixture(scope="session")
def cifar_bytes():
    return _cifar_bytes


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder instead of the user's; `UNLAZY_DATA` is not set."""
    monkeypatch.delenv("UNLAZY_DATA", raising=False)
    folder = tmp_path / "cache"
    monkeypatch.setenv("UNLAZY_CACHE", str(folder))
    return folder


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty folder that `UNLAZY_DATA` points at."""
    folder = tmp_path / "root"
    folder.mkdir()
    monkeypatch.setenv("UNLAZY_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def make_split():
    """Images with no zero row, and labels in which every class below `classes` occurs."""

    def make(n, shape, *, seed, classes=10):
        rng = np.random.default_rng(seed)
        images = rng.integers(1, 256, (n, *shape), dtype=np.uint8)
        labels = rng.permutation(np.arange(n) % classes).astype(np.uint8)
        return images, labels

    return make


@pytest.fixture(scope="session")
def write_idx_set():
    """Write the four files of a set that is like MNIST."""

    def write(folder, train, test, *, gz=True):
        folder.mkdir(parents=True, exist_ok=True)
        for prefix, (images, labels) in [("train", train), ("t10k", test)]:
            for stem, array in [("images-idx3", images), ("labels-idx1", labels)]:
                data = _idx_bytes(array)
                path = folder / f"{prefix}-{stem}-ubyte{'.gz' if gz else ''}"
                path.write_bytes(gzip.compress(data, mtime=0) if gz else data)

    return write


@pytest.fixture(scope="session")
def write_cifar_set():
    """Write a set like CIFAR-10; a batch is a pair (images, labels)."""

    def write(folder, train_batches, test_batch):
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"data_batch_{i + 1}" for i in range(len(train_batches))]
        for name, (images, labels) in zip(
            [*names, "test_batch"], [*train_batches, test_batch], strict=True
        ):
            (folder / f"{name}.bin").write_bytes(_cifar_bytes(images, labels))

    return write
