# SPDX-License-Identifier: Apache-2.0
import matplotlib as mpl
import pytest

from unlazy.core.drawing import round_ticks

mpl.use("agg")


def ticks(low, high):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    round_ticks(ax)
    return list(ax.get_yticks())


def test_few_decades_have_many_ticks_and_many_have_few():
    assert ticks(1.05, 1.4) == [1.1, 1.2, 1.3, 1.4]
    assert ticks(0.9, 12) == [1, 1.5, 2, 3, 5, 7, 10]
    assert ticks(0.0015, 130)[:4] == [0.002, 0.005, 0.01, 0.02]
    assert ticks(1e-8, 2) == [10.0**-k for k in range(8, -1, -1)]


@pytest.mark.parametrize(
    ("low", "high"), [(1e-3, 1e3), (0.021, 22), (3e-7, 4e5), (1.1, 1.4), (0.072, 0.095)]
)
def test_all_ticks_are_within_the_limits_and_can_be_read(low, high):
    found = ticks(low, high)
    assert all(low <= tick <= high for tick in found)
    assert 4 <= len(found) <= 15
