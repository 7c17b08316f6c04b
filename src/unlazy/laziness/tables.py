# SPDX-License-Identifier: Apache-2.0
"""Tables of text, for the printed form of results."""


def in_columns(rows: list[list[str]], *, left: tuple[int, ...] = (0,)) -> list[str]:
    """The rows as lines with their columns in line, to the right but for those in `left`.

    Example:
        >>> in_columns([["layer", "exponent"], ["W", "0.5"]])
        ['layer  exponent', 'W           0.5']
    """
    sizes = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(size) if j in left else cell.rjust(size)
            for j, (cell, size) in enumerate(zip(row, sizes, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
