# SPDX-License-Identifier: Apache-2.0
"""Where the files of an image set are: the user's folder, the cache, else the network."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from unlazy.core.checks import check_name
from unlazy.core.entries import entry
from unlazy.core.errors import DataFileError
from unlazy.core.memory import cache_folder
from unlazy.data.downloads import CIFAR_FOLDER, download

# Folders under a root, in the order they are looked at; torchvision's layout comes second.
_FOLDERS = {
    "mnist": ("mnist", "MNIST/raw"),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw"),
    "cifar10": (CIFAR_FOLDER, "cifar-10-batches-py"),
}
NAMES = (*_FOLDERS, "digits")

_IDX_STEMS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


@entry
def available(name: str) -> bool:
    """Whether an image set can be loaded without a download.

    Args:
        name: "mnist", "fashion-mnist", "cifar10" or "digits".

    Returns:
        True if its files were found; what is in them is not looked at.

    Raises:
        UnknownNameError: If there is no set of that name.

    Example:
        >>> available("digits")
        True
    """
    return where(name) is not None


@entry
def where(name: str) -> Path | None:
    """The folder that an image set would be loaded from, or None if it would be downloaded.

    The folder `UNLAZY_DATA` (an environment variable) comes first, then the cache folder, which is
    the system's, or `UNLAZY_CACHE`. In them MNIST is looked for in `mnist` or `MNIST/raw`,
    Fashion-MNIST in `fashion-mnist` or `FashionMNIST/raw`, CIFAR-10 in `cifar-10-batches-bin` or
    `cifar-10-batches-py`. "digits" is in scikit-learn's own folder.

    Args:
        name: "mnist", "fashion-mnist", "cifar10" or "digits".

    Returns:
        The first folder that holds all the files needed. For CIFAR-10 these are the test batch and
        at least one training batch.

    Raises:
        UnknownNameError: If there is no set of that name.

    Example:
        >>> where("digits").name
        'sklearn'
    """
    check_name(name, NAMES, "name")
    if name == "digits":
        spec = find_spec("sklearn")  # finds without importing, which takes a second
        return Path(spec.origin).parent if spec and spec.origin else None
    return next((folder for folder in _candidates(name) if not _missing(folder, name)), None)


def find_or_download(name: str) -> Path:
    """The folder of `where`, after a download into the cache if there is none.

    Raises:
        DataFileError: If the files are nowhere and can not be downloaded.
    """
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
        ) from error


def idx_pair(folder: Path, part: str) -> tuple[Path, Path]:
    """The files of the images and of the labels; `part` is "train" or "test"."""
    images, labels = (_idx_file(folder, stem) for stem in _IDX_STEMS[part])
    if images is None or labels is None:
        raise DataFileError(f"{folder} must hold the {part} images and labels; a file has gone.")
    return images, labels


def cifar_batches(folder: Path, part: str) -> list[Path]:
    """The batches of one part that are there; `part` is "train" or "test"."""
    suffix = ".bin" if folder.name == CIFAR_FOLDER else ""
    pattern = "data_batch_[0-9]" if part == "train" else "test_batch"
    return sorted(path for path in folder.glob(pattern + suffix) if path.is_file())


def _candidates(name: str) -> Iterator[Path]:
    if own := os.environ.get("UNLAZY_DATA"):
        yield from (Path(own).expanduser() / folder for folder in _FOLDERS[name])
    yield from (cache_folder() / folder for folder in _FOLDERS[name])


def _idx_file(folder: Path, stem: str) -> Path | None:
    return next((p for p in (folder / stem, folder / f"{stem}.gz") if p.is_file()), None)


def _missing(folder: Path, name: str) -> list[str]:
    """The files that a folder lacks to hold the set."""
    if name == "cifar10":
        suffix = ".bin" if folder.name == CIFAR_FOLDER else ""
        first = {"train": f"data_batch_1{suffix}", "test": f"test_batch{suffix}"}
        return [file for part, file in first.items() if not cifar_batches(folder, part)]
    stems = [stem for part in _IDX_STEMS.values() for stem in part]
    return [stem for stem in stems if _idx_file(folder, stem) is None]


def _describe(folder: Path, name: str) -> str:
    if not folder.is_dir():
        return f"{folder} (no such folder)"
    return f"{folder} (without {', '.join(_missing(folder, name))})"
