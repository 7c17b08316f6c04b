# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.construct import parity_network
from unlazy.data import corners


def test_equal_entries_are_the_best_direction_for_a_parity_of_eight():
    # RN-73: gamma = c_p / sqrt(p d) by ascent from random starts, p = d = 8; checked, not proved.
    # Three seeds of 200 starts came within 1e-4 of it from below.
    d = 8
    x = corners(d, scale=d**-0.5)
    y = np.prod(x * math.sqrt(d), axis=1)
    u, best = np.random.default_rng(8).standard_normal((200, d)), 0.0
    for t in range(300):
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        z = u @ x.T
        value = np.mean(y * np.maximum(z, 0), axis=1)
        best = max(best, float(np.max(np.abs(value))))
        slope = np.sign(value)[:, None] * ((z > 0) * y) @ x
        # The function has kinks, at its maximum too: steps must shrink.
        u = u + 0.97**t * slope / (np.linalg.norm(slope, axis=1, keepdims=True) + 1e-300)
    gamma = parity_network(d, d).gamma
    assert 0.999 * gamma <= best <= gamma * (1 + 1e-12)
    assert gamma == pytest.approx(0.15625 / d, rel=1e-12)  # c_8 = .15625
