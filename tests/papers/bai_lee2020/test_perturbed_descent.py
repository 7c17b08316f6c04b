# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from unlazy.papers.bai_lee2020 import theoretical_perturbation


def test_the_constants_of_the_theorem_satisfy_their_definitions():
    N, smooth, rho, eps, gap, delta, c = 50, 3.0, 2.0, 0.1, 4.0, 0.05, 0.5
    rate, rule = theoretical_perturbation(N, smooth, rho, eps, gap=gap, failure=delta, c=c)
    chi = 3 * math.log(N * smooth * gap / (c * eps**2 * delta))
    assert rate == pytest.approx(c / smooth)
    assert rule.radius * smooth == pytest.approx(rule.gradient_threshold)
    assert rule.gradient_threshold == pytest.approx(math.sqrt(c) * eps / chi**2)
    assert rule.decrease == pytest.approx(c * chi**-3 * math.sqrt(eps**3 / rho))
    assert rule.patience == math.ceil(chi * smooth / (c**2 * math.sqrt(rho * eps)))
    # The logarithm is at least 4.
    _, easy = theoretical_perturbation(1, 1.0, 1.0, 0.9, gap=1.0, failure=0.9)
    assert easy.gradient_threshold == pytest.approx(0.9 / 144)
