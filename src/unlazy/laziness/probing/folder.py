# SPDX-License-Identifier: Apache-2.0
"""The folder of a probe: what it is about, its start, one line per record, parameters if wanted.

| file | |
|---|---|
| `probe.json` | the shapes of the parameters, and what the probe looks at |
| `start.npz` | the parameters at the start, and the outputs there |
| `records.jsonl` | one line per record, with the kernel at it |
| `params-<step>.npz` | the parameters at a record, where they are kept |

A process may be killed at any moment. Records are appended and forced to the disk; what is left of
a line that was being written is dropped when the folder is opened again.
"""

import base64
import binascii
import json
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from unlazy.core import disk
from unlazy.core.errors import DataFileError, UnlazyWarning, user_level
from unlazy.laziness.probing.arrays import read_arrays, write_arrays
from unlazy.laziness.probing.records import ProbeRecord

ABOUT, START, RECORDS = "probe.json", "start.npz", "records.jsonl"


class Point(NamedTuple):
    """A record, and the kernel at it; None where the parameters were not finite."""

    record: ProbeRecord
    kernel: Float[np.ndarray, "n n"] | None


class Folder:
    """The files of a probe."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make the folder if need be, and raise unless it can be written."""
        self.path = Path(path)
        disk.make_writable(self.path)
        disk.clear_abandoned(self.path)

    def about(self) -> dict[str, Any] | None:
        """What the folder is about; None for a new one."""
        try:
            with disk.open_regular(self.path / ABOUT) as file:
                found = json.load(file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, disk.NotAFileError) as error:
            raise _damaged(self.path / ABOUT, str(error)) from error
        if not isinstance(found, dict):
            raise _damaged(self.path / ABOUT, "it holds no object")
        return found

    def begin(self, about: dict[str, Any], start: dict[str, np.ndarray]) -> None:
        """Write what the folder is about, last: a folder without that file is new."""
        write_arrays(self.path / START, start)
        disk.replace_file(self.path / RECORDS, b"")
        text = json.dumps(about, indent=1) + "\n"
        disk.replace_file(self.path / ABOUT, text.encode())

    def start(self) -> dict[str, np.ndarray]:
        """The arrays of the start."""
        return self._arrays(START)

    def points(self) -> list[Point]:
        """All records; what a killed process left of a last line is dropped, with a warning."""
        path = self.path / RECORDS
        with disk.disk_errors("read", self.path), disk.open_regular(path) as file:
            *lines, rest = file.read().split(b"\n")
        points = [_point(line, path, number) for number, line in enumerate(lines, start=1)]
        if rest:
            warnings.warn(
                f"The last line of '{path}' was written in part, as by a process that was killed. "
                "It is dropped; the records before it are whole.",
                UnlazyWarning,
                stacklevel=user_level(),
            )
            self.rewrite(points)
        return points

    def append(self, point: Point) -> None:
        """Add a record at the end, and wait until the disk has it."""
        with disk.disk_errors("write to", self.path), (self.path / RECORDS).open("ab") as file:
            file.write(_line(point))
            file.flush()
            os.fsync(file.fileno())

    def rewrite(self, points: list[Point]) -> None:
        """Write all records anew."""
        disk.replace_file(self.path / RECORDS, b"".join(map(_line, points)))

    def keep_params(self, step: int | float, arrays: dict[str, np.ndarray]) -> None:
        """Write the parameters at a step."""
        write_arrays(self.path / _params_name(step), arrays)

    def params(self, step: int | float) -> dict[str, np.ndarray] | None:
        """The parameters at a step; None if they were not kept."""
        is_there = os.path.lexists(self.path / _params_name(step))
        return self._arrays(_params_name(step)) if is_there else None

    def forget_params(self, step: int | float) -> None:
        """Remove the parameters at a step."""
        disk.discard(self.path / _params_name(step))

    def _arrays(self, name: str) -> dict[str, np.ndarray]:
        with disk.disk_errors("read", self.path):
            return read_arrays(self.path / name)


def _params_name(step: int | float) -> str:
    return f"params-{step:.17g}.npz"


def _damaged(path: Path, why: str) -> DataFileError:
    return DataFileError(
        f"cannot read '{path}': {why}. Delete the folder or use another, to begin anew."
    )


def _line(point: Point) -> bytes:
    found = point.record.as_json()
    if point.kernel is not None:
        K = np.asarray(point.kernel, "<f4")
        triangle = K[np.tril_indices(len(K))]
        found["kernel_entries"] = base64.b64encode(triangle.tobytes()).decode()
    return json.dumps(found).encode() + b"\n"


def _point(line: bytes, path: Path, number: int) -> Point:
    try:
        found = json.loads(line)
        entries = found.pop("kernel_entries", None)
        return Point(ProbeRecord.from_json(found), None if entries is None else _kernel(entries))
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error) as error:
        raise _damaged(path, f"line {number} is no record of a probe") from error


def _kernel(entries: str) -> Float[np.ndarray, "n n"]:
    triangle = np.frombuffer(base64.b64decode(entries, validate=True), "<f4").astype(np.float64)
    n = round((np.sqrt(8 * len(triangle) + 1) - 1) / 2)
    K = np.zeros((n, n))
    K[np.tril_indices(n)] = triangle
    return K + np.tril(K, -1).T
