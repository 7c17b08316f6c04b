# SPDX-License-Identifier: Apache-2.0
"""What is on record besides the default size of Figure 1: other sizes, starts and shifts.

Seeds are fixed and draw other data than those on record, so levels are not compared: ratios of runs
on the same data are, with bounds that leave room beyond what was measured here on three seeds.
"""

from typing import NamedTuple

import jax.random as jr
import numpy as np
import pytest

from unlazy.papers.nichani2022 import ExpansionSetting, fit_expansion
from unlazy.papers.nichani2022.figures.trials import Problem, draw

REDUCED = Problem(30, 164, 1000)


class Ends(NamedTuple):
    """Losses and R3 after the last step, by trial and setting."""

    train: np.ndarray
    test: np.ndarray
    r3: np.ndarray

    @property
    def ratios(self):
        """The test loss with the largest penalty over that without, by trial."""
        return self.test[:, -1] / self.test[:, 0]


def trained(problem, settings, *, trials=1, steps=1000, learning_rate=5.0, noise=0.0):
    drawn = draw(problem, range(trials))
    return fit_expansion(
        problem.net,
        drawn.params,
        drawn.train,
        settings=settings,
        rank=problem.rank,
        learning_rate=learning_rate,
        steps=steps,
        noise=noise,
        test=drawn.test,
        record_every=steps,
        precision="highest",
        key=jr.key(22),
    )


def ends(problem, settings, **training):
    runs = trained(problem, settings, **training)
    return Ends(*(getattr(runs, name)[:, :, -1] for name in Ends._fields))


def penalties(problem, *, strengths=(0.0, 10.0), row_norm=0.0):
    """Settings of R3, from a start whose rows have norms of about s0 m^(-1/4)."""
    entry = row_norm * problem.width**-0.25 / problem.inputs**0.5
    return [ExpansionSetting(lam3=strength, start=entry) for strength in strengths]


def assert_penalty_helps(found):
    # NB-50: what to assert of every size.
    assert (found.ratios < 0.6).all()
    assert (found.train < 1e-2).all()
    assert (np.diff(found.r3, axis=1) < 0).all()


@pytest.mark.slow
def test_the_penalty_helps_at_another_dimension():
    # NB-50, Reduced B, with two of its three seeds, three of its five strengths and 600 of its 1000
    # steps. Ratio of the means on record .17; here .17 on both seeds.
    problem = Problem(40, 253, 2000)
    settings = penalties(problem, strengths=(0.0, 1.0, 10.0))
    found = ends(problem, settings, trials=2, steps=600, learning_rate=10.0, noise=0.01)
    assert_penalty_helps(found)


@pytest.mark.slow
def test_the_penalty_helps_at_another_width_from_a_random_start():
    # NB-50, Reduced C, with two of its three seeds. Ratios on record .29, .17 and .41; here
    # .26 and .21.
    problem = Problem(30, 164, 2000)
    assert_penalty_helps(ends(problem, penalties(problem, row_norm=0.05), trials=2, steps=2000))


@pytest.mark.slow
def test_where_training_starts_hardly_matters():
    # NB-22 on two seeds, without and with the penalty. Largest relative change of the test loss on
    # record (one seed) and here (four seeds, two keys): tau = .01: .8 % and .4 %; tau = .1: 1.6 %
    # and 3 % without, 5 % and 23 % with; s0 = .05: .2 % and .9 %; s0 = 1: 4 % and 5 % without, 41 %
    # and 48 % with. All starts have 1000 steps here; the random ones have 1500 on record.
    rows = [s for s0 in (0.0, 0.05, 1.0) for s in penalties(REDUCED, row_norm=s0)]
    zero, small, large = np.split(ends(REDUCED, rows, trials=2).test, 3, axis=1)
    quiet, loud = (
        ends(REDUCED, penalties(REDUCED), trials=2, noise=tau).test for tau in (0.01, 0.1)
    )
    for test in (quiet, small):
        np.testing.assert_allclose(test, zero, rtol=0.02)
    for test, most in ((loud, 0.35), (large, 0.6)):
        np.testing.assert_allclose(test[:, 0], zero[:, 0], rtol=0.08)
        assert (test[:, 1] > zero[:, 1]).all()  # here and on record
        np.testing.assert_allclose(test[:, 1], zero[:, 1], rtol=most)
    for test in (zero, small, large, quiet, loud):
        assert (test[:, 1] < 0.6 * test[:, 0]).all()


@pytest.mark.slow
def test_f_q_alone_stays_at_zero_without_noise_and_leaves_it_with_noise():
    # NB-22: W = 0 is a stationary point of f_Q. A start that small stands for zero, which the
    # trainer refuses: it grows with the steepest direction, by e^4 or so in 100 steps (NB-23).
    alone = [ExpansionSetting(linear=False, start=1e-20)]
    still = trained(REDUCED, alone, steps=100)
    assert np.abs(still.W).max() < 1e-15
    np.testing.assert_array_equal(still.train[0, 0, -1], still.train[0, 0, 0])
    both = trained(REDUCED, [ExpansionSetting()], steps=100)
    assert both.train[0, 0, -1] < 0.5 * both.train[0, 0, 0]  # f_L makes the first step
    noisy = trained(REDUCED, alone, noise=0.01)
    assert noisy.train[0, 0, -1] < 0.05 * noisy.train[0, 0, 0]


@pytest.mark.slow
def test_without_a_shift_f_q_learns_nothing_and_the_penalty_has_no_effect():
    # NB-50: E sigma'' = 0 at b = 0. 2.167 and 2.096 on record, a ratio of .967; here .98 to 1.02 on
    # three seeds, after 1000 steps instead of 1500. Not even the best linear function is reached.
    problem = Problem(30, 164, 1000, shift=0.0)
    found = ends(problem, penalties(problem, row_norm=0.05), trials=2)
    np.testing.assert_allclose(found.ratios, 1, atol=0.1)
    assert (found.test > 2 * 29 / 32).all()
    assert (found.train < 1e-2).all()


@pytest.mark.slow
def test_the_penalty_has_more_effect_with_a_larger_shift():
    # NB-50: ratios .40 at b = 1 and .26 at b = 2 on record; here .47 to .63 and .30 to .33.
    problems = [Problem(30, 164, 1000, shift=shift) for shift in (1.0, 2.0)]
    one, two = (ends(p, penalties(p, row_norm=0.05), trials=2).ratios for p in problems)
    assert (one < 0.8).all()
    assert (two < 0.6).all()
    assert (two < one).all()


@pytest.mark.slow
def test_the_penalty_has_more_effect_on_wider_networks():
    # NB-50: ratios .54, .24, .20 at m = 400, 1000, 4000 on record, on other data at every width;
    # here .51, .36, .20 on the same data. One seed; 1500 steps at the largest width, as on record,
    # where training takes longest, and 1000 at the others.
    ratios = []
    for width, steps in ((400, 1000), (1000, 1000), (4000, 1500)):
        problem = Problem(30, 164, width)
        found = ends(problem, penalties(problem, row_norm=0.05), steps=steps)
        assert (found.train < 1e-2).all()
        ratios.append(found.ratios[0])
    assert 0.8 > ratios[0] > ratios[1] > ratios[2]
