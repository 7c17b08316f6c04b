# SPDX-License-Identifier: Apache-2.0
"""A cell: the unit of work of an experiment, and what comes out of it."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from unlazy.core.entries import entry
from unlazy.experiments.canonical import compact_json, encode

# An experiment's name is also a folder below the store: no dots in front, no empty parts.
_PART = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_NAME = re.compile(rf"{_PART}(/{_PART})*")

Progress = Callable[[int, int], None]
"""A cell reports how far it is: `progress(done, total)`."""


@dataclass(frozen=True, eq=False)
class Cell:
    """What to compute: a pure function's configuration and seed, and which function it is.

    Two cells are the same exactly when their digests are: the SHA-256 of the canonical text of the
    experiment's name and version, the class and every field of the configuration, and the seed.

    Example:
        >>> @dataclass(frozen=True)
        ... class Width:
        ...     m: int
        >>> Cell("demo", 1, Width(m=10)) == Cell("demo", 1, Width(m=10), label="narrow")
        True
    """

    experiment: str  # such as `arora2019/figure1`
    version: int  # of the experiment's code
    config: Any  # a frozen dataclass of Python scalars, strings, tuples and such dataclasses
    seed: int = 0  # of the cell's random key
    label: str = ""  # a few words for the progress bar; not part of the digest
    digest: str = field(init=False, repr=False)  # 64 hexadecimal digits

    @entry
    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.experiment):
            raise ValueError(
                "`experiment` must be names of letters, digits, '_', '-' and '.' joined by '/', "
                f"got experiment={self.experiment!r}."
            )
        for name, value in (("version", self.version), ("seed", self.seed)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"`{name}` must be a Python integer, got {name}={value!r}.")
        text = compact_json(self.identity())
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest())

    def identity(self) -> dict[str, Any]:
        """All that the digest is taken of, ready for JSON."""
        return {
            "experiment": self.experiment,
            "version": self.version,
            "config": encode(self.config),
            "seed": self.seed,
        }

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Cell) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        return self.label or f"{self.experiment} {self.digest[:8]}"


@dataclass(frozen=True, eq=False)
class CellResult:
    """What a cell computed.

    Example:
        >>> CellResult({"step": np.arange(3), "loss": np.array([1.0, 0.5, 0.25])}).rows
        3
    """

    table: dict[str, np.ndarray]  # columns of equal length, of booleans, numbers or strings
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # of any shape, without objects

    @entry
    def __post_init__(self) -> None:
        for name, column in self.table.items():
            _check_column(name, column)
        lengths = {name: len(column) for name, column in self.table.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"`table` must have columns of equal length, got lengths={lengths}.")
        for name, array in self.arrays.items():
            _check_array(name, array)

    @property
    def rows(self) -> int:
        """The number of rows of the table."""
        return next((len(column) for column in self.table.values()), 0)


Results = Mapping[Cell, CellResult]
"""The result of every cell of a run, in the order of the cells, for the claims and the plot."""


@runtime_checkable
class Run(Protocol):
    """How a cell is computed: a pure function of its configuration and seed."""

    def __call__(self, config: Any, /, *, seed: int, progress: Progress) -> CellResult:
        """Compute the cell of this `config` and `seed`, telling `progress(done, total)`."""
        ...


def _check_column(name: str, column: np.ndarray) -> None:
    """Raise unless Parquet gives this column back unchanged."""
    _check_named_array(f"table[{name!r}]", name, column)
    # Kinds: boolean, signed, unsigned, float, string. Parquet has no float of more than 8 bytes.
    fits = column.dtype.kind in "biufU" and (column.dtype.kind != "f" or column.itemsize <= 8)
    if column.ndim != 1 or not fits:
        raise ValueError(
            f"`table[{name!r}]` must be one-dimensional, of booleans, integers, floats or strings, "
            f"got shape={column.shape}, dtype={column.dtype}. Put anything else in `arrays`."
        )


def _check_array(name: str, array: np.ndarray) -> None:
    """Raise unless `array` can be stored without pickle."""
    _check_named_array(f"arrays[{name!r}]", name, array)
    if array.dtype.hasobject:
        raise ValueError(
            f"`arrays[{name!r}]` must not hold Python objects, got dtype={array.dtype}. "
            "Give it a numeric or string dtype; nothing is ever pickled."
        )


def _check_named_array(where: str, name: str, array: np.ndarray) -> None:
    """Raise unless this is a NumPy array under a plain name."""
    if not (isinstance(name, str) and name and "/" not in name and name.isprintable()):
        raise ValueError(f"`{where}` must have a plain name without '/', got name={name!r}.")
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"`{where}` must be a NumPy array, got type={type(array).__name__}. "
            "Call np.asarray on it."
        )
