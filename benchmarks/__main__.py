# SPDX-License-Identifier: Apache-2.0
"""Run every benchmark, or those named: `python -m benchmarks relu_gram`."""

import importlib
import pkgutil
import sys
from pathlib import Path

from benchmarks.timing import describe_machine

# No times to take: helpers, tables of the user, environments of their own, a plan.
HELPERS = ("__main__", "timing", "uci", "peers", "schedules", "scale_plan", "million")


def main() -> int:
    found = [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)])]
    names = [name for name in found if name not in HELPERS]
    chosen = sys.argv[1:] or names
    unknown = set(chosen) - set(names)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(names)}", file=sys.stderr)
        return 2
    print(describe_machine())
    within = [importlib.import_module(f"benchmarks.{name}").main() for name in chosen]
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
