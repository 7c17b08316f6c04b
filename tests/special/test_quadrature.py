# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.special import gaussian_rule


@pytest.mark.parametrize("power", range(0, 21, 2))
def test_rule_gives_the_moments_of_a_gaussian(power):
    nodes, weights = gaussian_rule()
    moment = math.prod(range(1, power, 2))
    assert weights @ nodes**power == pytest.approx(moment, rel=1e-13)
    assert weights @ np.abs(nodes) == pytest.approx(math.sqrt(2 / math.pi), rel=1e-14)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_rule_resolves_a_step_of_any_steepness_at_zero(scale):
    # E erf(s g)^2 = (2/pi) arcsin(2 s^2 / (1 + 2 s^2)).
    nodes, weights = gaussian_rule()
    values = np.asarray([math.erf(scale * g) for g in nodes])
    expected = 2 / math.pi * math.atan2(2 * scale**2, math.sqrt(1 + 4 * scale**2))
    assert weights @ values**2 == pytest.approx(expected, rel=1e-13)
