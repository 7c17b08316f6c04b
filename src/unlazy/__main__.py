# SPDX-License-Identifier: Apache-2.0
"""`python -m unlazy`, the same as `unlazy`."""

from unlazy.cli import main

if __name__ == "__main__":
    main()
