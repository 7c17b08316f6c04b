# SPDX-License-Identifier: Apache-2.0
"""What a text table is written in: its encoding, its separator, its numbers and dates."""

import codecs
import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unlazy.core.errors import DataFileError
from unlazy.data.limits import check_memory, in_short

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK = 2**22  # bytes unpacked at a time
_SAMPLE = 2**16  # bytes that are looked at to find the separator
_LINES = 30
_SEPARATORS = ",;\t|"
_ALIKE = 0.95  # share of the cells that must be numbers, or dates, for the others to be slips
_SPACE = r"\s\x{a0}\x{2009}\x{202f}"
# Signs of currencies, and frequent codes; any three letters would take in codes of goods.
_CODES = "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|INR|JPY|KRW|MXN|NOK|NZD|PLN|SEK|SGD|USD|ZAR"
_MONEY = rf"(?:\p{{Sc}}|{_CODES})"
_BYTE_ORDERS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Reading(NamedTuple):
    """Cells of text as numbers or dates, null where a cell is neither; and what was understood."""

    values: "pa.ChunkedArray | None"  # None for dates of an unknown order
    note: str
    is_plain: bool = False  # numbers without signs or separators


def _number(group: str, point: str) -> str:
    """The pattern of a number with these separators; a code such as 007 is none."""
    digits = rf"(?:[1-9]\d{{0,2}}(?:[{group}'{_SPACE}]\d{{3}})+|0|[1-9]\d*)"
    number = rf"(?:{digits}(?:[{point}]\d*)?|[{point}]\d+)(?:[eE][-+]?\d+)?"
    return rf"^[-+]?[{_SPACE}]*{_MONEY}?[{_SPACE}]*[-+]?{number}[{_SPACE}]*(?:{_MONEY}|%)?$"


_POINT, _COMMA = _number(",", "."), _number(".", ",")
_DAY, _YEAR = r"(?P<first>\d{1,2})", r"(?P<year>\d{4})"
_YEAR_LAST = rf"^{_DAY}[./-](?P<second>\d{{1,2}})[./-]{_YEAR}$"
_YEAR_FIRST = r"^\d{4}[./-]\d{1,2}[./-]\d{1,2}$"


def as_numbers(text: "pa.ChunkedArray") -> Reading | None:
    """Text that is numbers but for currencies, percent signs and separators; None if it is not.

    A comma before three digits separates thousands unless another cell shows that it is decimal.
    Mixed signs, and points that could be either, are left as text.
    """
    import pyarrow as pa
    import pyarrow.compute

    compute: Any = pyarrow.compute  # its functions are made when it is imported
    point, comma = (compute.match_substring_regex(text, p) for p in (_POINT, _COMMA))
    with_point, with_comma = (compute.sum(found).as_py() or 0 for found in (point, comma))
    is_number, decimal = (point, ".") if with_point >= with_comma else (comma, ",")
    if not _are_most(is_number, text):
        return None
    cells = compute.if_else(is_number, text, None)
    if with_point == with_comma and _has_points_in_some(cells):
        return None
    bare = compute.replace_substring_regex(cells, rf"{_MONEY}|%", "")
    if not _have_one_sign(cells.drop_null()):
        return None
    plain = compute.replace_substring_regex(bare, rf"[^-\d{decimal}eE]", "")
    numbers = compute.replace_substring(plain, ",", ".").cast(pa.float64())
    if plain.drop_null() == cells.drop_null():
        return Reading(numbers, "text, read as numbers", is_plain=True)
    return Reading(numbers, "text, read as numbers: signs and separators are left out")


def _have_one_sign(cells: "pa.ChunkedArray") -> bool:
    """Whether all cells are in one currency, or all in per cent; some may lack the currency."""
    import pyarrow.compute

    compute: Any = pyarrow.compute
    found = compute.extract_regex(cells, rf"(?P<sign>{_MONEY}|%)")
    signs = set(compute.struct_field(found, "sign").unique().to_pylist())
    return len(signs - {None}) <= 1 and not signs >= {None, "%"}


def as_dates(text: "pa.ChunkedArray") -> Reading | None:
    """Text that is days, with the year first or last; None if it is not.

    Whether day or month comes first is told from numbers beyond 12, and from points, before which
    the day comes first.
    """
    import pyarrow.compute

    compute: Any = pyarrow.compute
    order = "%Y/%m/%d"
    found = compute.match_substring_regex(text, _YEAR_FIRST)
    if not _are_most(found, text):
        found = compute.match_substring_regex(text, _YEAR_LAST)
        if not _are_most(found, text):
            return None
        order = _order_of(compute.if_else(found, text, None).drop_null())
    if not order:
        return Reading(None, "looks like dates of an unknown order: convert it")
    cells = compute.replace_substring_regex(compute.if_else(found, text, None), "[.-]", "/")
    days = compute.strptime(cells, format=order, unit="s", error_is_null=True)
    return Reading(days, "text, read as dates") if _are_most(days.is_valid(), text) else None


def _order_of(cells: "pa.ChunkedArray") -> str:
    import pyarrow as pa
    import pyarrow.compute

    compute: Any = pyarrow.compute
    parts = compute.extract_regex(cells, _YEAR_LAST)
    first, second = (
        compute.max(compute.struct_field(parts, place).cast(pa.int64())).as_py() for place in (0, 1)
    )
    has_points = compute.all(compute.match_substring(cells, ".")).as_py()
    if second <= 12 and (first > 12 or has_points):
        return "%d/%m/%Y"
    return "%m/%d/%Y" if first <= 12 < second else ""


def _are_most(found: "pa.ChunkedArray", text: "pa.ChunkedArray") -> bool:
    import pyarrow.compute

    compute: Any = pyarrow.compute
    present = len(text) - text.null_count
    return present > 0 and (compute.sum(found).as_py() or 0) >= _ALIKE * present


def _has_points_in_some(cells: "pa.ChunkedArray") -> bool:
    """Whether some numbers have a point and some not, as 900 and 1.234 have."""
    import pyarrow.compute

    compute: Any = pyarrow.compute
    points = compute.match_substring(cells, ".")
    return compute.any(points).as_py() and not compute.all(points).as_py()


def read_text(path: Path) -> bytes:
    """The bytes of a text file in UTF-8, unpacked if its name ends in .gz; UTF-16 is converted.

    Raises:
        DataFileError: the file is damaged, of another encoding, not text, or empty.
    """
    content = _unpacked(path) if path.suffix == ".gz" else path.read_bytes()
    for mark, encoding in _BYTE_ORDERS.items():
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
