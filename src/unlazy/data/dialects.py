# SPDX-License-Identifier: Apache-2.0
"""What a text table is written in: packed or plain, its encoding, its separator."""

import codecs
import gzip
import zlib
from pathlib import Path

from unlazy.core.errors import DataFileError
from unlazy.data.limits import check_memory, in_short

_CHUNK = 2**22  # bytes unpacked at a time
_SAMPLE = 2**16  # bytes that are looked at to find the separator
_LINES = 30
_SEPARATORS = ",;\t|"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def read_text(path: Path) -> bytes:
    """The bytes of a text file in UTF-8, unpacked if its name ends in .gz; UTF-16 is converted.

    Raises:
        DataFileError: the file is damaged, of another encoding, not text, or empty.
    """
    content = _unpacked(path) if path.suffix == ".gz" else path.read_bytes()
    for mark, encoding in _MARKS.items():
        if content.startswith(mark):
            content = _decoded(content[len(mark) :], encoding, path).encode()
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\0" in content[:_SAMPLE]:
        raise DataFileError(
            f"`{path}` must be text in UTF-8, or in UTF-16 with a byte order mark, got zero bytes. "
            "Save it as text in UTF-8."
        )
    if not content.strip():
        raise DataFileError(f"`{path}` must hold a line of column names, got an empty file.")
    return content


def separator_of(content: bytes, *, preferred: str = ",") -> str:
    r"""The separator: the one that splits the first lines most alike, outside quotes.

    Example:
        >>> separator_of(b"a;b;y\n1,5;2,5;cat\n"), separator_of(b'"a;b",y\n1,2\n')
        (';', ',')
    """
    lines = _first_lines(content[:_SAMPLE].decode("utf-8", "replace"))

    def quality(separator: str) -> tuple[float, int, bool]:
        counts = [line.count(separator) for line in lines]
        alike = sum(count == counts[0] for count in counts) / len(counts)
        return (alike if counts[0] else 0.0), counts[0], separator == preferred

    best = max(_SEPARATORS, key=quality)
    return best if quality(best)[1] else preferred


def _first_lines(text: str) -> list[str]:
    """The first lines with what stands in quotes taken out, as a quote may span lines."""
    outside = "".join(text.split('"')[::2])
    lines = [line for line in outside.splitlines() if line.strip()][:_LINES]
    return lines or [""]


def _unpacked(path: Path) -> bytes:
    parts, size = [], 0
    try:
        with gzip.open(path) as file:
            while part := file.read(_CHUNK):
                size += len(part)
                check_memory(size, path, "what is packed in it")
                parts.append(part)
    except (OSError, EOFError, zlib.error) as error:
        raise DataFileError(
            f"`{path}` must be a whole gzip file: {in_short(error)}. Save it again."
        ) from error
    return b"".join(parts)


def _decoded(content: bytes, encoding: str, path: Path) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"`{path}` must be text in UTF-8 or UTF-16: {in_short(error)}. Save it in UTF-8."
        ) from error
