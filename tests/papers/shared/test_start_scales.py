# SPDX-License-Identifier: Apache-2.0
"""Constructions divide by the scale of a start: one that is not the start's must be refused."""

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest

from unlazy.data import sphere
from unlazy.nets import BiasedTwoLayer, ResNet3, ThreeLayer, TwoLayer
from unlazy.papers.allenzhu_li2019 import parity_concept, resnet_weights
from unlazy.papers.allenzhu_li_liang2019 import (
    ThreeLayerConcept,
    TwoLayerConcept,
    random_information,
    three_layer_weights,
    two_layer_weights,
)
from unlazy.papers.allenzhu_li_liang2019.indicator_errors import bounded_indicator
from unlazy.papers.arora2019 import minimum_norm
from unlazy.papers.bai_lee2020 import relu_readout, ridge_power, ridge_sum, two_xor
from unlazy.papers.shared.smooth_functions import as_series
from unlazy.papers.shared.start_scales import Squares, squares

D = 4
ONE, E = np.ones((1, 1)), np.eye(D)
PRODUCT = ThreeLayerConcept(np.ones(1), ["identity"], ONE, ONE, ["sin"], ["exp"], E[:1], E[1:2])


def three_layer(scale=1.0, widths=(60, 90)):
    return ThreeLayer(D, widths, init_scale=scale).init(key=jr.key(0))


def scaled(params, name, factor):
    return eqx.tree_at(lambda p: getattr(p, name), params, factor * getattr(params, name))


def test_output_weights_of_another_scale_are_refused_or_taken_into_account():
    params = three_layer(0.1)
    with pytest.raises(
        ValueError,
        match=r"`output_scale` must be the scale of .* got output_scale=1 .* says 0\.[01]",
    ):
        three_layer_weights(params, PRODUCT, key=jr.key(1))
    x = np.array([[0.5, 0.5, 0.5, 0.5], [-0.5, 0.1, 0.7, 0.5]])
    x[1] /= np.linalg.norm(x[1, :3]) / np.sqrt(0.75)
    x[:, 3] = 0.5
    # a is drawn from the same key, a tenth as large: the same function is built.
    for variance in ("paper", "reduced"):
        unit, tenth = (
            three_layer_weights(
                three_layer(s), PRODUCT, x, output_scale=s, variance=variance, key=jr.key(1)
            )
            for s in (1.0, 0.1)
        )
        np.testing.assert_allclose(tenth.outputs, unit.outputs, rtol=1e-5)
        assert tenth.norm_V_2_inf == pytest.approx(unit.norm_V_2_inf, rel=1e-6)  # the balance


@pytest.mark.parametrize("name", ["W", "b1", "V", "b2"])
def test_hidden_weights_of_another_scale_are_named(name):
    params = scaled(three_layer(), name, 2.0)
    letter = "1" if name in ("W", "b1") else "2"
    match = rf"`start.{name}` must have entries of standard deviation 1/sqrt\(m{letter}\) = "
    with pytest.raises(ValueError, match=match):
        three_layer_weights(params, PRODUCT, key=jr.key(1))
    if name != "b2":
        h = bounded_indicator(as_series("sin"), error=0.1)
        with pytest.raises(ValueError, match=match):
            random_information(params, [h], E[:1])


def test_scales_of_a_residual_network_are_those_of_its_start():
    # sigma_w = .05 for a start of .2 built a base with an error of 2.1 in place of .016.
    net = ResNet3(D, 3000, 2, sigma_w=0.2, sigma_v=1.5)
    params, goal = net.init(key=jr.key(0)), parity_concept((0, 1), inputs=D, alpha=0.1)
    resnet_weights(params, goal, sigma_w=0.2, sigma_v=1.5)
    with pytest.raises(
        ValueError, match=r"`sigma_w` must be the scale .* got sigma_w=0\.05 .* says (0\.2|0\.19)"
    ):
        resnet_weights(params, goal, sigma_w=0.05, sigma_v=1.5)
    with pytest.raises(ValueError, match=r"`sigma_v` must be .* got sigma_v=1 .* says 1\.[45]"):
        resnet_weights(params, goal, sigma_w=0.2, sigma_v=1.0)
    with pytest.raises(ValueError, match="`sigma_v` must be the scale of the biases"):
        resnet_weights(scaled(params, "b2", 3.0), goal, sigma_w=0.2, sigma_v=1.5)
    with pytest.raises(ValueError, match=r"`params0.A` must have entries of .* 1/sqrt\(m\)"):
        resnet_weights(scaled(params, "A", 2.0), goal, sigma_w=0.2, sigma_v=1.5)


def test_hidden_weights_of_two_layers_are_looked_at():
    params = BiasedTwoLayer(D, 200, init_scale=0.1).init(key=jr.key(0))
    goal = TwoLayerConcept(np.ones(1), ["sin"], E[:1], E[1:2])
    two_layer_weights(params, goal, output_scale=0.1)
    for name in ("W", "b"):
        with pytest.raises(ValueError, match=rf"`params0.{name}` must have entries of standard"):
            two_layer_weights(scaled(params, name, 0.5), goal, output_scale=0.1)


def test_movements_for_powers_need_the_scale_of_their_network():
    net = TwoLayer(D, 400, "relu3", init="symmetric")
    params = scaled(net.init(key=jr.key(0)), "W", 0.5)
    match = "`params0.W` must have entries of standard deviation init_scale = 1, got .* 0.[45]"
    for build in (
        lambda: ridge_power(net, params, 1.0, E[0], 2),
        lambda: ridge_sum(net, params, [1.0], E[:1], [4]),
        lambda: two_xor(net, params),
    ):
        with pytest.raises(ValueError, match=match):
            build()


def test_the_least_movement_is_for_signs_as_output_weights():
    params = TwoLayer(D, 60).init(key=jr.key(0))
    x, y = sphere(5, D, key=jr.key(1)), np.ones(5, np.float32)
    minimum_norm(params, x, y)
    with pytest.raises(
        ValueError, match=r"`params0.a` must have entries 1 and -1, got -?2 in row 0"
    ):
        minimum_norm(scaled(params, "a", 2.0), x, y)


def test_starts_of_the_right_scale_pass():
    # 2000 draws of every size: one refusal has probability 1e-5.
    rng = np.random.default_rng(0)
    for count in (1, 2, 10, 1000):
        totals = 0.09 * rng.chisquare(count, 2000)
        assert all(Squares(float(total), count).fit(0.3) for total in totals)
    assert not Squares(0.0, 20).fit(0.3)
    assert not squares(np.full(200, 0.5)).fit(0.3)
    # As many weights as a wide layer has: a hundredth more than it should be is seen.
    assert Squares(2.4e8, 240_000_000).fit(1.0)
    assert not Squares(2.4e8, 240_000_000).fit(1.01)


def test_readouts_take_any_neurons():
    # They are values of a function of w, at the w given.
    assert relu_readout(np.eye(3), 1.0, np.eye(3)[0], 1).a.shape == (3,)


def test_nan_in_a_start_is_named_before_its_scale():
    params = three_layer()
    broken = eqx.tree_at(lambda p: p.b2, params, params.b2.at[3].set(np.nan))
    with pytest.raises(ValueError, match=r"`start.b2` must be finite"):
        three_layer_weights(broken, PRODUCT, key=jax.random.key(0))
