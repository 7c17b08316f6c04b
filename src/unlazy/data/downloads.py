# SPDX-License-Identifier: Apache-2.0
"""Image sets from the network: where they are published, and their checksums."""

import os
import tarfile
import zlib
from pathlib import Path
from typing import NamedTuple

from unlazy.core.errors import DataFileError

CIFAR_FOLDER = "cifar-10-batches-bin"
# The test batch comes last: without it the set does not count as found, so that an interrupted
# unpacking is done again instead of being taken for a smaller set.
CIFAR_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")


class Remote(NamedTuple):
    """Files under one address, with their MD5 sums."""

    address: str
    files: dict[str, str]


REMOTES = {
    "mnist": Remote(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "fashion-mnist": Remote(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "cifar10": Remote(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
    ),
}


def download(name: str, cache: Path) -> Path:
    """Fetch the missing files of an image set into the cache; return the folder of its files."""
    import pooch  # here, because most calls find the files on the disk

    remote = REMOTES[name]
    is_archive = name == "cifar10"
    folder = cache / (CIFAR_FOLDER if is_archive else name)
    for file, md5 in remote.files.items():
        try:
            fetched = pooch.retrieve(
                remote.address + file,
                known_hash=f"md5:{md5}",
                fname=file,
                path=cache if is_archive else folder,
            )
            if is_archive:
                unpack_cifar(Path(fetched), folder)
        # OSError covers the network and the disk, ValueError is pooch's for a wrong checksum; the
        # others come from an archive that was damaged after that.
        except (OSError, ValueError, KeyError, tarfile.TarError, EOFError, zlib.error) as error:
            raise DataFileError(
                f"{file} could not be fetched from {remote.address} into {cache}: "
                f"{type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
    return folder


def unpack_cifar(archive: Path, folder: Path) -> None:
    """Unpack the batches of the CIFAR-10 archive, and nothing else, then delete the archive."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        for file in CIFAR_FILES:
            # The names written to are ours, never the archive's.
            member = tar.extractfile(f"{CIFAR_FOLDER}/{file}")
            if member is None:
                raise ValueError(f"{file} is not a plain file in {archive.name}")
            part = folder / f"{file}.{os.getpid()}.part"
            part.write_bytes(member.read())
            part.replace(folder / file)
    archive.unlink()
