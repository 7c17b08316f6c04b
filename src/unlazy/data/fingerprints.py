# SPDX-License-Identifier: Apache-2.0
"""Which copy of an image set this is: a digest of its files."""

import functools
import hashlib
from pathlib import Path

from unlazy.core.checks import check_name
from unlazy.core.entries import entry
from unlazy.core.errors import DataFileError
from unlazy.data.sources import NAMES, cifar_batches, find_or_download, idx_pair

_DIGITS = 16  # hexadecimal; enough to tell copies apart


@entry
def fingerprint(name: str) -> str:
    """Digest of the files of an image set, so that results can say which copy they are of.

    Copies may differ: re-encoded, re-ordered, cut to some classes. A set that is not on this
    machine is downloaded first, as `load` would.

    Raises:
        UnknownNameError: If there is no set of that name.
        DataFileError: If the files are nowhere and can not be downloaded, or can not be read.

    Example:
        >>> len(fingerprint("digits"))
        16
    """
    check_name(name, NAMES, "name")
    folder = find_or_download(name)
    if name == "digits":
        files = [folder / "datasets" / "data" / "digits.csv.gz"]
    elif name == "cifar10":
        files = [*cifar_batches(folder, "train"), *cifar_batches(folder, "test")]
    else:
        files = [*idx_pair(folder, "train"), *idx_pair(folder, "test")]
    try:
        return _digest(tuple((p, p.stat().st_mtime_ns, p.stat().st_size) for p in files))
    except OSError as error:
        raise DataFileError(
            f"{error.filename or folder} could not be read: {error.strerror or error}."
        ) from error


@functools.cache  # a file that has changed has another time or size
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    total = hashlib.sha256()
    for path, _, size in files:
        total.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:_DIGITS]
