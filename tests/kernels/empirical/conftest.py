# SPDX-License-Identifier: Apache-2.0
"""The networks that every implementation is tried on."""

import importlib.util
from pathlib import Path

import pytest

NETWORKS = Path(__file__).parent / "networks.py"


@pytest.fixture(scope="session")
def networks():
    """The module of networks; tests are no package, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("networks", NETWORKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
