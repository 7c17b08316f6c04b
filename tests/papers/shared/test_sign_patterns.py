# SPDX-License-Identifier: Apache-2.0
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import BiasedTwoLayer, BiasedTwoLayerParams, ResNet3, ThreeLayer
from unlazy.papers.allenzhu_li2019 import resnet3_patterns
from unlazy.papers.allenzhu_li_liang2019 import smoothed_relu
from unlazy.papers.shared import flipped_fractions, sign_changes, sign_pattern
from unlazy.papers.shared.sign_patterns import SignPattern


def test_a_neuron_at_exactly_zero_is_active():
    net = BiasedTwoLayer(1, 3)
    params = BiasedTwoLayerParams(
        W=jnp.array([[1.0], [0.0], [-1.0]]), b=jnp.zeros(3), a=jnp.ones(3)
    )
    pattern = sign_pattern(net, params, jnp.array([[1.0], [0.0]])).layers[0]
    np.testing.assert_array_equal(pattern, [[True, True, False], [True, True, True]])


def test_residual_learners_have_the_patterns_of_their_gradients(getkey):
    # RN-26, for the patterns that resnet3_gradient multiplies with.
    net = ResNet3(4, 30, 2)
    params, x = net.init(key=getkey()), jr.normal(getkey(), (5, 4))
    first, second = sign_pattern(net, params, x).layers
    known = resnet3_patterns(net, params, x)
    np.testing.assert_array_equal(first, np.asarray(known.first) == 1)
    np.testing.assert_array_equal(second, np.asarray(known.second) == 1)


def test_changes_are_counted_for_each_input_and_layer(getkey):
    # LG-16, against a count over neurons.
    net = ThreeLayer(4, (50, 40))
    one, two = net.init(key=getkey()), net.init(key=getkey())
    x = jr.normal(getkey(), (7, 4))
    first, second = sign_pattern(net, one, x), sign_pattern(net, two, x)
    counts, fractions = sign_changes(first, second), flipped_fractions(first, second)
    for layer, width in enumerate((50, 40)):
        pairs = zip(np.asarray(first.layers[layer]), np.asarray(second.layers[layer]), strict=True)
        by_hand = [sum(p != q for p, q in zip(*rows, strict=True)) for rows in pairs]
        np.testing.assert_array_equal(counts[layer], by_hand)
        np.testing.assert_allclose(fractions[layer], counts[layer] / width)
        assert 0.2 < fractions[layer].mean() < 0.8  # independent weights disagree half the time
        assert sign_changes(first, first)[layer].sum() == 0


def test_patterns_of_other_inputs_are_refused():
    one, two = SignPattern((jnp.ones((2, 3), bool),)), SignPattern((jnp.ones((3, 3), bool),))
    with pytest.raises(ValueError, match="`second` must have the shapes of `first`"):
        sign_changes(one, two)


def test_smoothed_relu_is_the_average_over_noise(x64):
    # LG-15 by Gauss-Legendre on both sides of the kink, and its derivatives by differences.
    nodes, weights = np.polynomial.legendre.leggauss(60)
    for std in (0.3, 1.0):
        for z in (-1.5, -0.2, 0.0, 0.7):
            rho = 6 * std * (nodes + 1) - z  # from the kink, where z + rho = 0, upwards
            density = np.exp(-((rho / std) ** 2) / 2) / (std * np.sqrt(2 * np.pi))
            mean = np.sum(weights * 6 * std * (z + rho) * density)
            assert float(smoothed_relu(jnp.asarray(z), std)) == pytest.approx(mean, abs=1e-9)
    z, h = jnp.linspace(-1.0, 1.0, 11), 1e-5
    for k in (0, 1):
        up, down = (smoothed_relu(z + s * h, 0.5, derivative=k) for s in (1, -1))
        slope = smoothed_relu(z, 0.5, derivative=k + 1)
        np.testing.assert_allclose((up - down) / (2 * h), slope, atol=1e-8)
    curvature = smoothed_relu(z, 1.0, derivative=2)
    assert float(curvature.min()) == pytest.approx(0.242, abs=5e-4)
    assert float(curvature.max()) == pytest.approx(0.399, abs=5e-4)


def test_smoothing_by_nothing_and_third_derivatives_are_refused():
    with pytest.raises(ValueError, match="`std` must be a positive number"):
        smoothed_relu(jnp.ones(2), 0.0)
    with pytest.raises(ValueError, match="`derivative` must be 0, 1 or 2"):
        smoothed_relu(jnp.ones(2), 1.0, derivative=3)
