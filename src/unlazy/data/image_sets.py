# SPDX-License-Identifier: Apache-2.0
"""The image sets by name, as their files hold them."""

from pathlib import Path

import numpy as np

from unlazy.core.errors import DataFileError
from unlazy.data import cifar, idx
from unlazy.data.raw import ImageSet, Split
from unlazy.data.sources import cifar_batches, find_or_download, idx_pair

# Four fifths of the 1797, rounded down. The file has no split of its own.
_DIGITS_TRAIN = 1437


def read_image_set(name: str) -> ImageSet:
    """Read both parts of an image set, from the disk or, failing that, the network."""
    folder = find_or_download(name)
    if name == "digits":
        return _read_digits(folder)
    if name == "cifar10":
        train, test = (cifar.read_split(cifar_batches(folder, part)) for part in ("train", "test"))
    else:
        train, test = (idx.read_split(*idx_pair(folder, part)) for part in ("train", "test"))
    if train.images.shape[1] != test.images.shape[1]:
        raise DataFileError(
            f"{folder} must hold images of one size, found {train.images.shape[1]} pixels in the "
            f"train images and {test.images.shape[1]} in the test images."
        )
    # CIFAR-10 by class, the others in file order: the orders that AR-53 draws its subsets in.
    return ImageSet(train, test, peak=255, by_class=name == "cifar10", folder=folder)


def _read_digits(folder: Path) -> ImageSet:
    from sklearn.datasets import load_digits  # here, because importing it takes a second

    pixels, target = load_digits(return_X_y=True)
    images, labels = np.asarray(pixels, np.uint8), np.asarray(target, np.uint8)
    train = Split(images[:_DIGITS_TRAIN], labels[:_DIGITS_TRAIN])
    test = Split(images[_DIGITS_TRAIN:], labels[_DIGITS_TRAIN:])
    return ImageSet(train, test, peak=16, by_class=False, folder=folder)
