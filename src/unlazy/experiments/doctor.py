# SPDX-License-Identifier: Apache-2.0
"""Whether the machine has everything that the experiments need."""

from pathlib import Path
from typing import Any

from unlazy.core import disk
from unlazy.core.errors import StoreError
from unlazy.experiments import environment

DATA_SETS = ("mnist", "fashion-mnist", "cifar10", "digits")
# Sums of 256 products leave about sqrt(256) roundings of 1e-16; float32 would leave 1e-7.
_FLOAT64_TOLERANCE = 1e-13


def examine(out: Path) -> dict[str, Any]:
    """Versions, devices, precision, data sets and whether `out` can be written, for JSON.

    `ok` says whether float64 works on the default device, which all the kernel code relies on, and
    whether the output folder, which need not exist, can be written. Missing data sets and optional
    packages are no fault.
    """
    precision, problem = environment.precision(), _problem(out)
    works = precision["float64_product_error"] < _FLOAT64_TOLERANCE
    return {
        "ok": works and problem is None,
        "versions": environment.versions(),
        "optional": environment.optional_versions(),
        "devices": environment.devices(),
        "precision": {"float64_works": works, **precision},
        "data": {name: _where(name) for name in DATA_SETS},
        "out": {"folder": str(out), "problem": problem},
    }


def _where(name: str) -> str | None:
    from unlazy import data  # brings in JAX and more

    path = data.where(name)
    return None if path is None else str(path)


def _problem(out: Path) -> str | None:
    try:
        disk.check_writable(disk.nearest_existing(out))
    except StoreError as error:
        return str(error)
    return None
