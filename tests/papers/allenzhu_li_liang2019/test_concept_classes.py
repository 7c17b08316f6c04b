# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.data import ComposedProduct, Target, target
from unlazy.papers.allenzhu_li2019 import BiasedConcept
from unlazy.papers.allenzhu_li_liang2019 import ThreeLayerConcept, TwoLayerConcept, product_concept
from unlazy.papers.shared import taylor_series


def rows(n=9, d=5, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def sampled(key, **options):
    return ThreeLayerConcept.sample(
        5, ["exp", [0, 1, 2]], ["sin", "cos", "tanh"], ["identity", "exp", "sin"], key=key,
        **options,
    )  # fmt: skip


def test_two_layer_concepts_are_their_sum(getkey):
    # LG-3, term by term.
    concept = TwoLayerConcept.sample(5, ["sin", "exp", [1, 0, 2]], outputs=2, key=getkey())
    x = rows()
    functions = [np.sin, np.exp, lambda z: 1 + 2 * z**2]
    expected = np.zeros((9, 2))
    for i, phi in enumerate(functions):
        term = phi(x @ concept.w1[i]) * (x @ concept.w2[i])
        expected += term[:, None] * concept.a[:, i]
    np.testing.assert_allclose(concept(x), expected, rtol=1e-12, atol=1e-14)
    assert np.abs(concept.a).max() <= 1


@pytest.mark.parametrize("generalized", [False, True])
def test_three_layer_concepts_are_their_sum(generalized, getkey):
    # LG-4 and Remark 4.2, written out in loops.
    concept = sampled(getkey(), outputs=2, generalized=generalized)
    x = rows()
    inner = [[np.sin, np.cos, np.tanh], [lambda z: z, np.exp, np.sin]]
    ws, times, vs = (
        (concept.w1, concept.w2), (concept.w3, concept.w4), (concept.v1, concept.v2),
    )  # fmt: skip
    expected = np.zeros((9, 2))
    for i, Phi in enumerate([np.exp, lambda z: z + 2 * z**2]):
        sums = [np.zeros(9), np.zeros(9)]
        for side in (0, 1):
            for j in range(3):
                value = inner[side][j](x @ ws[side][j])
                more = times[side]
                value = value if more is None else value * (x @ more[j])
                sums[side] = sums[side] + vs[side][i, j] * value
        expected += (Phi(sums[0]) * sums[1])[:, None] * concept.a[:, i]
    np.testing.assert_allclose(concept(x), expected, rtol=1e-12, atol=1e-13)
    assert (concept.w3 is None) is not generalized
    if concept.w3 is not None:
        np.testing.assert_allclose(np.sum(concept.w1 * concept.w3, axis=1), 0, atol=1e-14)


def test_values_keep_the_kind_and_dtype_of_the_inputs_and_compile(getkey):
    for concept in (TwoLayerConcept.sample(5, ["sin"], key=getkey()), sampled(getkey())):
        x = rows()
        assert isinstance(concept, Target)
        assert concept(x).shape == (9,)
        assert concept(x).dtype == np.float64
        single = jnp.asarray(x, jnp.float32)
        values = jax.jit(lambda z, f=concept: f(z))(single)
        assert values.dtype == jnp.float32
        np.testing.assert_allclose(values, concept(x), rtol=1e-4, atol=1e-5)


def test_complexities_of_concepts_are_those_of_their_functions(getkey):
    concept = TwoLayerConcept.sample(5, ["sin", taylor_series("cos", scale=7)], key=getkey())
    found = concept.complexity(constant=1.0)
    assert found.c_s == pytest.approx(2.236e4, rel=1e-3)  # LG-5's table
    three = sampled(getkey()).complexity(constant=1.0, epsilon=0.1)
    # exp at radius R: C_s = sum (i+1)^1.75 R^i / i!, R = p2 C_s(phi, 1), the largest of tanh's.
    R = 3 * three.inner.c_s
    assert three.inner.c_s == pytest.approx(14.900087, rel=1e-6)
    i = np.arange(400)
    logs = 1.75 * np.log(i + 1) + i * math.log(R) - np.array([math.lgamma(k + 1) for k in i])
    assert three.log10_outer_c_s == pytest.approx(
        np.logaddexp.reduce(logs) / math.log(10), rel=1e-10
    )


@pytest.mark.parametrize(("name", "energy", "atol"), [
    ("composed-sines", 31.8, 1e-10), ("composed-tanhs", 76.8, 0.02),
])  # fmt: skip
def test_the_targets_of_the_experiments_are_concepts(name, energy, atol):
    # LG, section 7: E y^2 = 31.8 and 76.8 on 2000 points; the concept is the same function, up to
    # the polynomial for tanh(8z).
    f = target(name)
    assert isinstance(f, ComposedProduct)
    x = rows(20_000, 4)
    y = f(x)
    assert np.mean(y**2) == pytest.approx(energy, rel=0.05)
    np.testing.assert_allclose(product_concept(f)(x), y, atol=atol)
    assert isinstance(f, Target)
    single = jnp.asarray(x[:50], jnp.float32)
    values = jax.jit(f)(single)
    assert values.dtype == jnp.float32
    np.testing.assert_allclose(values, y[:50], rtol=1e-3, atol=1e-3)


def test_the_targets_are_their_formulas():
    x = rows(5, 4)
    first = (np.sin(3 * x[:, :3]).sum(axis=1) - 2) ** 2 * np.cos(7 * x[:, 3])
    second = (np.tanh(8 * x[:, :3]).sum(axis=1) - 2) ** 2 * np.tanh(8 * x[:, 3])
    np.testing.assert_allclose(target("composed-sines")(x), first, rtol=1e-13)
    np.testing.assert_allclose(target("composed-tanhs")(x), second, rtol=1e-13)
    with pytest.raises(ValueError, match="`x` must have at least 4 columns"):
        target("composed-sines")(rows(5, 3))
    # C_s(cos 7z) ~ C_s(sin 3z)^2 is why the paper picked 3 and 7.
    inner = product_concept(ComposedProduct("sines")).complexity(constant=1.0).inner
    assert inner.c_s == pytest.approx(2.236e4, rel=1e-3)


def test_bad_concepts_are_refused(no_shape_checker):
    e = np.eye(3)
    with pytest.raises(ValueError, match="`w1` must have rows of unit norm"):
        TwoLayerConcept(np.ones(1), ["sin"], 2 * e[:1], e[2:])
    with pytest.raises(ValueError, match="`a` must be at most 1 in size"):
        TwoLayerConcept(2 * np.ones(1), ["sin"], e[:1], e[2:])
    with pytest.raises(ValueError, match="must be as many"):
        TwoLayerConcept(np.ones(2), ["sin"] * 2, e[:1], e[2:])
    with pytest.raises(ValueError, match=r"`a` must have shape \(1,\)"):
        TwoLayerConcept(np.ones(2), ["sin"], e[:1], e[2:])
    one = np.ones((1, 1))
    parts = (np.ones(1), ["exp"], one, one, ["sin"], ["sin"], e[:1], e[1:2])
    with pytest.raises(ValueError, match="`w3` must have rows orthogonal"):
        ThreeLayerConcept(*parts, e[:1], e[:1])
    with pytest.raises(ValueError, match="`inner2` must be 1 functions"):
        ThreeLayerConcept(*parts[:5], ["sin"] * 2, *parts[6:])
    with pytest.raises(ValueError, match=r"`v1` must have shape \(1, 1\)"):
        ThreeLayerConcept(np.ones(1), ["exp"], np.eye(2), *parts[3:])
    with pytest.raises(ValueError, match=r"`x` must have shape \(n, 3\)"):
        ThreeLayerConcept(*parts)(rows(2, 4))


def test_lists_of_functions_and_outputs_are_checked_by_name(no_shape_checker, getkey):
    wrong: Any = "sin"
    key = getkey()
    with pytest.raises(TypeError, match="`functions` must be a list of functions, got functions='"):
        TwoLayerConcept.sample(4, wrong, key=key)
    with pytest.raises(TypeError, match="`functions` must be a list of functions, got functions='"):
        BiasedConcept.sample(4, wrong, 1, key=key)
    with pytest.raises(TypeError, match="`functions` must be a list of functions, got functions='"):
        BiasedConcept.ridge(np.ones((1, 1)), wrong, np.eye(3)[:1])
    with pytest.raises(ValueError, match="`functions` must be at least one function, got none"):
        TwoLayerConcept.sample(4, [], key=key)
    names = ("outer", "inner1", "inner2")
    for k, name in enumerate(names):
        lists: Any = [["sin"]] * 3
        lists[k] = taylor_series("sin")
        with pytest.raises(TypeError, match=f"`{name}` must be a list .* {name}=PowerSeries"):
            ThreeLayerConcept.sample(4, *lists, key=key)
        lists[k] = []
        with pytest.raises(ValueError, match=f"`{name}` must be at least one function"):
            ThreeLayerConcept.sample(4, *lists, key=key)
    with pytest.raises(ValueError, match="`outputs` must be an integer >= 1, got outputs=0"):
        TwoLayerConcept.sample(4, ["sin"], outputs=0, key=key)
    with pytest.raises(ValueError, match="`outputs` must be an integer >= 1, got outputs=0"):
        ThreeLayerConcept.sample(4, *[["sin"]] * 3, outputs=0, key=key)
