# SPDX-License-Identifier: Apache-2.0
"""The entry point of `python -m unlazy` and `unlazy`."""

import sys

from unlazy.core.interrupts import INTERRUPTS


def main() -> None:
    """Run the command line, interruptible even while it is being imported."""
    # Not undone at the end: an interrupt while Python shuts down would print a traceback.
    INTERRUPTS.watch()
    try:
        from unlazy import cli
    except KeyboardInterrupt:
        INTERRUPTS.settle()
        if sys.stderr:
            sys.stderr.write("unlazy: interrupted.\n")
        sys.exit(INTERRUPTS.exit_code)
    cli.main()


if __name__ == "__main__":
    main()
