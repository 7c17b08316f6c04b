# SPDX-License-Identifier: Apache-2.0
"""The two formats of CIFAR-10: records of 3073 bytes, and pickled batches."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from unlazy.core.errors import DataFileError
from unlazy.data.pickles import read_pickled_dict
from unlazy.data.raw import Split, check_labels_known, read_bytes

PIXELS = 3 * 32 * 32  # the red, the green, then the blue plane, each row by row
_RECORD = 1 + PIXELS  # the label first


def read_split(paths: list[Path]) -> Split:
    """Read batches of either version and put them together in the order given."""
    splits = [read_binary(path) if path.suffix == ".bin" else read_batch(path) for path in paths]
    if len(splits) == 1:
        return splits[0]
    return Split(
        np.concatenate([split.images for split in splits]),
        np.concatenate([split.labels for split in splits]),
    )


def read_binary(path: Path) -> Split:
    """Read a batch of the binary version, as many records as there are.

    A file cut between two records can not be told from a smaller batch.

    Source: "Binary version" on https://www.cs.toronto.edu/~kriz/cifar.html.

    Raises:
        DataFileError: If the last record is incomplete, there is none, or a label is above 9.
    """
    data = read_bytes(path)
    records, rest = divmod(len(data), _RECORD)
    if rest or not records:
        raise DataFileError(
            f"{path} must hold one or more records of {_RECORD} bytes, found {len(data)} bytes: "
            f"{records} records and {rest} bytes over. The file is truncated or not CIFAR-10."
        )
    table = np.frombuffer(data, np.uint8).reshape(records, _RECORD)
    check_labels_known(table[:, 0], path)
    return Split(table[:, 1:], table[:, 0])


def read_batch(path: Path) -> Split:
    """Read a batch of the Python version, a pickled dict of `data` and `labels`.

    Source: "Python / Matlab versions" on https://www.cs.toronto.edu/~kriz/cifar.html.

    Raises:
        DataFileError: If the pickle is corrupt, names more than arrays need, or lacks either.
    """
    batch = read_pickled_dict(path)
    images = _entry(batch, "data", path)
    if not isinstance(images, np.ndarray):
        raise DataFileError(f"{path} must hold an array as `data`, found {type(images)}.")
    n = images.shape[0] if images.ndim else 0
    if images.dtype != np.uint8 or images.shape != (n, PIXELS) or n == 0:
        raise DataFileError(
            f"{path} must hold `data` of type uint8 and shape (n, {PIXELS}) with n >= 1, "
            f"found {images.dtype} and shape {images.shape}."
        )
    return Split(images, _class_numbers(_entry(batch, "labels", path), n, path))


def _entry(batch: dict[Any, Any], name: str, path: Path) -> Any:
    # The keys are bytes in the files as published, str in copies that Python 3 wrote.
    for key in (name.encode(), name):
        if key in batch:
            return batch[key]
    found = ", ".join(repr(key) for key in batch) or "none"
    found = found if len(found) < 200 else f"{found[:200]}..."
    raise DataFileError(f"{path} must hold an entry `{name}`, found the entries: {found}.")


def _class_numbers(labels: Any, n: int, path: Path) -> UInt8[np.ndarray, " n"]:
    is_vector = isinstance(labels, list) or (isinstance(labels, np.ndarray) and labels.ndim == 1)
    if not is_vector or len(labels) != n:
        found = len(labels) if is_vector else type(labels)
        raise DataFileError(f"{path} must hold {n} `labels`, one an image, found {found}.")
    if not all(isinstance(label, int | np.integer) for label in labels):
        raise DataFileError(f"{path} must hold integers as `labels`, found other kinds.")
    numbers = np.asarray(labels)
    check_labels_known(numbers, path)
    return numbers.astype(np.uint8)
