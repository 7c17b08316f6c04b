# SPDX-License-Identifier: Apache-2.0
"""Errors that were measured for the record before this library, at reduced sizes.

Source: LG-51 and LG-52, arXiv:1811.04918 section 7; another generator, hence other samples.
"""

from dataclasses import dataclass

from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import Size

PLACE = Size(128, 1000, 200)


@dataclass(frozen=True)
class Recorded:
    """The recorded errors of one target, at `PLACE` unless noted; test errors of seeds 0, 1, 2."""

    id: str
    test: dict[str, tuple[float, ...]]
    train: dict[str, tuple[float, ...]]
    ridge: dict[str, float]  # one seed
    # One seed, with half of our steps.
    widths: dict[str, dict[int, float]]
    samples: dict[str, dict[int, float]]


RECORDED = {
    "composed-sines": Recorded(
        id="LG-51",
        test={
            "3layer": (0.39, 0.57, 0.38),
            "2layer": (15.0, 14.5, 14.9),
            "3layer(NTK)": (9.4, 12.3, 10.6),
            "2layer(NTK)": (22.3, 15.2, 16.9),
            "3layer(last)": (19.4, 24.4, 21.3),
            "2layer(last)": (23.6, 20.9, 20.3),
        },
        train={
            "3layer": (0.08, 0.10, 0.08),
            "2layer": (11.0, 11.2, 11.7),
            "3layer(NTK)": (2.5, 3.3, 3.2),
            "2layer(NTK)": (8.1, 7.7, 7.6),
            "3layer(last)": (16.6, 20.5, 18.8),
            "2layer(last)": (20.8, 17.5, 20.2),
        },
        ridge={"3layer(NTK)": 8.1, "2layer(NTK)": 21.6, "3layer(last)": 17.1, "2layer(last)": 16.1},
        widths={"3layer": {32: 1.50, 64: 0.84}, "2layer": {32: 23.1, 64: 17.2}},
        samples={
            "3layer": {200: 4.28, 500: 1.39, 1000: 0.84, 2000: 0.69},
            "2layer": {200: 25.4, 500: 18.5, 1000: 17.2, 2000: 17.4},
        },
    ),
    "composed-tanhs": Recorded(
        id="LG-52",
        test={
            "3layer": (0.11, 0.14, 0.18),
            "2layer": (11.4, 10.8, 11.6),
            "3layer(NTK)": (5.0, 5.5, 6.1),
            "2layer(NTK)": (7.0, 8.3, 8.6),
            "3layer(last)": (8.1, 9.8, 12.7),
            "2layer(last)": (7.4, 8.5, 9.9),
        },
        train={"2layer": (8.5, 9.6)},
        ridge={"3layer(NTK)": 4.7, "2layer(NTK)": 6.8, "3layer(last)": 7.2, "2layer(last)": 6.4},
        widths={},
        samples={},
    ),
}
