# SPDX-License-Identifier: Apache-2.0
import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import kernels
from unlazy.certificates import (
    CubeCertificate,
)
from unlazy.certificates import cube as cube_certificates
from unlazy.certificates import (
    dot_product as dot_product_certificate,
)
from unlazy.certificates import (
    features as feature_certificate,
)
from unlazy.certificates import (
    kernel as kernel_certificate,
)
from unlazy.data import ComposedParities, corners, target
from unlazy.special import subsets

ALPHA = 0.3


def signs(n, d, seed=0):
    """Distinct points, no two opposite: then every degree has full rank while it can."""
    rng = np.random.default_rng([seed, n, d])
    index = rng.permutation(2 ** (d - 1))[:n]
    x = corners(d)[index]  # the last coordinate positive
    return x * rng.choice([-1.0, 1.0], (n, 1))


def exponential(x1, x2):
    return np.exp(x1 @ x2.T / x1.shape[1])


def cubic(x1, x2):
    return (1 + x1 @ x2.T / x1.shape[1]) ** 3


def least_squares(Phi, d, k, p=None):
    """The risks by the naive route: one least-squares fit a target, on weighted rows."""
    x = corners(d)
    repeats = len(Phi) // len(x)
    x = np.repeat(x, repeats, axis=0)
    p = np.full(len(Phi), 1 / len(Phi)) if p is None else p
    root = np.sqrt(p)[:, None]
    risks = []
    for S in subsets(d, k):
        y = x[:, S] + ALPHA * np.prod(x[:, S], axis=1)[:, None]
        w, *_ = np.linalg.lstsq(root * Phi, root * y, rcond=1e-12)
        risks.append(np.sum((root * (Phi @ w - y)) ** 2, axis=0))
    return np.array(risks)


@pytest.mark.parametrize("kernel", [exponential, cubic])
@pytest.mark.parametrize(("d", "k", "n"), [(8, 3, 40), (6, 2, 10), (7, 4, 70)])
def test_risks_are_those_of_least_squares_on_the_cube(kernel, d, k, n):
    # RN-44: recorded 1.7e-15 at d = 8, k = 3, N = 40. Here the hard targets of RN-15.
    x = signs(n, d) if n <= 2 ** (d - 1) else corners(d)[:n]
    cubics = [np.prod(x[:, subsets(d, j)], axis=2) for j in (1, 2, 3)]
    rank = int(np.linalg.matrix_rank(np.concatenate([np.ones((n, 1)), *cubics], axis=1)))
    dimension = rank if kernel is cubic else None
    found = kernel_certificate(kernel, x, degree=k, alpha=ALPHA, dimension=dimension)
    naive = least_squares(kernel(corners(d), x), d, k)
    np.testing.assert_allclose(found.risks, naive, atol=1e-9)
    np.testing.assert_allclose(found.attained, naive, atol=1e-9)
    assert found.sets.shape == (math.comb(d, k), k)
    np.testing.assert_allclose(found.total, found.risks.sum(axis=1))


def test_the_targets_are_the_hard_parities():
    S, x = (1, 2, 5), signs(9, 6)
    Phi, y = exponential(corners(6), x), target("hard-parities", coordinates=S)(corners(6))
    w, *_ = np.linalg.lstsq(Phi, y, rcond=None)
    found = kernel_certificate(exponential, x, degree=3, alpha=ALPHA)
    row = found.sets.tolist().index(list(S))
    np.testing.assert_allclose(found.risks[row], np.mean((Phi @ w - y) ** 2, axis=0), atol=1e-12)


def test_a_scaled_cube_has_the_risks_of_its_signs():
    x = signs(20, 8)
    unit = kernel_certificate(exponential, x, degree=3)
    half = kernel_certificate(lambda a, b: np.exp(4 * a @ b.T / 8), x / 2, degree=3)
    np.testing.assert_allclose(half.risks, unit.risks, atol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "conjugate", "tangent", "exponential", "cubic"])
def test_the_restricted_projector_is_that_of_every_dot_product_kernel(name):
    # RN-49: RN-22, through the kernel, equals RN-24, from the sample alone; recorded 2.5e-14.
    d, k, n = 8, 3, 40
    kernel = {
        "gaussian": functools.partial(kernels.gaussian, bandwidth=d),
        "conjugate": functools.partial(kernels.conjugate, layers=2),
        "tangent": functools.partial(kernels.tangent, layers=3),
        "exponential": exponential,
        "cubic": cubic,
    }[name]
    x = signs(n, d)
    found = kernel_certificate(kernel, x, degree=k)
    shared = dot_product_certificate(x, degree=k)
    np.testing.assert_allclose(found.captured, shared.captured, atol=1e-11)
    assert np.all(found.risks >= found.floor[:, None] - 1e-12)
    assert found.rank == shared.rank == n
    assert shared.captured.sum() == pytest.approx(n, rel=1e-10)


def test_odd_kernels_never_see_even_parities():
    # RN-47: arcsin at k = 2 stays above alpha^2 for ever, here with half of all points.
    found = kernel_certificate(kernels.arcsin, signs(64, 7), degree=2)
    assert found.rank == 0
    assert found.min_ratio >= 1 - 1e-11
    assert found.fraction_bad == 1.0


def test_few_samples_fail_on_all_targets_in_the_regime_of_the_theorem():
    # RN-46: d = 14, k = 7, N = 3 and 34: all bad, least risks about 9.58 and 1.14 alpha^2.
    for n, low, high in [(3, 8.5, 10.5), (34, 1.0, 1.6)]:
        found = kernel_certificate(exponential, signs(n, 14), degree=7, alpha=ALPHA)
        assert found.fraction_bad == 1.0
        assert low < found.min_ratio < high
        assert found.counted_fraction > 0.98


@pytest.mark.slow  # two seconds, of which most is memory
def test_d_sixteen_is_certified_for_all_twelve_thousand_targets():
    # RN-46: N = 12, least risk 3.38 alpha^2 for one sample; 2.3 to 3.2 for others.
    found = kernel_certificate(exponential, signs(12, 16), degree=8, alpha=ALPHA)
    assert len(found.sets) == 12870
    assert found.fraction_bad == 1.0
    assert 2 < found.min_ratio < 5


def test_smooth_kernels_learn_beyond_as_many_samples_as_targets():
    # RN-47, d = 10, k = 3 (120 targets): at N = 120 all bad; at N = 300 both learn all.
    d, x = 10, signs(300, 10)
    for kernel in (exponential, cubic):
        assert kernel_certificate(kernel, x[:120], degree=3).fraction_bad == 1.0
        assert np.all(kernel_certificate(kernel, x, degree=3).learnt)
    # The cubic spans all polynomials of degree 3 there, 176 of them.
    assert math.comb(d, 3) + math.comb(d, 2) + d + 1 == 176
    assert kernel_certificate(cubic, x, degree=3).min_ratio < 1e-9


@pytest.mark.parametrize("count", [20, 60, 120])
def test_the_count_is_tight_for_coordinates_and_parities_as_features(count):
    # RN-48: exactly D - d targets are learnt: 10, 50, 110 of the bound 21, 64, 128.
    d, k = 10, 3
    sets = subsets(d, k)[: count - d]
    found = feature_certificate(
        lambda x: np.concatenate([x, np.prod(x[:, sets], axis=2)], axis=1), d, degree=k
    )
    assert np.sum(~found.bad) == count - d
    assert math.floor(found.counting_bound) == {20: 21, 60: 64, 120: 128}[count]
    np.testing.assert_allclose(found.least[: count - d], 0, atol=1e-12)
    np.testing.assert_allclose(found.least[count - d :], ALPHA**2, atol=1e-12)


def test_random_relu_features_fail_where_they_are_fewer_than_targets():
    # RN-48: d = 10, k = 3: all bad up to D = 300, least risks 1.49 at 20 and .24 at 300.
    W = np.random.default_rng(0).standard_normal((300, 11))
    ratios = []
    for count in (20, 300):
        found = feature_certificate(
            lambda x, W=W[:count]: np.maximum(x @ W[:, :-1].T + W[:, -1], 0), 10, degree=3
        )
        assert found.fraction_bad == 1.0
        ratios.append(found.min_ratio)
    assert 1.0 < ratios[0] < 2.5
    assert 0.1 < ratios[1] < 0.5


def test_counting_is_never_violated_by_any_features():
    # RN-23, for random subspaces and for those made to learn as much as they can.
    rng = np.random.default_rng(1)
    table = {m: rng.standard_normal((64, m)) for m in (3, 10, 18)}
    for threshold in (0.0, 1 / 16, 0.5):
        for m, values in table.items():
            found = feature_certificate(
                lambda x, v=values: v[: len(x)], 6, degree=3, alpha=5.0, threshold=threshold
            )
            assert np.sum(~found.bad) <= m / (1 - threshold)
            assert found.counting_bound == m / (1 - threshold)


def test_the_size_of_features_does_not_matter():
    W = np.random.default_rng(0).standard_normal((12, 6))
    sizes = np.logspace(-9, 9, 12)
    one = feature_certificate(lambda x: np.maximum(x @ W.T, 0), 6, degree=2)
    other = feature_certificate(lambda x: np.maximum(x @ W.T, 0) * sizes, 6, degree=2)
    np.testing.assert_allclose(other.risks, one.risks, atol=1e-12)


@pytest.mark.parametrize("n", [20, 56, 150])
def test_other_coordinates_only_raise_the_risk_of_the_averaged_functions(n):
    # RN-50: d1 = 8, d = 11, k = 3, three values of weights .6, .3, .1.
    rng = np.random.default_rng(n)
    others, p = rng.standard_normal((3, 3)), np.array([0.6, 0.3, 0.1])
    x = np.concatenate([signs(min(n, 128), 8), others[rng.choice(3, min(n, 128), p=p)]], axis=1)
    options = {"degree": 3, "alpha": ALPHA, "others": others, "weights": p}
    exact = kernel_certificate(exponential, x, **options)
    averaged = kernel_certificate(exponential, x, averaged=True, **options)
    assert np.all(exact.risks >= averaged.risks - 1e-9)
    assert np.max(exact.risks - averaged.risks) > 1e-4
    if n == 20:
        rows = np.concatenate([np.repeat(corners(8), 3, axis=0), np.tile(others, (256, 1))], axis=1)
        naive = least_squares(exponential(rows, x), 8, 3, np.tile(p, 256) / 256)
        np.testing.assert_allclose(exact.risks, naive, atol=1e-9)


def test_one_value_of_the_other_coordinates_changes_nothing():
    x = signs(20, 7)
    padded = np.concatenate([x, np.full((20, 1), 0.7)], axis=1)

    def kernel(x1, x2):
        return np.exp(x1[:, :7] @ x2[:, :7].T / 7)

    one = kernel_certificate(kernel, x, degree=2)
    two = kernel_certificate(kernel, padded, degree=2, others=np.array([[0.7]]))
    np.testing.assert_allclose(two.risks, one.risks, atol=1e-13)


def test_the_benchmark_cannot_be_learnt_by_any_dot_product_kernel():
    # RN-63: on 500 and 1000 points in d = 30, |S| = 8: 1.35 (1 - 8.5e-5) and 1.35 (1 - 1.7e-4).
    goal = target("parities-of-parities")
    assert isinstance(goal, ComposedParities)
    rng = np.random.default_rng(0)
    for n, share in [(500, 8.5e-5), (1000, 1.7e-4)]:
        x = rng.choice([-1.0, 1.0], (n, 30))
        found = dot_product_certificate(x, sets=[goal.parity], alpha=goal.alpha)
        assert 1 - found.min_ratio == pytest.approx(share, rel=0.02)
        assert found.risk(goal.outputs)[0] == pytest.approx(1.35 * (1 - share), rel=1e-4)


def test_the_captured_share_is_samples_over_targets_on_average():
    # The trace of a projector: N / C(d, k) exactly, over all sets.
    x = signs(200, 14)
    found = dot_product_certificate(x, degree=5)
    assert found.rank == 200
    assert found.captured.mean() == pytest.approx(200 / math.comb(14, 5), rel=1e-9)
    chosen = found.sets[[3, 77]]
    few = dot_product_certificate(x, sets=chosen)
    np.testing.assert_allclose(few.captured, found.captured[[3, 77]], rtol=1e-12)
    assert few.all_targets == math.comb(14, 5)


def test_repeated_and_opposite_points_add_nothing_and_are_named():
    x = signs(12, 8)
    again = np.concatenate([x, x[3:4], -x[5:6]])
    one, two = dot_product_certificate(x, degree=3), dot_product_certificate(again, degree=3)
    np.testing.assert_allclose(two.captured, one.captured, atol=1e-12)
    assert two.redundant.tolist() == [[12, 3], [13, 5]]
    assert "no new function: rows 12 and 13 of `x`" in repr(two)
    # For a kernel an opposite point is another function.
    found = kernel_certificate(exponential, again, degree=3)
    assert found.redundant.tolist() == [[12, 3]]
    assert found.functions == 14
    np.testing.assert_allclose(found.captured, one.captured, atol=1e-11)


def test_a_certificate_speaks_and_draws():
    found = kernel_certificate(exponential, signs(20, 8), degree=3)
    assert isinstance(found, CubeCertificate)
    text = repr(found)
    assert text.startswith("CubeCertificate: 20 functions on the cube in 8 dimensions, 56 targets")
    assert "at most 21 of all 56 targets can be learnt" in text
    ax = found.plot()
    assert ax.get_title() == "100% of 56 targets are not learnt"
    assert found.plot(ax) is ax
    drawn = np.asarray(ax.lines[0].get_ydata(), float)
    np.testing.assert_allclose(drawn, np.sort(found.least) / ALPHA**2)


def test_jax_kernels_keep_their_digits_with_x64_off():
    x = signs(15, 7)
    here = kernel_certificate(lambda a, b: jnp.exp(a @ b.T / 7), x, degree=2)
    there = kernel_certificate(exponential, x, degree=2)
    np.testing.assert_allclose(here.risks, there.risks, atol=1e-11)


def test_bad_arguments_are_refused(no_shape_checker):
    x = signs(6, 5)
    certify = functools.partial(kernel_certificate, exponential)
    with pytest.raises(ValueError, match=r"corners of one cube.*row 2, where the sizes.*0\.5"):
        certify(np.where(np.arange(6)[:, None] == 2, 0.5, x), degree=2)
    with pytest.raises(ValueError, match=r"got d=30.*Call certificates.dot_product"):
        certify(np.ones((4, 30)), degree=2)
    with pytest.raises(ValueError, match=r"smallest eigenvalue of -.*Functions of any kind"):
        kernel_certificate(lambda a, b: -exponential(a, b), x, degree=2)
    with pytest.raises(ValueError, match=r"asymmetry of 1\b"):
        kernel_certificate(lambda a, b: 9.0 * (a @ b.T == 5) + (a[:, :1] > b[:, :1].T), x, degree=2)
    with pytest.raises(ValueError, match="must compute in float64, got float32"):
        kernel_certificate(lambda a, b: exponential(a, b).astype(np.float32), x, degree=2)
    with pytest.raises(ValueError, match=r"array of shape \(6, 6\), got \(6,\)"):
        kernel_certificate(lambda a, b: a[:, 0] * b[0, 0], x, degree=2)
    with pytest.raises(ValueError, match="`features` must be finite"):
        feature_certificate(lambda x: np.where(x > 0, np.nan, x), 5, degree=2)
    with pytest.raises(ValueError, match="`degree` must be an integer >= 2"):
        certify(x, degree=1)
    with pytest.raises(ValueError, match="`degree` must be at most the 5 coordinates"):
        certify(x, degree=6)
    with pytest.raises(ValueError, match="`alpha` must not be zero"):
        certify(x, degree=2, alpha=0)
    with pytest.raises(ValueError, match=r"`threshold` must be in \[0, 1\)"):
        certify(x, degree=2, threshold=1)
    with pytest.raises(ValueError, match="`weights` must be 1 probabilities"):
        certify(np.pad(x, ((0, 0), (0, 1))), degree=2, others=np.zeros((1, 1)), weights=np.ones(2))
    infinite = np.array([1.0, np.inf])
    with pytest.raises(ValueError, match="`weights` must be 2 probabilities"):
        certify(np.pad(x, ((0, 0), (0, 1))), degree=2, others=np.eye(2)[:, :1], weights=infinite)
    with pytest.raises(ValueError, match="`weights` must be None without `others`"):
        certify(x, degree=2, weights=np.ones(2))
    with pytest.raises(ValueError, match=r"`x` must have shape \(n, d\).*got x.shape=\(5,\)"):
        certify(x[0], degree=2, others=np.zeros((1, 1)))
    with pytest.raises(ValueError, match=r"on the cube before the 6 of `others`"):
        certify(x, degree=2, others=np.zeros((1, 6)))
    with pytest.raises(ValueError, match="`degree` or `sets` must be given"):
        dot_product_certificate(x)
    with pytest.raises(ValueError, match=r"at most 2000000 sets.*Pass some as `sets`"):
        dot_product_certificate(np.ones((2, 40)), degree=20)
    with pytest.raises(ValueError, match="distinct coordinates from 0 to 4"):
        dot_product_certificate(x, sets=[(0, 5)])
    with pytest.raises(ValueError, match="all of one size"):
        dot_product_certificate(x, sets=[(0, 1), (0, 1, 2)])
    flat: Any = [0, 1, 2]
    with pytest.raises(ValueError, match=r"`sets` must hold sets.*got the row 0"):
        dot_product_certificate(x, sets=flat)
    broken: Any = [(0.5, 1)]
    with pytest.raises(ValueError, match=r"whole numbers.*got the row \(0.5, 1\)"):
        dot_product_certificate(x, sets=broken)


def test_features_that_do_not_fit_are_refused_before_they_are_computed():
    rows = []

    def features(x):
        rows.append(len(x))
        return np.ones((len(x), 1000))

    with pytest.raises(ValueError, match=r"got inputs=20 and 1000 features: 2\^20.* 256 features"):
        feature_certificate(features, 20, degree=2)
    assert rows == [1]
    with pytest.raises(ValueError, match=r"`inputs` must be at most 24 .* got inputs=30"):
        feature_certificate(features, 30, degree=2)


def test_functions_that_are_zero_learn_nothing():
    found = feature_certificate(lambda x: np.zeros((len(x), 3)), 4, degree=2)
    np.testing.assert_allclose(found.risks, 1 + found.alpha**2)
    assert found.rank == 0
    assert kernel_certificate(lambda a, b: 0 * (a @ b.T), signs(6, 4), degree=2).rank == 0


@pytest.mark.parametrize(("targets", "rank", "spread"), [(45, 41, 0.0976), (90, 82, 0.0976)])
def test_targets_learnt_at_once_need_nine_tenths_as_many_functions(targets, rank, spread):
    # RN-45, Lemma D.2: a matrix of unit diagonal whose other entries have squares of sum at most
    # 1/9 in each row has rank at least 8/9 of its size; by (tr A)^2 <= rank |A|_F^2 even 9/10.
    dropped = targets - rank  # conjugate pairs of frequencies
    kept = np.ones(targets)
    kept[1 : dropped // 2 + 1] = kept[targets - dropped // 2 :] = 0
    first = np.fft.ifft(kept).real
    circulant = np.stack([np.roll(first, shift) for shift in range(targets)])
    A = circulant * targets / rank
    np.testing.assert_allclose(np.diagonal(A), 1, rtol=1e-12)
    off = np.sum((A - np.eye(targets)) ** 2, axis=1)
    np.testing.assert_allclose(off, (targets - rank) / rank, rtol=1e-10)
    assert off[0] == pytest.approx(spread, abs=5e-5)
    assert off[0] <= 1 / 9
    assert np.linalg.matrix_rank(A) == rank >= 0.9 * targets
    # Nearly the least: one more pair dropped would break the assumption.
    assert (targets - rank + 2) / (rank - 2) > 1 / 9


@pytest.mark.parametrize("listed", [1, 3, 7])
def test_corners_that_are_listed_block_by_block_give_the_same(monkeypatch, listed):
    x = np.concatenate([signs(6, 7), np.tile([[0.5], [-0.25]], (3, 1))], axis=1)
    others, weights = np.array([[0.5], [-0.25]]), np.array([0.3, 0.7])
    W = np.random.default_rng(0).standard_normal((7, 9))

    def both():
        of_kernel = kernel_certificate(exponential, x, degree=3, others=others, weights=weights)
        of_features = feature_certificate(lambda rows: np.maximum(rows @ W, 0), 7, degree=3)
        return [*(of_kernel.risks, of_kernel.captured), *(of_features.risks, of_features.captured)]

    whole = both()
    monkeypatch.setattr(cube_certificates, "_LISTED", listed)
    for in_blocks, at_once in zip(both(), whole, strict=True):
        np.testing.assert_allclose(in_blocks, at_once, atol=1e-12)
