# SPDX-License-Identifier: Apache-2.0
"""The certificates on the cube against ninety digits, where float64 hides parts of the span."""

import functools
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from unlazy import kernels
from unlazy.certificates import dot_product as dot_product_certificate
from unlazy.certificates import features as feature_certificate
from unlazy.certificates import kernel as kernel_certificate
from unlazy.certificates.dot_products import _integer_rank
from unlazy.data import corners
from unlazy.special import subsets

BITS = 300  # ninety digits behind the point
ALPHA = 0.3
NAMES = ("gaussian", "exponential", "polynomial", "arcsin", "conjugate", "tangent")


def kappa_0(u):
    return 1 - mp.acos(u) / mp.pi


def kappa_1(u):
    return (mp.sqrt(1 - u * u) + u * (mp.pi - mp.acos(u))) / mp.pi


def affine(u, d):
    """The cosine between two corners with a one appended, from that between the corners."""
    return (d * u + 1) / (d + 1)


def tangent(u):
    """Of three layers."""
    return (u * kappa_0(u) + kappa_1(u)) * kappa_0(kappa_1(u)) + kappa_1(kappa_1(u))


def of_angle(name, s, d):
    """A kernel in float64, and in mpmath as a function of the cosine; s is its parameter."""
    v, power = mp.mpf(s), 2 + int(s) % 3
    return {
        "gaussian": (
            functools.partial(kernels.gaussian, bandwidth=s),
            lambda u: mp.exp(-2 * d * (1 - u) / v),
        ),
        "exponential": (lambda a, b: np.exp(a @ b.T / s), lambda u: mp.exp(d * u / v)),
        "polynomial": (lambda a, b: (1 + a @ b.T / d) ** power, lambda u: (1 + u) ** power),
        "arcsin": (kernels.arcsin, mp.asin),
        "conjugate": (kernels.conjugate, lambda u: kappa_1(affine(u, d))),
        "tangent": (functools.partial(kernels.tangent, layers=3), lambda u: tangent(affine(u, d))),
    }[name]


def fixed(value):
    """A number of mpmath as an integer, in units of 2^-BITS: sums and products are then fast."""
    whole: Any = mp.nint(mp.ldexp(value, BITS))
    return int(whole)


def without(y, basis):
    for q in basis:
        y = y - (np.dot(q, y) * q >> 2 * BITS)
    return y


def orthonormal(columns):
    """Gram-Schmidt; dependent columns, of which but rounding is left, are left out."""
    basis = []
    for column in columns:
        rest = without(column, basis)
        left, size = np.dot(rest, rest), np.dot(column, column)
        if left * 10**90 > size:
            basis.append((rest << BITS) // math.isqrt(left))
    return basis


def exact_risks(columns, d, k):
    """The least risks of all targets, from the functions at all corners."""
    x, basis = corners(d).astype(int).astype(object), orthonormal(columns)
    risks = []
    for S in subsets(d, k):
        parity = fixed(mp.mpf(ALPHA)) * np.prod(x[:, S], axis=1)
        rest = [without((x[:, i] << BITS) + parity, basis) for i in S]
        risks.append([np.dot(r, r) / (1 << 2 * BITS + d) for r in rest])
    return np.array(risks)


def random_case(seed):
    """A kernel, a sample with opposite points, and the exact risks."""
    rng = np.random.default_rng([17, seed])
    d = int(rng.choice([3, 4, 5]))
    k, n = int(rng.integers(2, d + 1)), int(rng.integers(2 ** (d - 2), 2**d))
    name = NAMES[seed % 6] if seed % 12 < 6 else "gaussian"
    s = 10 ** (rng.uniform(-1, 6) if name == "gaussian" else rng.uniform(0, 4))
    of_rows, of_cosine = of_angle(name, s, d)
    # At all distances once: a kernel of JAX would compile for every size of sample.
    at_distance = np.tril(np.full((d + 1, d), -2.0), -1) + 1
    values = np.asarray(of_rows(np.ones((1, d)), at_distance))[0]
    exact = np.array([fixed(of_cosine(1 - mp.mpf(2 * j) / d)) for j in range(d + 1)], object)

    def kernel(a, b):
        return values[np.rint((d - a @ b.T) / 2).astype(int)]

    x = corners(d)[rng.permutation(2**d)[:n]]
    places = np.rint((d - x @ corners(d).T) / 2).astype(int)
    return kernel, x, k, exact_risks(exact[places], d, k)


@functools.cache
def random_cases():
    with mp.workdps(95):
        return [random_case(seed) for seed in range(50)]


def test_no_target_is_called_bad_or_learnt_against_ninety_digits():
    verdicts = np.zeros(3, int)
    for kernel, x, k, exact in random_cases():
        found = kernel_certificate(kernel, x, degree=k, alpha=ALPHA)
        level, least = found.threshold * ALPHA**2, exact.min(axis=1)
        assert np.all(least[found.bad] > level)
        assert np.all(least[found.learnt] <= level)
        # More: the risk of every output lies between its bounds.
        assert np.all((found.risks <= exact) & (exact <= found.attained))
        verdicts += [np.sum(found.bad), np.sum(found.learnt), np.sum(found.undecided)]
        assert np.sum(found.bad | found.learnt | found.undecided) == len(found.sets)
    assert np.all(verdicts > 10)  # the cases are of all kinds


def test_every_target_is_decided_where_the_functions_are_well_conditioned():
    seen = 0
    for kernel, x, k, exact in random_cases():
        found = kernel_certificate(kernel, x, degree=k, alpha=ALPHA)
        if found.dropped or found.condition > 1e6:
            continue
        seen += 1
        assert not np.any(found.undecided)
        # The distance moves by at most error * condition, the risk by twice that.
        tolerance = 1e-12 + 10 * found.error * found.condition
        np.testing.assert_allclose(found.risks, exact, atol=tolerance)
        np.testing.assert_allclose(found.attained, exact, atol=tolerance)
    assert seen > 10


def test_a_flat_gaussian_kernel_is_not_called_unable():
    # Twenty-four corners of thirty-two, bandwidth 1e6: the least risk is 2.4e-12 alpha^2 in eighty
    # digits, by directions whose singular values are below 1e-10 of the largest.
    x = corners(5)[np.random.default_rng(0).permutation(32)[:24]]
    kernel = functools.partial(kernels.gaussian, bandwidth=1e6)
    found = kernel_certificate(kernel, x, degree=2, alpha=ALPHA)
    assert not np.any(found.bad)
    assert found.dropped > 0
    flatter = functools.partial(kernels.gaussian, bandwidth=1e12)
    found = kernel_certificate(flatter, x, degree=2, alpha=ALPHA)
    assert np.all(found.undecided)
    assert found.fraction_bad == 0.0
    assert "undecided: 10. Rounding hides 18 of the 24 directions of the span (75%)" in repr(found)
    assert found.plot().get_title() == "0% of 10 targets are not learnt, 10 undecided"


def test_a_known_dimension_decides_what_rounding_hides():
    d, x = 5, corners(5)[np.random.default_rng(1).permutation(32)[:28]]

    def quadratic(a, b):
        return (1 + a @ b.T / d) ** 2

    hidden = kernel_certificate(quadratic, x, degree=3)
    assert np.all(hidden.undecided)
    assert hidden.dropped == 28 - 16
    known = kernel_certificate(quadratic, x, degree=3, dimension=16)
    assert known.fraction_bad == 1.0  # quadratics have nothing of degree 3
    np.testing.assert_allclose(known.least, ALPHA**2, rtol=1e-9)
    with pytest.raises(ValueError, match=r"`dimension` must be at least 16.*got dimension=15"):
        kernel_certificate(quadratic, x, degree=3, dimension=15)
    # Features that mathematics knows to be dependent, likewise.
    twice = {"degree": 2, "dimension": 5}
    found = feature_certificate(lambda x: np.concatenate([x, x / 3], axis=1), 5, **twice)
    assert found.fraction_bad == 1.0


def test_a_coarser_accuracy_proves_less_and_never_more():
    x = corners(5)[np.random.default_rng(2).permutation(32)[:14]]
    kernel = functools.partial(kernels.gaussian, bandwidth=30.0)
    before = None
    for accuracy in (1e-15, 1e-12, 1e-9, 1e-6, 1e-3):
        found = kernel_certificate(kernel, x, degree=3, accuracy=accuracy)
        if before is not None:
            assert np.all(found.risks <= before.risks + 1e-12)
            assert np.all(found.attained >= before.attained - 1e-12)
            # Functions within the coarser accuracy, such as these with noise, are covered.
            rng = np.random.default_rng(3)
            noise = accuracy * rng.uniform(-1, 1, (32, 14))
            table = np.asarray(kernel(corners(5), x)) + noise
            other = feature_certificate(lambda rows, t=table: t[: len(rows)], 5, degree=3)
            assert np.all(found.risks <= other.attained + 1e-12)
            assert np.all(other.risks <= found.attained + 1e-12)
        before = found


@pytest.mark.parametrize("size", [1e-200, 1e200, 1e-310])
def test_functions_of_any_size_are_seen(size):
    # Squares of these values leave the range of float64; the last are below the normal numbers.
    W = np.random.default_rng(0).standard_normal((6, 20))
    found = feature_certificate(lambda x: np.cos(x @ W) * size, 6, degree=2)
    whole = feature_certificate(lambda x: np.cos(x @ W), 6, degree=2)
    assert found.known + found.dropped == 20
    tolerance = 1e-12 if size != 1e-310 else 1e-2
    np.testing.assert_allclose(found.attained, whole.attained, atol=tolerance)
    assert np.all(found.risks <= whole.attained)


def test_values_of_probability_zero_do_not_count():
    x = np.concatenate([corners(4)[:9], np.full((9, 1), 0.5)], axis=1)

    def kernel(a, b):
        return np.exp(a @ b.T / 4) * np.where(np.abs(a[:, 4:] * b[:, 4:].T) > 1, 1e200, 1)

    options = {"degree": 2, "others": np.array([[0.5], [30.0]])}
    found = kernel_certificate(kernel, x, weights=np.array([1.0, 0.0]), **options)
    alone = kernel_certificate(kernel, x, degree=2, others=np.array([[0.5]]))
    np.testing.assert_allclose(found.risks, alone.risks, atol=1e-12)


def test_the_rank_of_a_sample_is_that_of_its_parities():
    # Even corners of four coordinates: parities of two and of the other two coincide there.
    for d, k, few in [(4, 2, 1.0), (6, 3, 1.0), (6, 3, 0.6), (5, 2, 0.9), (6, 6, 1.0)]:
        x = corners(d)[: 2 ** (d - 1)]
        x = x[np.prod(x, axis=1) > 0] if few == 1.0 else x[: int(few * len(x))]
        parities = np.prod(x[:, subsets(d, k)], axis=2)
        found = dot_product_certificate(x, degree=k)
        assert found.rank == np.linalg.matrix_rank(parities)
        assert found.dropped == 0
        distances = np.rint((d - x @ x.T) / 2).astype(int)
        assert _integer_rank(distances, d, k) == found.rank
        # The captured shares are the diagonal of the projector on the parities' values.
        U, values, _ = np.linalg.svd(parities.T, full_matrices=False)
        shares = np.sum(U[:, values > 1e-9] ** 2, axis=1)
        np.testing.assert_allclose(found.captured, shares, atol=1e-12)
        assert found.uncertainty < 1e-10
        np.testing.assert_allclose(found.floor, ALPHA**2 * (1 - shares), atol=1e-11)


def test_a_bound_with_hidden_eigenvalues_says_so(monkeypatch):
    x = corners(6)[:20]
    found = dot_product_certificate(x, degree=3)
    assert found.rank < min(20, math.comb(6, 3))
    monkeypatch.setattr("unlazy.certificates.dot_products._integer_rank", lambda *_: found.rank + 2)
    hidden = dot_product_certificate(x, degree=3)
    assert hidden.dropped == 2
    assert np.all(hidden.undecided)
    assert hidden.fraction_bad == 0.0
    assert "Rounding hides 2 directions of the span" in repr(hidden)
