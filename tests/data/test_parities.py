# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.data import ComposedParities, Target, corners, cube, target
from unlazy.papers.allenzhu_li2019 import parities_concept, parity_concept


def composed(name, **options):
    f = target(name, **options)
    assert isinstance(f, ComposedParities)
    return f


def test_corners_are_all_sign_vectors_in_the_order_of_their_bits():
    x = corners(3, scale=0.5)
    assert len({tuple(row) for row in x}) == 8
    np.testing.assert_array_equal(x[5], [-0.5, 0.5, -0.5])  # 5 = 1 + 4
    with pytest.raises(ValueError, match=r"`d` must be at most 24, got d=30.*`cube`"):
        corners(30)


def test_the_benchmark_is_products_of_pairs_and_a_product_of_four_of_them():
    # RN-60, written out.
    f = composed("parities-of-parities")
    x = np.asarray(cube(40, 30, key=jax.random.key(0)))
    F = x[:, ::2] * x[:, 1::2]
    sign = np.array([(-1.0) ** i for i in range(1, 16)])
    expected = F + 0.3 * np.prod(x[:, :8], axis=1)[:, None] * sign
    np.testing.assert_allclose(f(x), expected, atol=1e-6)
    assert f.parity == tuple(range(8))
    assert f.base_risk == pytest.approx(1.35)
    assert f.zero_risk == pytest.approx(16.35)
    np.testing.assert_array_equal(f.base(x), F)


@pytest.mark.parametrize("beta", [0.0, 0.2, 1.0])
def test_risks_are_exact_means_over_the_cube(beta):
    # RN-64's reduced size; RN-66's beta.
    f, x = composed("parities-of-parities", inputs=16, beta=beta), corners(16)
    y = f(x)
    assert y.shape == (2**16, 8)
    assert np.mean(np.sum(y**2, axis=1)) == pytest.approx(f.zero_risk, rel=1e-12)
    left = np.mean(np.sum((y - beta * f.base(x)) ** 2, axis=1))
    assert left == pytest.approx(f.base_risk, rel=1e-12)
    assert f.base_risk == pytest.approx(0.72)
    np.testing.assert_allclose(y, beta * f.base(x) + 0.3 * f.composite(x))


def test_hard_parities_add_a_parity_to_each_coordinate():
    # RN-15, on the cube of unit vectors.
    S, d = (4, 1, 2), 6
    f, x = composed("hard-parities", coordinates=S, alpha=0.5, scale=d**-0.5), corners(d)
    expected = x[:, S] + 0.5 * np.prod(x[:, S], axis=1)[:, None]
    np.testing.assert_allclose(f(x * d**-0.5), expected, atol=1e-14)
    assert f.zero_risk == pytest.approx(3 * 1.25)
    assert f.base_risk == pytest.approx(3 * 0.25)
    assert f.parity == (1, 2, 4)
    # One coordinate: base and composite are the same function.
    assert composed("hard-parities", coordinates=(2,)).zero_risk == pytest.approx(1.3**2)


@pytest.mark.parametrize(("size", "factors"), [(1, 3), (2, 2), (2, 3), (3, 2)])
def test_parities_of_parities_are_residual_concepts(size, factors):
    # RN-10 to RN-16: equal on the whole cube, with unit inputs and a unit base.
    k, d = 3, 3 * size
    options = {"inputs": d, "alpha": 0.2, "beta": -0.7, "size": size, "factors": factors}
    f, u = composed("parities-of-parities", **options), corners(d, scale=d**-0.5)
    concept = parities_concept(f)
    values = concept(u) * f.beta * math.sqrt(k)
    np.testing.assert_allclose(values, f(u * math.sqrt(d)), atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(concept.base(u), axis=1), 1, rtol=1e-13)
    sizes = concept.complexity()
    assert (sizes.base_terms, sizes.composite_terms) == (2 ** (size - 1), 2 ** (factors - 1))
    # By hand: a power of degree g is cut into z^(g-1) times a form if g is even.
    for part, g, n in ((sizes.base, size, d), (sizes.composite, factors, k)):
        total = n ** (g / 2) / math.sqrt(k) * g ** (g / 2) / math.factorial(g) / 2 ** (g - 1)
        degree = g if g % 2 else g - 1
        assert part.c_s == pytest.approx(2 * (degree + 1) * max(total, 1.0) * 2 ** (g / 2))


def test_the_benchmark_has_a_concept():
    # RN-60, at 200 of the corners in 30 dimensions.
    f = composed("parities-of-parities")
    x = np.random.default_rng(0).choice([-1.0, 1.0], (200, 30))
    concept = parities_concept(f)
    np.testing.assert_allclose(concept(x / math.sqrt(30)) * math.sqrt(15), f(x), atol=1e-12)
    assert (concept.base.terms, concept.composite.terms) == (2, 8)


def test_the_concept_of_the_hard_class_is_that_of_the_corollary():
    S, d = (4, 1, 2), 6
    f = composed("hard-parities", coordinates=S, alpha=0.5, scale=d**-0.5)
    one, other = parities_concept(f, inputs=d), parity_concept(S, d, alpha=0.5)
    u = corners(d, scale=d**-0.5)
    np.testing.assert_allclose(one(u), other(u), atol=1e-14)
    first, second = one.complexity(), other.complexity()
    assert first.base.log10_c_s == pytest.approx(second.base.log10_c_s)
    assert first.composite.log10_c_s == pytest.approx(second.composite.log10_c_s)
    assert first.composite_terms == second.composite_terms / 2  # each power once
    with pytest.raises(ValueError, match="`inputs` must be an integer >= 5"):
        parities_concept(f, inputs=4)
    with pytest.raises(ValueError, match="`beta` must not be zero"):
        parities_concept(composed("parities-of-parities", beta=0.0))


def test_a_parity_is_a_sign_at_any_scale():
    # RN-67.
    f = target("parity", coordinates=range(6), scale=40**-0.5)
    x = np.random.default_rng(0).choice([-1.0, 1.0], (30, 40))
    np.testing.assert_allclose(f(x * 40**-0.5), np.prod(x[:, :6], axis=1), rtol=1e-13)


def test_coordinates_that_occur_twice_cancel_in_the_composite():
    f = ComposedParities([(0, 1), (1, 2), (3,)], outer=(0, 1), signs=(1, -1, 1), alpha=0.1)
    x = corners(4)
    assert f.parity == (0, 2)
    np.testing.assert_array_equal(f.composite(x)[:, 1], -x[:, 0] * x[:, 2])


def test_values_keep_the_kind_and_dtype_of_the_inputs_and_compile():
    f, x = composed("parities-of-parities", inputs=8), corners(8)
    assert isinstance(f, Target)
    assert isinstance(f(x), np.ndarray)
    single = jax.jit(f)(jnp.asarray(x, jnp.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, f(x), rtol=1e-6)


def test_bad_options_are_refused(no_shape_checker):
    with pytest.raises(ValueError, match="`inputs` must be a multiple of size=2"):
        target("parities-of-parities", inputs=9)
    with pytest.raises(ValueError, match="`inputs` must be a multiple of size=2, at least"):
        target("parities-of-parities", inputs=6)
    with pytest.raises(ValueError, match="`groups` must be distinct coordinates"):
        ComposedParities([(0, 0)], outer=(0,))
    with pytest.raises(ValueError, match="`outer` must name at least one of the 1 groups"):
        ComposedParities([(0,)], outer=(1,))
    with pytest.raises(ValueError, match="`signs` must be 1 numbers"):
        ComposedParities([(0,)], outer=(0,), signs=(2,))
    with pytest.raises(ValueError, match="`x` must have at least 4 columns"):
        target("hard-parities", coordinates=(3,))(np.ones((2, 3)))
    with pytest.raises(ValueError, match="`scale` must be a positive number"):
        target("parity", coordinates=(0,), scale=0)
