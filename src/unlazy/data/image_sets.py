# SPDX-License-Identifier: Apache-2.0
"""The image sets by name: where their files are, which copy that is, and what they hold."""

import functools
import hashlib
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unlazy.core.checks import check_name
from unlazy.core.entries import entry
from unlazy.core.errors import DataFileError
from unlazy.core.machine import cache_folder
from unlazy.data.downloads import CIFAR_FOLDER, download
from unlazy.data.image_files import Split, read_idx_split, read_record_split

# Folders under a root, in the order they are looked at; torchvision's layout comes second.
_FOLDERS = {
    "mnist": ("mnist", "MNIST/raw"),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw"),
    "cifar10": (CIFAR_FOLDER,),
}
NAMES = (*_FOLDERS, "digits")
_IDX_STEMS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_HINTS = {
    "cifar10": " cifar-10-batches-py, the Python version, is not read: its files are pickles, and "
    "a pickle can run any code. Unpack cifar-10-binary.tar.gz instead."
}
_DIGITS_TRAIN = 1437  # four fifths of the 1797, rounded down; the file has no split of its own
_DIGEST_LENGTH = 16  # hexadecimal; enough to tell copies apart


class ImageSet(NamedTuple):
    """A whole image set as its files hold it."""

    train: Split
    test: Split
    peak: int  # the largest value that a pixel can take
    by_class: bool  # whether subsets are drawn with the images sorted by class
    folder: Path


@entry
def available(name: str) -> bool:
    """Whether the files of an image set are on this machine; their content is not looked at.

    Example:
        >>> available("digits")
        True
    """
    return where(name) is not None


@entry
def where(name: str) -> Path | None:
    """The folder that an image set would be loaded from, or None if it would be downloaded.

    The folder that the environment variable `UNLAZY_DATA` names comes first, then the cache folder:
    `UNLAZY_CACHE` if it is set, else the system's. In them MNIST is looked for in `mnist` or
    `MNIST/raw`, Fashion-MNIST in `fashion-mnist` or `FashionMNIST/raw`, CIFAR-10 in
    `cifar-10-batches-bin`: its binary version, of which the test batch and one training batch
    suffice. "digits" is in scikit-learn's own folder.

    Example:
        >>> where("digits").name
        'sklearn'
    """
    check_name(name, NAMES, "name")
    if name == "digits":
        spec = find_spec("sklearn")  # finds without importing, which takes a second
        return Path(spec.origin).parent if spec and spec.origin else None
    return next((folder for folder in _candidates(name) if not _missing(folder, name)), None)


@entry
def fingerprint(name: str) -> str:
    """Digest of the files of an image set, so that results can say which copy they are of.

    Copies may differ: re-encoded, re-ordered, cut to some classes. A set that is not on this
    machine is downloaded first, as `load` would.

    Example:
        >>> len(fingerprint("digits"))
        16
    """
    check_name(name, NAMES, "name")
    folder = _find_or_download(name)
    files = [path for part in ("train", "test") for path in _files(folder, name, part)]
    try:
        return _digest(tuple((p, p.stat().st_mtime_ns, p.stat().st_size) for p in files))
    except OSError as error:
        raise DataFileError(
            f"{error.filename or folder} could not be read: {error.strerror or error}."
        ) from error


def read_image_set(name: str) -> ImageSet:
    """Read both parts of an image set, from the disk or, failing that, the network."""
    folder = _find_or_download(name)
    if name == "digits":
        return _read_digits(folder)
    train, test = (_read_split(folder, name, part) for part in ("train", "test"))
    if train.images.shape[1] != test.images.shape[1]:
        raise DataFileError(
            f"{folder} must hold images of one size, found {train.images.shape[1]} pixels in the "
            f"train images and {test.images.shape[1]} in the test images."
        )
    # CIFAR-10 by class, the others in file order: the orders that AR-53 draws its subsets in.
    return ImageSet(train, test, peak=255, by_class=name == "cifar10", folder=folder)


def _read_split(folder: Path, name: str, part: str) -> Split:
    files = _files(folder, name, part)
    if name == "cifar10":
        return read_record_split(files)
    if len(files) != 2:
        raise DataFileError(f"{folder} must hold the {part} images and labels; a file has gone.")
    return read_idx_split(*files)


def _read_digits(folder: Path) -> ImageSet:
    from sklearn.datasets import load_digits  # here, because importing it takes a second

    pixels, target = load_digits(return_X_y=True)
    images, labels = np.asarray(pixels, np.uint8), np.asarray(target, np.uint8)
    train = Split(images[:_DIGITS_TRAIN], labels[:_DIGITS_TRAIN])
    test = Split(images[_DIGITS_TRAIN:], labels[_DIGITS_TRAIN:])
    return ImageSet(train, test, peak=16, by_class=False, folder=folder)


@functools.cache  # a file that has changed has another time or size
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    total = hashlib.sha256()
    for path, _, size in files:
        total.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:_DIGEST_LENGTH]


def _find_or_download(name: str) -> Path:
    """The folder of `where`, after a download into the cache if there is none."""
    folder = where(name)
    if folder is not None:
        return folder
    looked = "; ".join(_describe(folder, name) for folder in _candidates(name))
    try:
        return download(name, cache_folder())
    except DataFileError as error:
        raise DataFileError(
            f"The files of {name!r} are missing and the download failed. Looked in: {looked}. "
            f"{error}. Set UNLAZY_DATA to a folder that holds {_FOLDERS[name][0]}/ with the files."
            f"{_HINTS.get(name, '')}"
        ) from error


def _candidates(name: str) -> Iterator[Path]:
    if own := os.environ.get("UNLAZY_DATA"):
        yield from (Path(own).expanduser() / folder for folder in _FOLDERS[name])
    yield from (cache_folder() / folder for folder in _FOLDERS[name])


def _files(folder: Path, name: str, part: str) -> list[Path]:
    """The files of one part that are there: images and labels, or batches in their order."""
    if name == "digits":  # one file for both parts
        return [folder / "datasets" / "data" / "digits.csv.gz"] if part == "train" else []
    if name == "cifar10":
        pattern = "data_batch_[0-9].bin" if part == "train" else "test_batch.bin"
        return sorted(path for path in folder.glob(pattern) if path.is_file())
    return [path for stem in _IDX_STEMS[part] if (path := _idx_file(folder, stem)) is not None]


def _idx_file(folder: Path, stem: str) -> Path | None:
    return next((p for p in (folder / stem, folder / f"{stem}.gz") if p.is_file()), None)


def _missing(folder: Path, name: str) -> list[str]:
    """The files that a folder lacks to hold the set."""
    if name == "cifar10":
        first = {"train": "data_batch_1.bin", "test": "test_batch.bin"}
        return [file for part, file in first.items() if not _files(folder, name, part)]
    stems = [stem for part in _IDX_STEMS.values() for stem in part]
    return [stem for stem in stems if _idx_file(folder, stem) is None]


def _describe(folder: Path, name: str) -> str:
    if not folder.is_dir():
        return f"{folder} (no such folder)"
    return f"{folder} (without {', '.join(_missing(folder, name))})"
