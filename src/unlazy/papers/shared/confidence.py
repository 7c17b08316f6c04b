# SPDX-License-Identifier: Apache-2.0
"""The failure probability that every high-probability bound asks for."""


def check_delta(delta: float, name: str = "delta") -> None:
    """Raise unless `delta` is a probability strictly between 0 and 1."""
    if not 0 < delta < 1:
        raise ValueError(
            f"`{name}` must be a failure probability in (0, 1), got {name}={delta}. "
            "Use 0.05 for a statement that holds with probability 95%."
        )
