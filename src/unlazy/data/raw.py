# SPDX-License-Identifier: Apache-2.0
"""What the readers of image files share: the bytes of a file, and images together with labels."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from unlazy.core.checks import some_rows
from unlazy.core.errors import DataFileError
from unlazy.data.limits import check_memory, in_short

CLASSES = 10  # every set here has the classes 0 to 9


class Split(NamedTuple):
    """Flattened images and their classes in file order, of the training or of the test part."""

    images: UInt8[np.ndarray, "n d"]
    labels: UInt8[np.ndarray, " n"]


class ImageSet(NamedTuple):
    """A whole image set as its files hold it."""

    train: Split
    test: Split
    peak: int  # the largest value that a pixel can take
    by_class: bool  # whether subsets are drawn with the images sorted by class
    folder: Path


def read_bytes(path: Path) -> bytes:
    """The content of a file, with a `DataFileError` when the system does not give it out."""
    try:
        check_memory(path.stat().st_size, path, "its content")
        return path.read_bytes()
    except OSError as error:
        raise DataFileError(f"{path} could not be read: {error.strerror or error}.") from error
    except MemoryError as error:
        raise DataFileError(f"{path} could not be read: {in_short(error)}.") from error


def check_labels_known(labels: np.ndarray, path: Path) -> None:
    """Raise unless every label is a class number."""
    bad = np.flatnonzero((labels < 0) | (labels >= CLASSES))
    if bad.size:
        raise DataFileError(
            f"{path} must hold labels from 0 to {CLASSES - 1}, found {int(labels[bad[0]])} "
            f"and others out of range, {some_rows(bad)}. The file is not what its name says."
        )
