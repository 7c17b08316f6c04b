# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from unlazy.construct import interval_partition


def pieces(sets, k):
    """The intervals of I(y_k) with their signs, independent of how `signs` finds them."""
    edges = [sets.low[k], sets.high[k], sets.inner[k], sets.middle[k], sets.outer[k]]
    finite = {float(e) for e in edges if np.isfinite(e)}
    cuts = sorted({0.0} | finite | {-e for e in finite})
    for left, right in itertools.pairwise(cuts):
        g = np.zeros((1, len(sets.y)))
        g[0, k] = (left + right) / 2
        sign = sets.signs(g)[0, k]
        if sign:
            yield left, right, sign


def moments(sets, k):
    """P(I), E[s; I], E[s g; I] and the range of s g, from the pieces exactly."""
    mass = balance = mean = 0.0
    low, high = math.inf, -math.inf
    for left, right, sign in pieces(sets, k):
        p = norm.cdf(right) - norm.cdf(left)
        mass, balance = mass + p, balance + sign * p
        mean += sign * (norm.pdf(left) - norm.pdf(right))
        ends = sorted([sign * left, sign * right])
        low, high = min(low, ends[0]), max(high, ends[1])
    return mass, balance, mean, high - low


@pytest.mark.parametrize("tau", [0.01, 0.3, 0.6])
def test_sets_have_their_mass_balance_and_mean(tau):
    # LG-43: to 3e-14 for at least 201 values of y, within [-1.95, 1.95], width/tau <= 2.57 (at
    # tau = .6 it is 2.81; the lemma allows 10).
    y = np.concatenate([np.linspace(-1, 1, 201), [0.001, -0.004, 1e-6]])
    sets = interval_partition(y, tau)
    found = np.array([moments(sets, k) for k in range(len(y))])
    np.testing.assert_allclose(found[:, 0], tau, atol=3e-14)
    np.testing.assert_allclose(found[:, 1], 0, atol=3e-14)
    np.testing.assert_allclose(found[:, 2], tau * y, atol=1e-13 * max(1, tau / 0.01))
    assert found[:, 3].max() <= (2.58 if tau < 0.5 else 2.81) * tau
    ends = np.where(np.isfinite(sets.outer), sets.outer, sets.high)
    assert ends.max() < 1.95


@pytest.mark.parametrize(("tau", "ratio"), [(0.01, 4.02), (0.3, 4.5)])
def test_sets_move_no_faster_than_their_means(tau, ratio):
    # LG-43: length of I(y1) symdiff I(y2) at most 4.0 |y1 - y2|; 4.45 for tau = .3 and y near 1.
    y = np.linspace(0, 1, 4001)
    sets = interval_partition(y, tau)
    meeting = np.isfinite(sets.outer)
    start = np.where(meeting, 0.0, sets.low)
    end = np.where(meeting, sets.outer, sets.high)
    length = 2 * (np.abs(np.diff(start)) + np.abs(np.diff(end)))
    assert length.max() <= ratio * (y[1] - y[0])
    assert 3 < meeting.sum() < 1000
    assert length[: meeting.sum() - 1].max() < 1e-12  # there, I does not depend on y


def test_the_papers_threshold_would_miss_the_mean():
    # LG-43: y = .001, tau = .01 gives 1.6e-4 with e from E[|g| | |g| <= e] = y.
    y, tau = 0.001, 0.01
    e = 2 * y  # E[|g| | |g| <= e] = e/2 for small e
    paper = 2 * (norm.pdf(0) - norm.pdf(e)) / tau
    assert paper == pytest.approx(1.6e-4, rel=0.02)
    sets = interval_partition(np.array([y]), tau)
    assert moments(sets, 0)[2] / tau == pytest.approx(y, rel=1e-10)


def test_signs_agree_in_numpy_jax_and_by_sampling():
    y = np.array([0.0, 0.3, -0.9, 1e-3])
    sets = interval_partition(y, 0.2)
    g = np.random.default_rng(0).standard_normal((200_000, 4))
    s = sets.signs(g)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(
            np.asarray(jax.jit(lambda v: sets.signs(v))(jnp.asarray(g))), s
        )
    used = s != 0
    # Five standard errors each: 4 x 3 comparisons, below 1e-5 in all.
    np.testing.assert_allclose(used.mean(axis=0), 0.2, atol=5 * math.sqrt(0.16 / 200_000))
    means = (s * g).sum(axis=0) / used.sum(axis=0)
    np.testing.assert_allclose(means, y, atol=5 * 0.7 / math.sqrt(40_000))
    np.testing.assert_allclose(s.sum(axis=0) / used.sum(axis=0), 0, atol=5 / math.sqrt(40_000))


def test_bad_means_and_masses_are_refused(no_shape_checker):
    with pytest.raises(ValueError, match=r"`y` must be a vector with entries in \[-1, 1\]"):
        interval_partition(np.array([1.2]))
    with pytest.raises(ValueError, match=r"`tau` must be in \(0, 0.6\]"):
        interval_partition(np.array([0.2]), 0.7)
