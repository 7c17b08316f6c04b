# SPDX-License-Identifier: Apache-2.0
import math

import mpmath
import numpy as np
import pytest
from scipy.linalg import expm

from unlazy.dynamics.decays import Rule, as_times, as_whole_steps


def stepped(rate, momentum, steps):
    """The recursion itself, with a velocity that starts at zero."""
    e, v, found = 1.0, 0.0, []
    for _ in range(steps + 1):
        found.append(e)
        v = momentum * v - rate * e
        e = e + v
    return np.array(found)


@pytest.mark.parametrize("momentum", [1e-12, 0.01, 0.25, 0.9, 0.999])
def test_momentum_is_the_recursion(momentum):
    root = math.sqrt(momentum)
    # None, slow, where the roots meet on either side, oscillating, and up to the largest rate.
    meeting = [(1 - root) ** 2, (1 - root) ** 2 * (1 + 1e-9), (1 + root) ** 2]
    rates = np.array([0.0, 1e-6, 0.3, 1.0, 1.5, *meeting, 2 * (1 + momentum) * (1 - 1e-9)])
    steps = np.arange(60)
    share = Rule(1.0, momentum).by_steps(rates, steps.astype(float))
    expected = np.array([stepped(rate, momentum, 59) for rate in rates]).T
    np.testing.assert_allclose(share.left, expected, atol=2e-11)
    np.testing.assert_allclose(share.learnt, 1 - expected, atol=2e-11)


@pytest.mark.parametrize("momentum", [0.0, 0.1, 0.9])
def test_flow_is_the_exponential_of_its_matrix(momentum):
    rule = Rule(0.3, momentum)
    friction = (1 - momentum) / rule.learning_rate
    # The third curvature is critical: the two roots meet.
    curvatures = np.array([0.0, 1e-5, friction**2 / 4 * rule.learning_rate, 0.7, 9.0])
    times = np.array([0.0, 1e-3, 0.4, 2.0, 7.0])
    share = rule.by_times(curvatures, times)
    for i, t in enumerate(times):
        for j, curvature in enumerate(curvatures):
            force = curvature / rule.learning_rate
            state = np.array([[0, 1], [-force, -friction]])
            exact = expm(t * state)[0, 0] if momentum else math.exp(-curvature * t)
            assert share.left[i, j] == pytest.approx(exact, abs=1e-12)
            assert share.learnt[i, j] == pytest.approx(1 - exact, abs=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_little_learning_keeps_its_digits(momentum):
    rate, k = 1e-11, 1000
    with mpmath.workdps(60):
        e, v = mpmath.mpf(1), mpmath.mpf(0)
        for _ in range(k):
            v = mpmath.mpf(momentum) * v - mpmath.mpf(rate) * e
            e += v
        exact = float(1 - e)
    share = Rule(1.0, momentum).by_steps(np.array([rate]), np.array([float(k)]))
    assert share.learnt[0, 0] == pytest.approx(exact, rel=1e-12)
    slow = Rule(1e-4, momentum).by_times(np.array([rate]), np.array([1000.0]))
    # By time 1000 the velocity has long settled: the distance is t - eta/(1-m) at that speed.
    lag = 1000.0 - (1e-4 / (1 - momentum) if momentum else 0)
    assert slow.learnt[0, 0] == pytest.approx(rate * lag / (1 - momentum), rel=1e-7)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_the_limit_is_all_or_nothing(momentum):
    rule, most = Rule(1.0, momentum), 2 * (1 + momentum)
    rates = np.array([0.0, 0.4, most - 1e-6, most + 1e-6])
    share = rule.by_steps(rates, np.array([math.inf]))
    np.testing.assert_array_equal(share.left[0], [1, 0, 0, np.inf])
    np.testing.assert_array_equal(share.learnt[0], [0, 1, 1, -np.inf])
    flow = rule.by_times(rates, np.array([math.inf]))
    np.testing.assert_array_equal(flow.left[0], [1, 0, 0, 0])
    with np.errstate(over="ignore", invalid="ignore"):
        far = rule.by_steps(np.array([most * 2]), np.array([1e5]))
    assert np.isinf(far.left[0, 0])


def test_descent_tends_to_the_flow():
    curvatures, momentum = np.array([0.1, 1.0, 5.0]), 0.6
    gaps = []
    for rate in (1e-3, 5e-4):
        # In the time of many steps, so that the first few, of t^2, are past.
        rule = Rule(rate, momentum)
        times = np.array([0.5, 2.0])
        steps = np.round(times / rate)
        gap = rule.by_steps(curvatures, steps).left - rule.by_times(curvatures, times).left
        gaps.append(np.abs(gap).max())
    assert gaps[0] < 5e-3
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.05)


def test_times_and_steps_are_checked():
    with pytest.raises(ValueError, match=r"`times` must be >= 0, got times=-1"):
        as_times(-1, "times")
    with pytest.raises(ValueError, match=r"`steps` must be an integer >= 0 or inf"):
        as_whole_steps([1, 2.5], "steps")
    with pytest.raises(ValueError, match=r"`steps` must be an integer >= 0 or inf"):
        as_whole_steps(math.nan, "steps")
    assert as_whole_steps([[1, math.inf]], "steps").shape == (2,)
