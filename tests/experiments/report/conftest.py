# SPDX-License-Identifier: Apache-2.0
"""Stored runs of the toy experiment, and the report on them."""

import pytest

from unlazy.experiments import run_experiment, write_report


@pytest.fixture(scope="session")
def runs(toy, tmp_path_factory):
    """An output folder with two finished runs."""
    out = tmp_path_factory.mktemp("runs")
    for preset in ("smoke", "strict"):
        run_experiment(toy.EXPERIMENT, preset, out=out)
    return out


@pytest.fixture(scope="session")
def find(toy):
    return lambda name: toy.EXPERIMENT if name == toy.NAME else None


@pytest.fixture(scope="session")
def site(runs, find, tmp_path_factory):
    """The report on both runs."""
    return write_report(runs, tmp_path_factory.mktemp("site"), find=find)
