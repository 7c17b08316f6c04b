# SPDX-License-Identifier: Apache-2.0
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import taylor
from unlazy.nets import BiasedTwoLayer, ResNet3, ThreeLayer, TwoLayer
from unlazy.papers.allenzhu_li_liang2019 import (
    flip_first_layer,
    pseudo_output,
    pseudo_terms,
    signed_coupling,
)
from unlazy.papers.shared import sign_pattern
from unlazy.papers.shared.sign_patterns import SignPattern

ROUNDING = 1e-14  # of outputs of order one


def double(params):
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64), params)


def two_layer(getkey, outputs=None):
    net = BiasedTwoLayer(4, 20, outputs)
    return net, double(net.init(key=getkey())), jr.normal(getkey(), (6, 4))


def three_layer(getkey, outputs=None):
    net = ThreeLayer(4, (20, 15), outputs)
    return net, double(net.init(key=getkey())), jr.normal(getkey(), (6, 4))


def with_hidden(params, W, V):
    return eqx.tree_at(lambda p: (p.W, p.V), params, (W, V))


@pytest.mark.parametrize("learner", [two_layer, three_layer])
@pytest.mark.parametrize("outputs", [None, 2])
def test_pseudo_network_is_the_network_at_its_own_pattern(learner, outputs, getkey, x64):
    # LG-30 (i), with exact zeros among the pre-activations: there g = f as well.
    net, params, x = learner(getkey, outputs)
    x = x.at[0].set(0.0)
    params = eqx.tree_at(lambda p: p.W, params, params.W.at[0].set(0.0))
    g = pseudo_output(net, params, x, sign_pattern(net, params, x))
    assert np.max(np.abs(g - net(params, x))) <= ROUNDING * 10


def test_two_layer_pseudo_network_is_the_sum_of_the_paper(getkey, x64):
    # LG-7 by loops, at weights other than those of the pattern.
    net, params0, x = two_layer(getkey)
    params = double(net.init(key=getkey()))
    D = np.asarray(x @ params0.W.T + params0.b[None, :] >= 0, float)
    Wx = np.asarray(x @ params.W.T)
    pattern, a, b = sign_pattern(net, params0, x), np.asarray(params.a), np.asarray(params.b)
    with_bias = [sum(a[i] * D[n, i] * (Wx[n, i] + b[i]) for i in range(20)) for n in range(6)]
    free = [sum(a[i] * D[n, i] * Wx[n, i] for i in range(20)) for n in range(6)]
    np.testing.assert_allclose(pseudo_output(net, params, x, pattern), with_bias, rtol=1e-12)
    np.testing.assert_allclose(
        pseudo_output(net, params, x, pattern, biases=0), free, rtol=1e-12, atol=1e-15
    )


def test_three_layer_pseudo_networks_are_the_products_of_the_paper(getkey, x64):
    # LG-8: g, g^(b) and g^(b,b) as matrix products of one input.
    net, params0, x = three_layer(getkey)
    params = double(net.init(key=getkey()))
    pattern = sign_pattern(net, params0, x)
    W, b1, V, b2, a = (np.asarray(leaf) for leaf in jax.tree.leaves(params))
    for n, row in enumerate(np.asarray(x)):
        D_w, D_v = (np.diag(np.asarray(mask[n], float)) for mask in pattern.layers)
        by_hand = [
            a @ D_v @ V @ D_w @ W @ row,
            a @ D_v @ V @ D_w @ (W @ row + b1),
            a @ D_v @ (V @ D_w @ (W @ row + b1) + b2),
        ]
        for biases, value in enumerate(by_hand):
            g = pseudo_output(net, params, x, pattern, biases=biases)[n]
            assert float(g) == pytest.approx(value, rel=1e-12, abs=1e-14)


def test_linear_model_is_the_start_plus_pseudo_networks(getkey, x64):
    # LG-9 against the Taylor room, whose terms know nothing of patterns.
    net, params, x = two_layer(getkey)
    W = double(net.init(key=getkey())).W
    moved = eqx.tree_at(lambda p: p.W, params, params.W + W)
    only = eqx.tree_at(lambda p: p.W, params, W)
    slope = pseudo_output(net, only, x, sign_pattern(net, params, x), biases=0)
    linear = taylor.linearize(net, params)(moved, x)
    np.testing.assert_allclose(linear, net(params, x) + slope, rtol=1e-12, atol=1e-13)

    net, params, x = three_layer(getkey)
    delta = double(net.init(key=getkey()))
    moved = with_hidden(params, params.W + delta.W, params.V + delta.V)
    parts = pseudo_terms(net, params, delta, x, sign_pattern(net, params, x))
    linear = taylor.linearize(net, params)(moved, x)
    by_hand = net(params, x) + parts.cross_V + parts.cross_W
    np.testing.assert_allclose(linear, by_hand, rtol=1e-12, atol=1e-13)


def test_four_terms_add_up_for_every_sign_and_the_quadratic_one_ignores_them(getkey, x64):
    # LG-30 (ii): measured 1e-16 and 2e-17.
    net, params, x = three_layer(getkey, outputs=2)
    delta, eta = double(net.init(key=getkey())), 0.3
    reference = double(net.init(key=getkey()))
    pattern = sign_pattern(net, reference, x)
    unsigned = pseudo_terms(net, params, delta, x, pattern)
    crosses = []
    for signs in (jr.rademacher(getkey(), (20,), dtype=float), jnp.ones(20)):
        for s in (signs, -signs):
            step = flip_first_layer(with_hidden(delta, eta * delta.W, eta * delta.V), s)
            parts = pseudo_terms(net, params, step, x, pattern)
            end = with_hidden(params, params.W + step.W, params.V + step.V)
            np.testing.assert_allclose(
                sum(parts), pseudo_output(net, end, x, pattern), rtol=1e-12, atol=1e-13
            )
            np.testing.assert_allclose(
                parts.quadratic, eta**2 * unsigned.quadratic, rtol=1e-12, atol=1e-14
            )
            crosses.append(parts.cross_V + parts.cross_W)
    np.testing.assert_allclose(crosses[0], -crosses[1], atol=1e-13)  # linear in the signs
    assert np.max(np.abs(crosses[0] - crosses[2])) > 0.01


def test_separate_signs_for_the_layers_would_destroy_the_signal(getkey, x64):
    # LG pitfall 11: what flip_first_layer does not do.
    net, params, x = three_layer(getkey)
    delta, pattern = double(net.init(key=getkey())), sign_pattern(net, params, x)
    signal = pseudo_terms(net, params, delta, x, pattern).quadratic
    s, t = jr.rademacher(getkey(), (2, 20), dtype=float)
    other = with_hidden(delta, s[:, None] * delta.W, delta.V * t[None, :])
    broken = pseudo_terms(net, params, other, x, pattern).quadratic
    assert np.max(np.abs(broken - signal)) > 0.1 * np.max(np.abs(signal))


def test_outputs_can_be_compiled_and_differentiated(getkey):
    net = ThreeLayer(3, 8)
    params, x = net.init(key=getkey()), jr.normal(getkey(), (4, 3))
    pattern = sign_pattern(net, params, x)
    g = jax.jit(lambda p: jnp.sum(pseudo_output(net, p, x, pattern)))
    f = lambda p: jnp.sum(net(p, x))  # noqa: E731  # two functions side by side
    for one, other in zip(
        jax.tree.leaves(jax.grad(g)(params)), jax.tree.leaves(jax.grad(f)(params)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)  # the same signs there


def test_bad_requests_are_named(getkey):
    net = ThreeLayer(3, (4, 5))
    params, x = net.init(key=getkey()), jnp.ones((2, 3))
    pattern = sign_pattern(net, params, x)
    with pytest.raises(ValueError, match="`biases` must be from 0 to 2"):
        pseudo_output(net, params, x, pattern, biases=3)
    with pytest.raises(ValueError, match="`pattern` must have masks of shapes"):
        pseudo_output(net, params, jnp.ones((3, 3)), pattern)
    with pytest.raises(ValueError, match="`pattern` must have masks of shapes"):
        pseudo_output(net, params, x, SignPattern(pattern.layers[:1]))
    smooth = ThreeLayer(3, (4, 5), activation="tanh")
    with pytest.raises(ValueError, match="`net` must have the activation relu"):
        sign_pattern(smooth, params, x)
    with pytest.raises(ValueError, match=r"`signs` must have shape \(4,\)"):
        flip_first_layer(params, jnp.ones(5))


def test_networks_of_another_kind_are_named(getkey, no_shape_checker):
    def of(net: Any) -> tuple[Any, Any]:
        return net, net.init(key=getkey())

    x = jnp.ones((2, 3))
    pattern = sign_pattern(*of(ThreeLayer(3, 4)), x)
    with pytest.raises(TypeError, match="BiasedTwoLayer or ThreeLayer or ResNet3, got TwoLayer"):
        sign_pattern(*of(TwoLayer(3, 4)), x)
    with pytest.raises(TypeError, match="`net` must be a BiasedTwoLayer or ThreeLayer, got ResN"):
        pseudo_output(*of(ResNet3(3, 4, 3)), x, pattern)
    net, params = of(BiasedTwoLayer(3, 4))
    with pytest.raises(TypeError, match="`net` must be a ThreeLayer, got BiasedTwoLayer"):
        signed_coupling(net, params, params, x, key=getkey())
    with pytest.raises(TypeError, match="`net` must be a ThreeLayer, got BiasedTwoLayer"):
        pseudo_terms(net, params, params, x, pattern)


def test_parameters_and_movements_of_other_networks_are_named(getkey, no_shape_checker):
    net, two = ThreeLayer(3, (4, 5)), BiasedTwoLayer(3, 4)
    params, small = net.init(key=getkey()), two.init(key=getkey())
    wide, x = ThreeLayer(3, (6, 5)).init(key=getkey()), jnp.ones((2, 3))
    pattern = sign_pattern(net, params, x)
    wrong: Any = small
    with pytest.raises(TypeError, match=r"`params` must be of this network.*got BiasedTwoLayerPa"):
        pseudo_output(net, wrong, x, pattern)
    wrong = params
    with pytest.raises(TypeError, match=r"`params` must be of this network.*got ThreeLayerParams"):
        pseudo_output(two, wrong, x, sign_pattern(two, small, x))
    with pytest.raises(ValueError, match=r"W of shape \(4, 3\), got params.W.shape=\(6, 3\)"):
        pseudo_output(net, wide, x, pattern)
    for use in (
        lambda delta: pseudo_terms(net, params, delta, x, pattern),
        lambda delta: signed_coupling(net, params, delta, x, key=getkey()),
    ):
        with pytest.raises(ValueError, match=r"`delta` must be .*got delta.W.shape=\(6, 3\)"):
            use(wide)
        with pytest.raises(TypeError, match="`delta` must be of this network, with arrays W, V"):
            use(small)
    hole = with_hidden(params, params.W, params.V.at[1, 0].set(jnp.nan))
    with pytest.raises(ValueError, match=r"`delta.V` must be finite, got nan or inf in row 1"):
        signed_coupling(net, params, hole, x, key=getkey())
