# SPDX-License-Identifier: Apache-2.0
"""One store for the smoke presets, and the layouts of the tables of every figure."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smoke_store(tmp_path_factory) -> Path:
    """The folder of all smoke runs: what one test file computed, no other computes again."""
    base = tmp_path_factory.getbasetemp()
    if base.name.startswith("popen-"):  # a worker of pytest-xdist, whose parent they share
        base = base.parent
    return base / "smoke"


@pytest.fixture(scope="session")
def layouts():
    """The module `layouts.py`; tests are no package, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("layouts", Path(__file__).parent / "layouts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
