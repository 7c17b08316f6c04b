# SPDX-License-Identifier: Apache-2.0
"""Compare with the peers: `python -m benchmarks.peers [case ...] [--json PATH] [--all]`.

Makes the peers' environments under `.peers/` when they are missing. Exit code 1 when a limit is
missed or an answer differs. One process runs at a time; leave the machine to it meanwhile.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path

from benchmarks.peers.cases import CASES
from benchmarks.peers.driver import THREADS, run_case, same_cores
from benchmarks.peers.report import as_data, is_void, judge, show


def main() -> int:
    options = _options()
    same_cores()
    start = time.perf_counter()
    print(f"python {platform.python_version()}, {platform.machine()}, {THREADS} threads each")
    good, data = True, []
    for case in CASES:
        if options.cases and case.name not in options.cases:
            continue
        results = run_case(case, everything=options.all)
        show(case, results)
        sys.stdout.flush()
        data.append(as_data(case, results))
        good &= all(verdict.holds for verdict in judge(case, results))
        good &= not any(is_void(case, result) for result in results)
    print(f"\n{time.perf_counter() - start:.0f} s: {'all limits held' if good else 'NOT all held'}")
    if options.json:
        options.json.write_text(json.dumps({"threads": THREADS, "cases": data}, indent=2) + "\n")
    return 0 if good else 1


def _options() -> argparse.Namespace:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {', '.join(names)}")
    parser.add_argument("--json", type=Path, help="write the numbers here as well")
    parser.add_argument(
        "--all", action="store_true", help="with the hopeless variants: minutes more, and 15 GB"
    )
    options = parser.parse_args()
    unknown = set(options.cases) - set(names)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(names)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
