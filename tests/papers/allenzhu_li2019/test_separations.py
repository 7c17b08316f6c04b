# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.nets import ResNet3
from unlazy.papers.allenzhu_li2019 import (
    BiasedConcept,
    composed_sample_sizes,
    resnet_sample_sizes,
    resnet_times,
)
from unlazy.special import harmonic_dimension


def test_a_composed_power_needs_its_degree_in_the_exponent_of_the_dimension():
    # Section 2.1: of the order of d samples for the network, d^10 without a hierarchy.
    for degree in (2, 5, 10):
        small, large = (composed_sample_sizes(d, degree) for d in (10**4, 10**8))
        assert large.log10_resnet - small.log10_resnet == pytest.approx(4, rel=1e-12)
        assert large.log10_one_shot - small.log10_one_shot == pytest.approx(4 * degree, rel=1e-12)
        # A second count of the same exponent: the polynomials of that degree on the sphere, which
        # a learner by a rotation-invariant kernel has to tell apart.
        counts = [math.log10(harmonic_dimension(d, degree)) for d in (10**4, 10**8)]
        assert counts[1] - counts[0] == pytest.approx(4 * degree, rel=1e-3)
    assert composed_sample_sizes(300, 1).log10_one_shot == composed_sample_sizes(300).log10_resnet


def test_composed_sizes_are_those_of_the_complexities_of_ridge_functions():
    # The same functions as concepts on unit inputs: sqrt(2d) z for F, its power for G(F).
    d, degree, w = 50, 5, np.eye(50)[:1]
    sizes = composed_sample_sizes(d, degree, delta=0.1, constant=3.0)
    for power, found in ((1, sizes.log10_resnet), (degree, sizes.log10_one_shot)):
        phi = [0.0] * power + [math.sqrt(2 * d) ** power]
        concept = BiasedConcept.ridge(np.ones((1, 1)), [phi], w)
        np.testing.assert_allclose(concept(w), [[math.sqrt(d) ** power]], rtol=1e-6)
        c_s = concept.complexity(constant=3.0).c_s
        assert found == pytest.approx(2 * math.log10(2 * c_s / 0.1), rel=1e-12)
    assert composed_sample_sizes(d, delta=7.0).log10_resnet == pytest.approx(
        composed_sample_sizes(d).log10_resnet
    )
    assert composed_sample_sizes(10**400).log10_one_shot == pytest.approx(4000, rel=0.01)


def test_features_as_many_as_the_square_of_the_time_are_not_enough():
    # Theorem 3, section 7.2: alpha = 2^-k d^-.001 and a width of d. T_res has the exponent
    # 1 + .008 + 1 + 1 of d for every k, D has k; so D >= T_res^2 from some d on where k > 6.016.
    def times(d, k):
        return resnet_times(d, k, alpha=2.0**-k * d**-0.001, m=d)

    def slope(k, field):
        low, high = (getattr(times(d, k), field) for d in (10**12, 10**15))
        return (high - low) / 3

    for k in (4, 8, 20):
        assert slope(k, "log10_resnet") == pytest.approx(3.008, abs=1e-3)
        assert slope(k, "log10_features") == pytest.approx(k, abs=1e-3)
    # At k = 8 the constant 2^(8k) is paid off at about d = 10^26; at k = 6 it never is.
    assert times(10**20, 8).power < 2 < times(10**30, 8).power
    assert times(10**300, 6).power < 2
    assert times(10**8, 20).power < 2 < times(10**9, 20).power


@pytest.mark.parametrize(("m", "d", "k"), [(1600, 30, 3), (400, 240, 2)])
def test_a_step_costs_what_the_time_counts(m, d, k):
    # The compiler's own count of a forward and a backward pass: 3.1 to 3.8 m (d + 3k).
    net = ResNet3(d, m, k)
    params = net.init(key=jax.random.key(0))

    def objective(params, x, y):
        return jnp.sum((net(params, x) - y) ** 2) / 2

    lowered = jax.jit(jax.grad(objective)).lower(params, jnp.ones((1, d)), jnp.ones((1, k)))
    cost = lowered.compile().cost_analysis()
    assert cost is not None
    times = resnet_times(d, k, alpha=0.5, m=m)
    step = 10 ** (times.log10_resnet - resnet_sample_sizes(d, k, alpha=0.5).log10_resnet)
    assert 2.5 < cost["flops"] / step < 5


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`degree` must be an integer from 1 to 10000"):
        composed_sample_sizes(10, 10**6)
    with pytest.raises(ValueError, match="`delta` must be a positive number"):
        composed_sample_sizes(10, delta=0.0)
    with pytest.raises(ValueError, match="`m` must be an integer >= 1"):
        resnet_times(10, 2, alpha=0.1, m=0)
    with pytest.raises(ValueError, match="`free` must lie between k=20 and d=10"):
        resnet_times(10, 20, alpha=0.1, m=5)
