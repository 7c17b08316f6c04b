# SPDX-License-Identifier: Apache-2.0
"""Run every benchmark, or those named: `python -m benchmarks relu_gram`.

With `--write` what they print goes into docs/benchmarks.md too, in the place of what stood there.
"""

import argparse
import contextlib
import datetime
import importlib
import io
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import TextIO

from benchmarks.timing import describe_machine

# No times to take: helpers, tables of the user, environments of their own, a plan.
HELPERS = ("__main__", "timing", "uci", "peers", "schedules", "scale_plan", "million")
NAMES = [
    m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.name not in HELPERS
]
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


class Tee(io.StringIO):
    """Text that is shown as it comes, and kept."""

    def __init__(self, shown: TextIO) -> None:
        super().__init__()
        self.shown = shown

    def write(self, text: str) -> int:
        self.shown.write(text)
        self.shown.flush()
        return super().write(text)


def section(module: ModuleType, name: str, output: str) -> str:
    """What the page says of one benchmark: what it measures, when and where, and what came out."""
    about = (module.__doc__ or "").strip()
    where = f"{datetime.date.today().isoformat()}, {describe_machine()}"
    return f"### {name}\n\n{about}\n\n```text\n{output.strip()}\n```\n\n*{where}.*"


def written(page: str, name: str, text: str) -> str:
    """The page with this section of one benchmark, at the end if it had none."""
    start, end = f"<!-- {name} -->\n", "<!-- end -->\n"
    if start not in page:
        page = f"{page.rstrip()}\n\n{start}{end}"
    before, _, rest = page.partition(start)
    return f"{before}{start}\n{text}\n\n{end}{rest.partition(end)[2]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    print(describe_machine())
    every = True
    for name in options.names or NAMES:
        module, output = importlib.import_module(f"benchmarks.{name}"), Tee(sys.stdout)
        with contextlib.redirect_stdout(output):
            every &= module.main()
        if options.write:
            text = section(module, name, output.getvalue())
            PAGE.write_text(written(PAGE.read_text(), name, text))
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
