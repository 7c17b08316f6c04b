# SPDX-License-Identifier: Apache-2.0
"""Writes `slow.txt`, the tests that `make test` leaves to `make test-all`, from measured times.

    pytest -m '' --numprocesses 2 --dist loadfile -o junit_family=xunit1 --junitxml times.xml
    python tests/slow_list.py times.xml

One test in fourteen takes half of the time: they are the larger cases of what a smaller one checks
as well, and whole trainings. Of each function with several cases the quickest has a laxer limit, so
that most functions keep a case in the quick suite.
"""

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

LIST = Path(__file__).with_name("slow.txt")
MOST, MOST_OF_THE_QUICKEST = 0.7, 1.4  # seconds, beside another worker on two cores
# What users meet first, and what is lost when processes die: checked at every change.
KEPT = (
    "tests/experiments/",
    "tests/nets/test_sharding.py",
    "tests/papers/test_presets.py",
    "tests/test_cli",
    *("tests/contracts/test_maps.py", "tests/contracts/test_mentions.py"),
    *(
        f"tests/contracts/test_documents.py::test_every_example_runs[{page}]"
        for page in ("README.md", "tour.md", "instruments.md", "is-my-model-lazy.md")
    ),
)


def chosen(times: Mapping[str, float]) -> list[str]:
    """The tests that are slow, by their seconds."""
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(times, key=times.__getitem__):
        cases[name.partition("[")[0]].append(name)
    return sorted(
        name
        for names in cases.values()
        for i, name in enumerate(names)
        if times[name] > (MOST if i else MOST_OF_THE_QUICKEST) and not name.startswith(KEPT)
    )


def measured(report: Path) -> dict[str, float]:
    """The seconds of each test of a JUnit report."""
    cases: Iterable[ET.Element] = ET.parse(report).iter("testcase")
    return {f"{c.get('file')}::{c.get('name')}": float(c.get("time", 0)) for c in cases}


if __name__ == "__main__":
    LIST.write_text("\n".join(chosen(measured(Path(sys.argv[1])))) + "\n")
