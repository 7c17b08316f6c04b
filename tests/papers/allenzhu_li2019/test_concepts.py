# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.data import Target, corners, target
from unlazy.papers.allenzhu_li2019 import BiasedConcept, ResidualConcept, parity_concept
from unlazy.papers.allenzhu_li_liang2019 import function_complexity
from unlazy.papers.shared import taylor_series


def unit(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_biased_concepts_are_their_sum(getkey):
    # RN-11, term by term, at points of any norm.
    concept = BiasedConcept.sample(4, ["sin", [0.5, 1, 0, -0.3]], 3, key=getkey())
    x = np.random.default_rng(0).standard_normal((9, 4))
    xa = np.concatenate([x, np.ones((9, 1))], axis=1)
    size = np.linalg.norm(xa, axis=1)
    expected = np.zeros((9, 3))
    for i, phi in enumerate([np.sin, lambda z: 0.5 + z - 0.3 * z**3]):
        term = phi(xa @ concept.w1[i] / size) * (xa @ concept.w2[i])
        expected += term[:, None] * concept.a[:, i]
    np.testing.assert_allclose(concept(x), expected, atol=1e-14)
    assert concept.terms == 2


def test_ridge_functions_on_the_sphere_are_biased_concepts():
    # RN-43 (Lemma A.2): recorded 2e-16; even and odd terms, and an infinite series.
    w = unit(3, 5, seed=1)
    polynomials = [[0.2, 0.8, 0.5, -0.3], [0, 0, 1.0]]
    a = np.array([[1.0, -0.5, 0.2], [0.3, 0.9, -1.0]])
    concept = BiasedConcept.ridge(a, [*polynomials, "exp"], w)
    x = unit(40, 5)
    z = x @ w.T / math.sqrt(2)
    values = [np.polynomial.polynomial.polyval(z[:, i], c) for i, c in enumerate(polynomials)]
    expected = np.stack([*values, np.exp(z[:, 2])], axis=1) @ a.T
    np.testing.assert_allclose(concept(x), expected, atol=1e-11)
    exact = BiasedConcept.ridge(a[:, :2], polynomials, w[:2])
    np.testing.assert_allclose(exact(x), np.stack(values, axis=1) @ a[:, :2].T, atol=1e-15)
    # At most twice the terms, and no more complexity than that of the functions.
    assert exact.terms == 3
    assert exact.complexity().c_s <= function_complexity(*polynomials).c_s


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_the_hard_instance_is_a_concept_of_low_complexity(k):
    # RN-42: Corollary 7.1's identity, on random points and on the cube; p_G = 2^k.
    d, S = 7, tuple(range(1, 1 + k))
    concept = parity_concept(S, d, alpha=0.3)
    x = corners(d, scale=d**-0.5)
    goal = target("hard-parities", coordinates=S, scale=d**-0.5)
    np.testing.assert_allclose(concept(x) * math.sqrt(k), goal(x), atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(concept.base(x), axis=1), 1, rtol=1e-14)
    z = unit(50, k, seed=k)
    expected = k ** (k / 2) * np.prod(z, axis=1) / math.sqrt(k)
    for column in concept.composite(z).T:
        np.testing.assert_allclose(column, expected, atol=1e-13)
    assert concept.base.terms == 1
    assert concept.composite.terms == 2**k
    # RN-16's outer coefficients; even powers carry 1/sqrt(2) of Lemma A.2 besides.
    size = np.abs(concept.composite.a).max() * (1 if k % 2 else math.sqrt(2))
    recorded = {2: 0.3536, 3: 0.3248, 4: 0.3333, 5: 0.3639}
    assert k == 1 or size == pytest.approx(recorded[k], abs=5e-5)
    # C_s(F) = O(sqrt d): the slope is sqrt(2 d / k), times (1 + 1) C*.
    assert concept.complexity(constant=1.0).base.c_s == pytest.approx(2 * math.sqrt(2 * d / k))


@pytest.mark.slow
def test_factors_of_a_large_hard_instance_stay_below_one():
    # From k = 11 on the outer coefficient of RN-16 exceeds 1 and is part of the function.
    d = k = 11
    concept = parity_concept(range(k), d, alpha=0.3)
    x = corners(d, scale=d**-0.5)[[0, 1, 700, 2047]]
    expected = target("hard-parities", coordinates=range(k), alpha=0.3, scale=d**-0.5)(x)
    np.testing.assert_allclose(concept(x) * math.sqrt(k), expected, atol=1e-9)
    assert np.max(np.abs(concept.composite.a)) <= 1


def test_derived_constants_bound_the_sizes(getkey):
    # RN-14 and RN-56: with C* = 1 the norm of (x, 1) in place of that of x.
    concept = ResidualConcept.sample(5, 3, ["sin", [0, 1, 0, 1]], ["sin"], 0.2, key=getkey())
    sizes = concept.complexity(constant=1.0)
    x = unit(300, 5)
    F = concept.base(x)
    assert np.linalg.norm(F, axis=1).max() <= sizes.base_size * math.sqrt(2)
    z = np.random.default_rng(1).standard_normal((300, 3))
    step = 1e-6 * unit(300, 3, seed=2)
    slopes = np.linalg.norm(concept.composite(z + step) - concept.composite(z), axis=1) / 1e-6
    assert slopes.max() <= 3 * sizes.lipschitz
    assert sizes.base_size == pytest.approx(math.sqrt(3) * 2 * sizes.base.c_s)
    assert sizes.composed_size == pytest.approx(sizes.lipschitz * (sizes.base_size + 1))


def test_residual_concepts_compose_and_keep_dtypes(getkey):
    concept = ResidualConcept.sample(4, 2, ["sin"], [[0, 1, 0, 1]], 0.3, key=getkey())
    x = unit(9, 4)
    F = concept.base(x)
    np.testing.assert_allclose(concept(x), F + 0.3 * concept.composite(F), atol=1e-15)
    assert isinstance(concept, Target)
    single = jax.jit(lambda z: concept(z))(jnp.asarray(x, jnp.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, concept(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("c", [0.5, 1.0, 2.0])
def test_sample_complexities_have_their_closed_forms(c):
    # RN-13 at R = 1 and C* = 1.
    def c_s(name, **options):
        function = taylor_series(name, scale=c) if "scale" not in options else name
        return function_complexity(function, constant=1.0).c_s

    assert c_s("sin") == pytest.approx(c * math.cosh(c) + math.sinh(c), rel=1e-12)
    assert c_s("cos") == pytest.approx(c * math.sinh(c) + math.cosh(c), rel=1e-12)
    # e^(cz) - 1, without the constant's term.
    assert c_s("exp") - 1 == pytest.approx(c * math.exp(c) + math.exp(c) - 1, rel=1e-12)


def test_sample_complexities_of_the_record():
    # RN-13: exponent 1 and, of the earlier version, 1.75.
    one = {"tanh": math.tan(1) + 1 / math.cos(1) ** 2, "sigmoid": 1.097763}
    assert one["tanh"] == pytest.approx(4.982927, abs=1e-6)
    for name, value in one.items():
        assert function_complexity(name, constant=1.0).c_s == pytest.approx(value, abs=1e-6)
    earlier = {"sin": 5.448594, "cos": 5.158883, "tanh": 14.900087, "sigmoid": 1.633936}
    for name, value in earlier.items():
        found = function_complexity(name, constant=1.0, exponent=1.75)
        assert found.c_s == pytest.approx(value, abs=1e-6)
    exp = function_complexity("exp", constant=1.0, exponent=1.75).c_s
    assert exp - 1 == pytest.approx(9.607477, abs=1e-6)


@pytest.mark.parametrize(("columns", "functions", "rows"), [(2, 1, 2), (1, 2, 1), (1, 1, 2)])
def test_no_direction_or_factor_of_a_ridge_is_dropped(columns, functions, rows, no_shape_checker):
    with pytest.raises(ValueError, match="`functions` must be as many as the columns of `a`"):
        BiasedConcept.ridge(np.ones((1, columns)), [[0, 1]] * functions, np.eye(3)[:rows])


def test_bad_concepts_are_refused(no_shape_checker):
    e, one = np.eye(3), np.ones((1, 1))
    with pytest.raises(ValueError, match=r"a term of degree 2 in function 0.*BiasedConcept.ridge"):
        BiasedConcept(one, [[0, 1, 1]], e[:1], e[:1])
    with pytest.raises(ValueError, match="constant and odd terms only"):
        BiasedConcept(one, ["exp"], e[:1], e[:1])
    with pytest.raises(ValueError, match="must be as many"):
        BiasedConcept(one, ["sin"], e[:2], e[:1])
    with pytest.raises(ValueError, match="`functions` must not all be zero"):
        BiasedConcept.ridge(one, [[0.0]], e[:1])
    F = BiasedConcept(np.ones((2, 1)), ["sin"], e[:1], e[:1])
    with pytest.raises(ValueError, match=r"`composite` must map the 2 outputs.*2 inputs and 1"):
        ResidualConcept(F, BiasedConcept(one, ["sin"], e[:1], e[:1]), 0.1)
    with pytest.raises(ValueError, match="`coordinates` must be distinct, from 0 to 3"):
        parity_concept((0, 4), 4)
