# SPDX-License-Identifier: Apache-2.0
"""Errors that were measured for the record before this library.

Source: RN-63 to RN-65, arXiv:1905.10337; another generator, hence other samples, and other grids.
The tiny errors of 3resnet are not among them: they are claimed to be small, not to be so small.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Recorded:
    """Test errors at one size: of networks by seed, of kernels of infinite width by one seed."""

    id: str
    inputs: int
    n: int
    mode: str
    width: int
    networks: dict[str, tuple[float, ...]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)


RECORDED = (
    Recorded(
        "RN-64",
        *(16, 400, "all", 50),
        networks={"3layer(all)": (0.357, 0.685, 0.556), "2layer(all)": (1.39, 1.40, 1.26)},
        limits={
            "2layer(last)": 1.19,
            "2layer(NTK)": 1.31,
            "3layer(last)": 1.39,
            "3layer(NTK)": 1.89,
        },
    ),
    Recorded(
        "RN-65",
        *(16, 800, "hidden", 100),
        networks={"3layer(hidden)": (0.306,), "2layer(hidden)": (0.897,)},
        limits={"2layer(last)": 0.89, "2layer(NTK)": 0.92},
    ),
    Recorded(
        "RN-63",
        *(30, 500, "all", 200),
        limits={
            "2layer(last)": 5.08,
            "2layer(NTK)": 6.35,
            "3layer(last)": 6.47,
            "3layer(NTK)": 8.62,
        },
    ),
    Recorded(
        "RN-63",
        *(30, 1000, "hidden", 100),
        limits={
            "2layer(last)": 2.43,
            "2layer(NTK)": 2.99,
            "3layer(last)": 3.08,
            "3layer(NTK)": 4.73,
        },
    ),
)
