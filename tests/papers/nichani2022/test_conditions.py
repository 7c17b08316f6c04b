# SPDX-License-Identifier: Apache-2.0
import math

import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.papers.nichani2022 import (
    GoodDirectionsConstants,
    good_directions_theory,
    sparse_part,
    theory_strengths,
)
from unlazy.special import harmonic_dimension


def test_promises_and_conditions_are_the_formulas():
    # By hand: d = 16, k = 2, K = 3, n = 4096 = d^3, m = 2^80, epsilon = 1/2.
    theory = good_directions_theory(16, 2, n=4096, m=2**80, accuracy=0.5, terms=3)
    assert theory.rank == sum(harmonic_dimension(16, degree) for degree in range(3))
    assert theory.sparse_error == 3 * 2.0**8 * 2.0**-40
    assert theory.sparse_norm == 9 * 16
    assert theory.low_error == 1 / 16
    assert theory.r1 == theory.r3 == 3 * 2.0**-38
    assert (theory.r2, theory.r4) == (1, 81 * 256)
    assert theory.risk == 0.5 + 3 / 4
    assert theory.samples == 256 * 36
    assert (theory.kernel_samples, theory.quadratic_samples) == (4096, 9 * 256)
    values = [condition.value for condition in theory.conditions]
    network = 2.0**48 * 16.0**26 * 2 ** (22 / 3)
    np.testing.assert_allclose(
        values, [36 * 2.0**16, 256 * math.log(16), 2.0**80, network, 256 * 36], rtol=1e-12
    )
    most = [condition.most for condition in theory.conditions]
    assert most == [2.0**80, 4096, 2.0**80, 2.0**80, 4096]
    assert [condition.holds for condition in theory.conditions] == [True, True, True, False, False]


def test_the_strengths_of_the_theory_weigh_every_penalty_of_a_good_solution_alike():
    # lambda_j R_j(W*) = epsilon for all four, for one power: why Theorem 4 chooses them so.
    for d, k, m, accuracy in ((7, 1, 50, 0.3), (20, 3, 10**9, 0.01)):
        theory = good_directions_theory(d, k, n=100, m=m, accuracy=accuracy)
        strengths = theory_strengths(m, d, k, accuracy=accuracy)
        weighed = np.multiply(strengths, [theory.r1, theory.r2, theory.r3, theory.r4])
        np.testing.assert_allclose(weighed, accuracy, rtol=1e-12)


def test_constants_multiply_their_own_rate_alone():
    plain = good_directions_theory(9, 2, n=500, m=10**6, accuracy=0.2)
    constants = GoodDirectionsConstants(samples=2, low_samples=3, width=5, network_width=7,
                                        sparse_error=11, low_error=13, risk=17)  # fmt: skip
    scaled = good_directions_theory(9, 2, n=500, m=10**6, accuracy=0.2, constants=constants)
    pairs = zip(scaled.conditions, plain.conditions, strict=True)
    np.testing.assert_allclose([a.value / b.value for a, b in pairs], [121, 3, 5, 7, 2])
    assert scaled.sparse_error == pytest.approx(11 * plain.sparse_error)
    assert scaled.low_error == pytest.approx(13 * plain.low_error)
    assert scaled.risk - 0.2 == pytest.approx(17 * (plain.risk - 0.2))
    assert scaled.r1 == plain.r1


def test_all_conditions_hold_from_the_largest_width_and_sample_asked_for():
    # At the bound of every condition; one sample or a thousandth of the width less, and one fails.
    d, k, accuracy = 5, 1, 0.5
    n = math.ceil(good_directions_theory(d, k, n=1, m=1, accuracy=accuracy).samples)
    m = math.ceil(n**4 * d ** (52 / 3) * accuracy ** (-22 / 3))
    assert good_directions_theory(d, k, n=n, m=m, accuracy=accuracy).valid
    assert not good_directions_theory(d, k, n=n - 1, m=m, accuracy=accuracy).valid
    (width,) = good_directions_theory(d, k, n=n, m=m * 999 // 1000, accuracy=accuracy).failed
    assert width.text.startswith("Lemma 3")


def test_powers_beyond_floats_are_infinite_and_counts_beyond_them_are_refused():
    theory = good_directions_theory(10**6, 100, n=10, m=10, accuracy=0.1)
    assert theory.samples == theory.rank == math.inf
    assert not theory.valid
    with pytest.raises(ValueError, match=r"`m` must be in the range of floats, got 10\^400"):
        good_directions_theory(10, 1, n=10, m=10**400, accuracy=0.1)
    with pytest.raises(ValueError, match="`d` must be an integer >= 2, got d=1"):
        good_directions_theory(1, 1, n=10, m=10, accuracy=0.1)
    with pytest.raises(ValueError, match="`accuracy` must be a positive number, got accuracy=0"):
        good_directions_theory(10, 1, n=10, m=10, accuracy=0)
    with pytest.raises(ValueError, match="`risk` must be a positive number, got risk=-1"):
        GoodDirectionsConstants(risk=-1)


@pytest.mark.parametrize("power", [2, 3, 4])
def test_the_error_of_lemma_1_stays_below_its_rate_at_every_degree(power):
    # Seeded. The rate with a constant of 3: the largest ratio on record is 2.3.
    d, m = 10, 2000
    net = ul.nets.TwoLayer(d, m, ul.activation("sigmoid", shift=1.5), init="sphere")
    x = ul.data.sphere(100, d, radius=math.sqrt(d), key=jr.key(power))
    fit = sparse_part(net, net.init(key=jr.key(d)), [1.0], np.eye(d)[:1], [power], x)
    theory = good_directions_theory(d, power - 1, n=1, m=m, accuracy=1.0)
    assert 0.01 * theory.sparse_error < fit.max_error < 3 * theory.sparse_error
    assert 100 < fit.norm_limit**4 / theory.sparse_norm < 1e5  # constants of the activation alone


def regression_error(d, m, n, target, rng):
    """Mean square error of Lemma 2's regression at k = 1, from the kernel of the features."""

    def sphere(count):
        x = rng.normal(size=(count, d))
        return math.sqrt(d) * x / np.linalg.norm(x, axis=1, keepdims=True)

    def slopes(x):
        s = 1 / (1 + np.exp(1.5 - x @ W0.T))
        return s * (1 - s)

    W0 = sphere(m) / math.sqrt(d)
    x, fresh = sphere(n), sphere(300)
    K, K_test = ((rows @ x.T) * (slopes(rows) @ slopes(x).T) / m for rows in (x, fresh))
    values, vectors = np.linalg.eigh(K)
    top = d + 1  # n_1
    U = vectors[:, -top:]
    f = K_test @ (U @ ((U.T @ target(x)) / values[-top:]))
    return np.mean((f - target(fresh)) ** 2)


def test_the_error_of_lemma_2_falls_like_one_over_the_samples():
    # Eight seeded draws per size. Relative to d^k/n the mean error is the same at four times the
    # samples; one draw scatters by 10 to 40%, so that a factor of 2 is five standard errors.
    rng = np.random.default_rng(3)
    d, m, ratios = 7, 800, []
    for n in (8 * d, 32 * d):
        draws = [regression_error(d, m, n, lambda x: x[:, 0] - 1, rng) for _ in range(8)]
        ratios.append(np.mean(draws) / good_directions_theory(d, 1, n=n, m=m, accuracy=1).low_error)
    assert 0.5 < ratios[1] / ratios[0] < 2, ratios
    assert max(ratios) < 1
