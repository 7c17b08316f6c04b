# SPDX-License-Identifier: Apache-2.0
"""The list of slow tests names tests that exist, and is chosen by the rule that it states."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def slow_list():
    spec = importlib.util.spec_from_file_location("slow_list", ROOT / "tests" / "slow_list.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_line_names_a_test(slow_list):
    # If not: write the list anew, or take the line out.
    lines = slow_list.LIST.read_text().splitlines()
    assert lines == sorted(set(lines))
    texts = {file: (ROOT / file).read_text() for file in {x.partition("::")[0] for x in lines}}
    for line in lines:
        file, _, name = line.partition("::")
        last = name.partition("[")[0].rpartition(".")[2]  # of the name of an example, the function
        assert re.search(rf"^\s*(def|class) {last}\b", texts[file], re.MULTILINE), line
        assert not line.startswith(slow_list.KEPT)


def test_of_each_function_the_quickest_case_stays_unless_it_is_slow_itself(slow_list):
    times = {"a::f[0]": 1.1, "a::f[1]": 0.8, "a::f[2]": 0.2, "a::g": 1.3, "a::h": 1.5, "a::k[x]": 3}
    assert slow_list.chosen(times) == ["a::f[0]", "a::f[1]", "a::h", "a::k[x]"]
    assert slow_list.chosen({"tests/experiments/test_store.py::f": 9}) == []


def test_times_are_read_from_a_report_of_pytest(slow_list, tmp_path):
    report = tmp_path / "times.xml"
    report.write_text('<x><testcase file="tests/a.py" name="test_b[1]" time="2.5"/></x>')
    assert slow_list.measured(report) == {"tests/a.py::test_b[1]": 2.5}
