# SPDX-License-Identifier: Apache-2.0
import jax
import numpy as np
import pytest

import unlazy as ul
from unlazy.papers.nichani2022 import limit_eigenvalues, spectral_blocks, spectral_gap
from unlazy.special import gegenbauer, gegenbauer_coefficients, gegenbauer_rule, harmonic_dimension

SIGMOID = ul.activation("sigmoid", shift=1.5)


def test_limit_eigenvalues_are_those_of_the_reference():
    # NB-11, d = 30, b = 1.5.
    expected = [4.2455e-3, 2.20316e-2, 2.67147e-4, 2.88e-7, 2.15e-7]
    np.testing.assert_allclose(limit_eigenvalues(SIGMOID, 30, 4), expected, rtol=2e-3)
    np.testing.assert_allclose(limit_eigenvalues(SIGMOID, 30, 2), expected[:3], rtol=1e-5)


@pytest.mark.parametrize(("name", "d"), [("gelu", 3), ("tanh", 8)])
def test_limit_eigenvalues_are_the_kernels_own(name, d):
    # The kernel as a function of t, projected on P_i by quadrature.
    sigma = ul.activation(name, shift=0.7)
    rule = gegenbauer_rule(d, 60)
    P = gegenbauer(rule.nodes, d, 40)
    kernel = d * rule.nodes * (gegenbauer_coefficients(sigma, d, 40, 1) ** 2 @ P)
    np.testing.assert_allclose(
        limit_eigenvalues(sigma, d, 5), P[:6] @ (rule.weights * kernel), rtol=1e-9, atol=1e-13
    )


def test_limit_eigenvalues_fall_by_the_dimension_from_degree_to_degree():
    # NB-33: lambda_i d^(i-1) at b = 1, d = 10..80.
    sigma = ul.activation("sigmoid", shift=1.0)
    scaled = np.array(
        [limit_eigenvalues(sigma, d, 3) * d ** (np.arange(4) - 1.0) for d in (10, 80)]
    )
    for i, (low, high) in enumerate([(0.0316, 0.0317), (0.0052, 0.0055), (0.0021, 0.0034)], 1):
        assert low - 5e-5 <= scaled[:, i].min()
        assert scaled[:, i].max() <= high + 5e-5


def test_blocks_end_at_the_numbers_of_harmonics():
    values = np.concatenate([np.full(4, 1.0), np.full(5, 0.2), np.full(30, 1e-3)])
    blocks = spectral_blocks(values, 3, 1)
    assert blocks.edges == blocks.found == (4, 9)
    assert blocks.sizes == (4, 5)
    np.testing.assert_allclose(blocks.gaps, (5, 200))
    assert blocks.tail == pytest.approx(1e-3)
    assert spectral_blocks(values, 3, 1, parameters=69).tail == pytest.approx(5e-4)
    assert spectral_blocks(values[:7], 3, 1).edges == (4,)
    assert sum(harmonic_dimension(3, l) for l in range(3)) == 9
    assert spectral_gap(values) == 9


def test_the_middle_block_has_the_degrees_up_to_twice_k():
    values = np.concatenate([np.full(14, 1.0), np.full(41, 0.1), np.full(60, 1e-3)])
    blocks = spectral_blocks(values, 4, 2)
    assert [sum(harmonic_dimension(4, l) for l in range(k + 1)) for k in (2, 4)] == [14, 55]
    assert blocks.edges == blocks.found == (14, 55)
    assert blocks.sizes == (14, 41)
    np.testing.assert_allclose(blocks.gaps, (10, 100))
    # Degrees 1 to 0 are none: one edge, after the constant.
    assert spectral_blocks(values, 4, 0).edges == (1,)
    # A network's own spectrum has its gaps there.
    net = ul.nets.TwoLayer(4, 400, ul.activation("sigmoid", shift=1.0), init="sphere")
    x = ul.data.sphere(160, 4, radius=2.0, key=jax.random.key(1))
    geometry = ul.escape.directions(net, net.init(key=jax.random.key(0)), x, degree=2)
    assert geometry.blocks.edges == geometry.blocks.found == (14, 55)
    assert min(geometry.blocks.gaps) > 5


def test_rounding_at_the_end_of_a_spectrum_is_no_gap():
    values = np.concatenate([[4.0, 3.0, 1.0, 0.9, 0.8], np.full(5, 1e-17), [1e-40]])
    assert spectral_gap(values) == 2


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`eigenvalues` must be more than n_k = 4"):
        spectral_blocks(np.ones(4), 3, 1)
    with pytest.raises(ValueError, match="`degree` must be an integer >= 0"):
        spectral_blocks(np.ones(4), 3, -2)
    with pytest.raises(ValueError, match="`parameters` must be an integer >= 6, got parameters=5"):
        spectral_blocks(np.ones(6), 3, 1, parameters=5)
    with pytest.raises(ValueError, match="`eigenvalues` must be at least two"):
        spectral_gap(np.ones(1))
    with pytest.raises(ValueError, match="`eigenvalues` must be finite"):
        spectral_gap(np.array([1.0, np.nan, 0.5]))
    with pytest.raises(ValueError, match="`d` must be an integer >= 3"):
        limit_eigenvalues("tanh", 2, 1)
    with pytest.raises(ValueError, match="Did you mean 'sigmoid'"):
        limit_eigenvalues("sigmoit", 5, 1)
