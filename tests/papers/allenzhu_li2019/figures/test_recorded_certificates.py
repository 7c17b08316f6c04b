# SPDX-License-Identifier: Apache-2.0
"""What was measured for the certificates of Theorems 2 and 3, measured again on other samples."""

import functools

import numpy as np
import pytest

from unlazy.certificates import dot_product as dot_product_certificate
from unlazy.certificates import kernel as kernel_certificate
from unlazy.data import corners
from unlazy.papers.allenzhu_li2019.figures import certificates
from unlazy.papers.allenzhu_li2019.figures.certificates.config import (
    FEATURES,
    KERNELS,
    LITERAL,
    Remark,
    Sweep,
)
from unlazy.papers.allenzhu_li2019.figures.certificates.run import kernel


def quiet(done, total):
    del done, total


@functools.cache
def sweep(d, k, learner, sizes, seed=0):
    """Share of bad targets, least risk over alpha^2 and number of good targets, by size."""
    return certificates.run(Sweep(d, k, learner, sizes), seed=seed, progress=quiet).table


# Shares of bad targets at N = 300 and least risks over alpha^2 at N = 120, d = 10, k = 3. On
# record: .41 for the cubic to .85 for the tangent kernel of two layers, one sample. Five of our
# samples give .31 to .41, which is where some of their points are equal or opposite, and .82 to
# .84; the others lie in between, always.
BEYOND = {
    "gaussian": (0.30, 0.37, 0.48),
    "arcsin": (1.0, 0.41, 0.45),
    "conjugate-2": (1.0, 0.77, 0.80),
    "tangent-2": (1.0, 0.82, 0.84),
    "tangent-3": (1.0, 0.60, 0.65),
    "exponential": (0.0, 0.34, 0.44),
    "cubic": (0.0, 0.31, 0.42),
}


@pytest.mark.slow
@pytest.mark.parametrize("learner", KERNELS)
def test_three_in_ten_coordinates_fail_up_to_as_many_samples_as_targets(learner):
    # RN-47: bad = 1 for N <= 120 and every kernel; at N = 300 as in the table.
    found = sweep(10, 3, learner, (20, 60, 120, 300))
    share, low, high = BEYOND[learner]
    np.testing.assert_array_equal(found["fraction_bad"][:3], 1.0)
    # One sample has .30 for the Gaussian on record, five of ours .15 to .45.
    assert found["fraction_bad"][3] == pytest.approx(share, abs=0.16 if 0 < share < 1 else 0)
    assert low - 0.03 < found["min_ratio"][2] < high + 0.03
    assert np.all(found["good"] <= 16 / 15 * found["n"])  # RN-23


@pytest.mark.slow
def test_the_cubic_has_the_least_risk_and_the_two_layer_tangent_kernel_the_largest():
    # RN-47 at N = 120.
    least = {name: sweep(10, 3, name, (20, 60, 120, 300))["min_ratio"][2] for name in KERNELS}
    assert min(least, key=least.__getitem__) == "cubic"
    assert max(least, key=least.__getitem__) == "tangent-2"


@pytest.mark.slow
@pytest.mark.parametrize("learner", KERNELS)
def test_pairs_in_twelve_coordinates_are_learnt_by_all_kernels_but_the_odd_one(learner):
    # RN-47, d = 12, k = 2, 66 targets: all bad at N = 66, least risks .085 to 1.006 alpha^2 over
    # the kernels (three of our samples: .073 to .078 for the conjugate kernel, 1.006 for arcsin);
    # at N = 200 none bad, but for arcsin, whose least risk is 1.001 alpha^2.
    bad, least = (sweep(12, 2, learner, (66, 200))[name] for name in ("fraction_bad", "min_ratio"))
    assert bad[0] == 1.0
    if learner == "arcsin":
        assert bad[1] == 1.0
        np.testing.assert_allclose(least, [1.006, 1.001], atol=1.5e-3)
    else:
        assert bad[1] == 0.0
        assert 0.065 < least[0] < 0.4
    if learner == "conjugate-2":
        assert least[0] == pytest.approx(0.085, abs=0.02)


@pytest.mark.parametrize("learner", LITERAL)
def test_the_regime_of_the_theorem_is_far_from_tight_for_every_kernel(learner):
    # RN-46, d = 14, k = 7: all 3432 targets bad at N = 3 and 34. Least risks on record: 9.58 and
    # 1.14 alpha^2 over the kernels; three of our samples give 9.1 to 10.3, and 1.12 to 1.24 but
    # for the Gaussian, which has 1.49 to 1.64.
    found = sweep(14, 7, learner, (3, 34))
    np.testing.assert_array_equal(found["fraction_bad"], 1.0)
    assert found["min_ratio"][0] == pytest.approx(9.58, rel=0.1)
    assert found["min_ratio"][1] == pytest.approx(1.57 if learner == "gaussian" else 1.14, rel=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("learner", LITERAL)
def test_the_regime_of_the_theorem_in_sixteen_coordinates(learner):
    # RN-46, d = 16, k = 8, N = 12: all 12870 bad, least risk 3.38 alpha^2 on one sample; two of
    # ours give 2.6 and 3.4 (exponential), 2.9 and 3.6 (tangent), 4.0 and 4.6 (Gaussian).
    found = sweep(16, 8, learner, (12,))
    assert found["fraction_bad"][0] == 1.0
    assert 2.3 < found["min_ratio"][0] < 5


@pytest.mark.slow
def test_random_relu_features_have_the_risks_on_record():
    # RN-48, d = 10, k = 3: all bad; least risks 1.49, .92, .62, .24 alpha^2 on record, and 1.66 to
    # 2.13, .85 to .91, .45 to .67, .12 to .24 over five draws of ours.
    found = sweep(10, 3, FEATURES, (20, 60, 120, 300))
    np.testing.assert_array_equal(found["fraction_bad"], 1.0)
    low, high = [1.3, 0.8, 0.4, 0.1], [2.3, 1.0, 0.75, 0.3]
    assert np.all((low < found["min_ratio"]) & (found["min_ratio"] < high))


@pytest.mark.slow
def test_features_thrice_as_many_as_targets_still_fail_on_most():
    # RN-48, d = 12, k = 2, D = 200: .924 of the 66 targets bad; .818 to .939 over five draws.
    shares = [sweep(12, 2, FEATURES, (200,), seed)["fraction_bad"][0] for seed in range(3)]
    assert np.mean(shares) == pytest.approx(0.924, abs=0.06)


@pytest.mark.parametrize("learner", KERNELS)
def test_kernels_capture_as_many_dimensions_as_points_differ_up_to_sign(learner):
    # RN-49, d = 10, k = 3, N = 60: mean .4833 over the 120 targets for all seven kernels, which is
    # 58/120: of 60 draws two had come before, themselves or opposite (3.5 do on average). Here 58
    # lines, two of whose points come again, one of them opposite.
    rng = np.random.default_rng(49)
    x = corners(10)[rng.permutation(512)[:58]] * rng.choice([-1.0, 1.0], (58, 1))
    x = np.concatenate([x, x[3:4], -x[7:8]])
    found = kernel_certificate(kernel(learner, 10), x, degree=3)
    shared = dot_product_certificate(x, degree=3)
    assert np.mean(found.captured) == pytest.approx(58 / 120, rel=1e-9)
    assert np.mean(found.captured) == pytest.approx(0.4833, abs=5e-5)
    # On record: 2.5e-14 at most. Ours: 2e-15 to 3e-14, and 1.4e-13 for the conjugate kernel.
    np.testing.assert_allclose(found.captured, shared.captured, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("learner", LITERAL)
def test_averaging_over_the_other_coordinates_lowers_the_risks_as_on_record(learner):
    # RN-50, d1 = 8, d = 11, k = 3: exact >= averaged for all (S, i) in all nine cases; least risks
    # .158 and .008 alpha^2 at N = 150 for the exponential. Five samples of ours: .08 to .15 and
    # .007 to .017.
    found = certificates.run(Remark(learner, (20, 56, 150)), seed=0, progress=quiet).table
    assert np.all(found["difference"] >= -1e-9)
    assert np.all(found["exact"] > found["averaged"])
    if learner == "exponential":
        assert 0.07 < found["exact"][2] < 0.2
        assert 0.005 < found["averaged"][2] < 0.02
