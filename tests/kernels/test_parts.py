# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.kernels.parts import even_parts, of_one_size


@pytest.mark.parametrize(("n", "count"), [(1, 1), (7, 7), (50, 4), (4001, 8), (60000, 15)])
def test_parts_of_one_size_reach_every_row_and_share_one_at_most(n, count):
    parts = even_parts(n, count)
    blocks = of_one_size(parts)
    for (start, stop), first in zip(parts, blocks.starts, strict=True):
        assert 0 <= first <= start
        assert stop <= first + blocks.size <= min(stop + 1, n)
        assert start - first <= 1
    assert list(blocks.starts) == sorted(set(blocks.starts))
    assert np.ptp([stop - start for start, stop in parts]) <= 1
