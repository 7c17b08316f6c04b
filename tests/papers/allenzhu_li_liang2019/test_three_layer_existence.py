# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.nets import BiasedTwoLayer, ThreeLayer, ThreeLayerParams
from unlazy.papers.allenzhu_li_liang2019 import (
    ThreeLayerConcept,
    ThreeLayerStart,
    indicator_error,
    indicator_function,
    interval_partition,
    pseudo_output,
    random_information,
    three_layer_rates,
    three_layer_weights,
)
from unlazy.papers.shared import sign_pattern

D = 4
ONE = np.ones((1, 1))


def product():
    """Phi(z) = z, phi_1(z) = z, phi_2 = sin: LG-45's example."""
    e = np.eye(D)
    return ThreeLayerConcept(
        np.ones(1), ["identity"], ONE, ONE, ["identity"], ["sin"], e[:1], e[1:2]
    )


def several(outputs=2):
    """Two terms, two functions in each, two outputs; the last coordinate is left out of w1."""
    v, e = math.sqrt(0.5), np.eye(D)
    return ThreeLayerConcept(
        a=np.array([[0.5, -1.0], [1.0, 0.3]])[:outputs],
        outer=["identity", [0.2, 1.0]],
        v1=np.array([[v, v], [0.6, -0.8]]),
        v2=np.array([[1.0, 0.0], [v, -v]]),
        inner1=["identity", "sin"],
        inner2=["exp", "cos"],
        w1=e[:2],
        w2=e[[2, 3]],
    )


def points(n=24, seed=7):
    x = np.random.default_rng(seed).standard_normal((n, D - 1))
    x = math.sqrt(0.75) * x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.concatenate([x, np.full((n, 1), 0.5)], axis=1)


def start(m1, m2, seed):
    """V row by row, drawn when asked for: at the largest size it would take a gigabyte."""
    rng = np.random.default_rng([seed, 0])

    def V(first, last):
        rows = np.random.default_rng([seed, 1, first]).standard_normal(
            (last - first, m1), dtype=np.float32
        )
        return rows / np.float32(math.sqrt(m2))

    return ThreeLayerStart(
        W=rng.standard_normal((m1, D)) / math.sqrt(m1),
        b1=rng.standard_normal(m1) / math.sqrt(m1),
        V=V,
        b2=rng.standard_normal(m2) / math.sqrt(m2),
        a=rng.standard_normal(m2),
    )


def small(m1, m2, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    shape = m2 if outputs is None else (outputs, m2)
    parts = [
        rng.standard_normal((m1, D)) / m1**0.5, rng.standard_normal(m1) / m1**0.5,
        rng.standard_normal((m2, m1)) / m2**0.5, rng.standard_normal(m2) / m2**0.5,
        rng.standard_normal(shape),
    ]  # fmt: skip
    with jax.enable_x64(True):
        return ThreeLayerParams(*(jnp.asarray(part) for part in parts))


def slopes(information):
    """Cov(sqrt(m2) n_i(x), z_i) / Var(z_i) in units of 1/C', at every point."""
    z, m2 = information.z[:, 0], len(information.z)
    return math.sqrt(m2) * information.hidden @ z / (z @ z) * information.scale


@pytest.mark.slow
def test_a_wide_network_is_the_product_of_its_parts():
    # LG-45's last row, (3000, 8e4): slope error .13 and correlation .985, on one start, a good
    # one. On nine starts the correlation was .59 to .96, median .94; on four of them, with V* as
    # the paper builds it, .68 to .91. What is left is an offset that all points share.
    x = points()
    begin, key = start(3000, 80_000, 0), jax.random.key(0)
    found = three_layer_weights(begin, product(), x, limit=2.0, key=key)
    assert found.correlation > 0.9
    assert found.rms_error < 0.1
    information = found.information
    assert np.sqrt(np.mean((slopes(information) - x[:, 0]) ** 2)) < 0.25
    assert information.shares.mean() == pytest.approx(0.6, abs=2e-3)
    assert information.z.std() == pytest.approx(1.0, abs=0.03)
    assert (math.sqrt(80_000) * information.hidden).std() == pytest.approx(1.0, abs=0.05)
    # C' = C sqrt(p2) / (x_d sqrt(tau)), about 18.
    assert information.scale == pytest.approx(7.09 / (0.5 * math.sqrt(0.6)), rel=1e-3)


@pytest.mark.slow
def test_smaller_networks_are_worse_as_recorded():
    # LG-45, (250, 1e4): slope error .43, network error .34, correlation .53, on four starts. Here
    # eight, of which each number is within a factor of two; less variance gives less error.
    x, rows = points(), []
    for seed in range(8):
        begin, key = start(250, 10_000, seed), jax.random.key(seed)
        paper, reduced = (
            three_layer_weights(begin, product(), x, limit=2.0, variance=v, key=key)
            for v in ("paper", "reduced")
        )
        slope = np.mean((slopes(paper.information) - x[:, 0]) ** 2)
        rows.append([slope, paper.rms_error**2, reduced.rms_error**2, paper.correlation])
    slope, error, less, correlation = np.mean(rows, axis=0)
    assert 0.2 < math.sqrt(slope) < 0.8
    assert 0.17 < math.sqrt(error) < 0.68
    assert less < 0.7 * error
    assert correlation > 0.25


def test_information_is_read_off_the_random_weights():
    # LG-44: the slope of n_i(x) on z_i is phi_eps(x), that of the clipped h; mean over six starts.
    # The slope of one start has a standard deviation of about .3 here.
    x = points(8)
    h = indicator_function("identity", method="bias-free").clipped(2.0)
    expected = indicator_error(h, x[:, 0]).values
    found = [
        slopes(random_information(start(800, 8000, seed), [h], np.eye(D)[:1], x))
        for seed in range(6)
    ]
    assert np.sqrt(np.mean((np.mean(found, axis=0) - expected) ** 2)) < 0.35
    assert np.corrcoef(np.mean(found, axis=0), expected)[0, 1] > 0.9


@pytest.mark.parametrize("variance", ["paper", "reduced"])
@pytest.mark.parametrize("outputs", [None, 2])
def test_outputs_are_those_of_the_pseudo_network(outputs, variance, x64):
    # g^(0) of the learner itself, at the dense weights, with the signs of the start.
    concept = product() if outputs is None else several(outputs)
    x, params = points(9), small(40, 60, outputs)
    found = three_layer_weights(params, concept, x, variance=variance, key=jax.random.key(1))
    net = ThreeLayer(D, (40, 60), outputs)
    moved = ThreeLayerParams(found.dW, params.b1, found.dense_V(), params.b2, params.a)
    rows = jnp.asarray(x)
    g = pseudo_output(net, moved, rows, sign_pattern(net, params, rows), biases=0)
    np.testing.assert_allclose(found.outputs, np.asarray(g), rtol=1e-10, atol=1e-10)
    V = np.asarray(found.dense_V())
    assert np.linalg.matrix_rank(V) == len(concept.outer)
    assert np.linalg.norm(V, axis=1).max() == pytest.approx(found.norm_V_2_inf, rel=1e-12)
    assert found.norm_V_2_inf <= math.sqrt(40) / 60 * (1 + 1e-12)
    assert found.norm_W_2_inf == pytest.approx(np.abs(np.asarray(found.dW)).max())
    assert not np.asarray(found.dW)[:, :-1].any()


@pytest.mark.parametrize("widths", [(40, 60), (250, 2000), (1000, 4000)])
@pytest.mark.parametrize("variance", ["paper", "reduced"])
def test_rows_are_as_short_as_the_lemma_says(widths, variance):
    # LG-45: ||V*||_{2,inf} <= sqrt(m1)/m2, by the choice of the balance, and ||W*||_{2,inf} <=
    # C0/m1 with C0 of LG-6. That depends on the constant C* in C0: at C* = 1 it is 96, at 3 it is
    # 1.1e5; m1 ||W*||_{2,inf} is 2.8e3 to 3.1e4 here, growing slowly as h is not bounded.
    m1, m2 = widths
    found = three_layer_weights(
        start(m1, m2, 0), product(), variance=variance, key=jax.random.key(0)
    )
    assert found.norm_V_2_inf == pytest.approx(math.sqrt(m1) / m2, rel=1e-12)
    C0 = [10 ** three_layer_rates(product(), epsilon=0.1, constant=c).log10_C0 for c in (1.0, 3.0)]
    assert C0[0] / m1 < found.norm_W_2_inf < 0.5 * C0[1] / m1


def test_a_square_of_functions_needs_a_hundred_million_neurons():
    # LG-45: E h_Phi^2 has C'^(2i), C' ~ 18, so that z^2 would need m2 ~ E h_Phi^2/err^2 ~ 1e8 to
    # 1e9. For errors from .27 down to .086 and h of least norm; with the paper's h, 130 times that.
    scale = 7.09 / (0.5 * math.sqrt(0.6))
    assert scale == pytest.approx(18.3, abs=0.05)
    line, square = (indicator_function([0] * i + [scale**i]).energy for i in (1, 2))
    paper = indicator_function([0, 0, scale**2], method="paper").energy
    assert line == pytest.approx(scale**2 * 10.883, rel=1e-3)
    assert square == pytest.approx(scale**4 * 65.30, rel=1e-3)
    assert 1e8 < square / 0.27**2 < square / 0.1**2 < square / 0.086**2 < 1e9
    assert paper / square == pytest.approx(8492.5 / 65.30, rel=1e-3)
    # The linear one needs 3.6e5 for an error of .1.
    assert line / 0.1**2 == pytest.approx(3.6e5, rel=0.02)


def test_the_papers_weights_are_their_formula():
    # LG-45, step 3, neuron by neuron, one term.
    params, c = small(30, 20), product()
    found = three_layer_weights(params, c, variance="paper", balance=3.0, key=jax.random.key(2))
    info, s = found.information, found.right[0]
    h_Phi, h_2 = indicator_function([0, info.scale]), indicator_function("sin")
    W0, b1, b2, a = (np.asarray(p) for p in (params.W, params.b1, params.b2, params.a))
    V = np.asarray(found.dense_V())
    for i in (0, 7, 19):
        value = h_Phi(np.array(info.z[i, 0]), np.array(math.sqrt(20) * b2[i]))
        np.testing.assert_allclose(V[i], a[i] * float(value) * s / (3.0 * 20), rtol=1e-10)
    for j in (0, 11, 29):
        value = h_2(np.array(math.sqrt(30) * W0[j, 1]), np.array(math.sqrt(30) * b1[j]))
        expected = 3.0 * s[j] * float(value) / (30 * 0.5)
        assert np.asarray(found.dW)[j, -1] == pytest.approx(expected, rel=1e-10)
    assert set(np.unique(s)) == {-1.0, 1.0}


def test_information_is_the_formula_of_the_lemma():
    # LG-44 in loops, two blocks, against the streamed version.
    params = small(24, 10)
    hs = [indicator_function(f, method="bias-free").clipped(2.0) for f in ("identity", "sin")]
    w = np.eye(D)[:2]
    found = random_information(params, hs, w, tau=0.5)
    W0, b1, V0 = (np.asarray(p) for p in (params.W, params.b1, params.V))
    C = max(h.bound for h in hs)
    for i in (0, 4, 9):
        for j, h in enumerate(hs):
            block = np.arange(12 * j, 12 * (j + 1))
            y = h(math.sqrt(24) * W0[block] @ w[j], math.sqrt(24) * b1[block]) / C
            s = interval_partition(y, 0.5).signs(math.sqrt(10) * V0[i, block])
            used = np.count_nonzero(s)
            assert found.shares[i, j] == pytest.approx(used / 12)
            z = math.sqrt(24) * s @ W0[block, -1] / math.sqrt(used)
            assert found.z[i, j] == pytest.approx(z, rel=1e-10)
    assert found.scale == pytest.approx(C * math.sqrt(2) / (0.5 * math.sqrt(0.5)))


INNER = ["sin", "tanh", "exp", [0, 0, 1.0], [0, 0, 0, 1.0]]


@pytest.mark.parametrize("phi", INNER, ids=["sin", "tanh", "exp", "square", "cube"])
def test_the_bias_of_the_function_that_is_built_is_reported(phi):
    # With a limit of 2 for all, tanh and the cube were off by 36 and 82 % of their size.
    e, params, key = np.eye(D), small(12, 8), jax.random.key(0)
    concept = ThreeLayerConcept(
        np.ones(1), ["identity"], ONE, ONE, [phi], ["sin"], e[:1], e[1:2]
    )  # fmt: skip
    chosen = three_layer_weights(params, concept, error=0.1, key=key)
    assert 0.02 < chosen.bias[0] <= 0.1
    fixed = three_layer_weights(params, concept, limit=2.0, key=key)
    z = np.linspace(-math.sqrt(0.75), math.sqrt(0.75), 9)
    h = fixed.first[0]
    assert set(h.limits) == {2.0}
    error = np.abs(indicator_error(h, z).error)
    assert fixed.bias[0] == pytest.approx(error.max() / np.abs(h.phi(z)).max(), rel=1e-9)
    assert (chosen.information.bound > fixed.information.bound) == (fixed.bias[0] > 0.1)


def test_functions_given_for_others_have_a_bias():
    h = indicator_function("sin", method="bias-free").clipped(5.0)
    found = three_layer_weights(small(12, 8), product(), first=[h], key=jax.random.key(0))
    size = math.sqrt(0.75)
    assert found.bias[0] == pytest.approx(1 - math.sin(size) / size, rel=1e-3)  # not the identity


def test_rows_given_by_a_function_are_those_of_the_matrix():
    params, x = small(50, 33), points(5)
    V = np.asarray(params.V)
    by_rows = ThreeLayerStart(params.W, params.b1, lambda i, j: V[i:j], params.b2, params.a)
    pair = [
        three_layer_weights(p, product(), x, key=jax.random.key(0)).outputs
        for p in (params, by_rows)
    ]
    np.testing.assert_allclose(pair[0], pair[1], rtol=1e-12)


def test_bad_starts_and_concepts_are_refused(no_shape_checker):
    params, e, key = small(12, 8), np.eye(D), jax.random.key(0)
    parts = (np.ones(1), ["identity"], ONE, ONE, ["identity"], ["sin"])
    touching = ThreeLayerConcept(*parts, e[3:], e[1:2])
    with pytest.raises(ValueError, match="`w` must have rows orthogonal to the last coordinate"):
        three_layer_weights(params, touching, key=key)
    with pytest.raises(ValueError, match=r"last of them 0\.5 throughout"):
        three_layer_weights(params, product(), np.eye(D), key=key)
    with pytest.raises(ValueError, match="`start` must be of a network with 4 inputs and 2 outp"):
        three_layer_weights(params, several(), key=key)
    with pytest.raises(ValueError, match="`indicators` must be bounded"):
        random_information(params, [indicator_function("sin")], e[:1])
    narrow = ThreeLayerStart(
        params.W, params.b1, lambda i, j: np.ones((j - i, 3)), params.b2, params.a
    )
    with pytest.raises(ValueError, match=r"`start.V` must give rows of shape \(8, 12\)"):
        three_layer_weights(narrow, product(), key=key)


def test_directions_and_points_must_be_of_unit_norm():
    params, e = small(12, 8), np.eye(D)
    h = indicator_function("identity", method="bias-free").clipped(2.0)
    with pytest.raises(ValueError, match="`w` must have rows of unit norm, got 5 in row 0"):
        random_information(params, [h], 5 * e[:1])
    long = points(4) * [[2, 2, 2, 1]]
    with pytest.raises(ValueError, match="`x` must have rows of unit norm"):
        random_information(params, [h], e[:1], long)
    with pytest.raises(ValueError, match="`x` must have rows of unit norm"):
        three_layer_weights(params, product(), long, key=jax.random.key(0))


def test_more_functions_than_neurons_are_refused():
    h = indicator_function("identity", method="bias-free").clipped(2.0)
    with pytest.raises(ValueError, match=r"`indicators` must be at most 2, .* got 3"):
        random_information(small(2, 8), [h] * 3, np.eye(D)[:3])
    found = random_information(small(3, 8), [h] * 3, np.eye(D)[:3])
    assert np.isfinite(found.shares).all()


def test_what_does_not_vary_has_no_correlation():
    # Without warnings, which are errors here.
    key, e = jax.random.key(0), np.eye(D)
    single = three_layer_weights(small(12, 8), product(), points(1), key=key)
    assert math.isnan(single.correlation)
    assert math.isfinite(single.rms_error)
    flat = ThreeLayerConcept(
        np.ones(1), [[1.0]], ONE, ONE, ["identity"], [[1.0]], e[:1], e[1:2]
    )  # fmt: skip
    constant = three_layer_weights(small(12, 8), flat, points(5), key=key)
    assert math.isnan(constant.correlation)
    assert math.isfinite(constant.rms_error)


def test_starts_of_another_kind_are_named(no_shape_checker):
    h = indicator_function("identity", method="bias-free").clipped(2.0)
    other: Any = BiasedTwoLayer(D, 6).init(key=jax.random.key(0))
    match = "`start` must be a ThreeLayerParams or ThreeLayerStart, got BiasedTwoLayerParams"
    with pytest.raises(TypeError, match=match):
        random_information(other, [h], np.eye(D)[:1])
    with pytest.raises(TypeError, match=match):
        three_layer_weights(other, product(), key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"`w` must have shape \(0, 4\)"):
        three_layer_weights(small(12, 8), product(), first=[], key=jax.random.key(0))
