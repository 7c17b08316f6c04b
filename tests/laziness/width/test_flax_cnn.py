# SPDX-License-Identifier: Apache-2.0
"""The width check of a convolutional network; compiled as users' are, for its convolutions."""

import flax.linen as nn
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.laziness import width_check


class CNN(nn.Module):
    width: int
    power: float

    @nn.compact
    def __call__(self, x):
        options = {"use_bias": False, "kernel_init": nn.initializers.normal(1.0)}
        h = nn.Conv(self.width, (2, 2), padding="VALID", **options)(x) / 2
        h = nn.Conv(self.width, (2, 2), padding="VALID", **options)(nn.tanh(h))
        h = nn.tanh(h / (4 * self.width) ** 0.5).mean(axis=(1, 2))
        return nn.Dense(1, **options)(h) / self.width**self.power


IMAGES = jr.normal(jr.key(3), (8, 4, 4, 1))


def check_of_cnn(power, widths, seeds):
    def make(width, key):
        net = CNN(width, power)
        return net.apply, net.init(key, IMAGES)

    y = jnp.sign(IMAGES[:, :2, :2, 0].sum(axis=(1, 2)))[:, None]
    rate = lambda m: float(m ** (2 * power - 1))  # noqa: E731  # constant for NTK scaling
    options = {"learning_rate": rate, "steps": 3, "seeds": seeds, "key": jr.key(4)}
    return width_check(make, widths, IMAGES, y, **options)


@pytest.mark.parametrize(("power", "expected"), [(0.5, -0.5), (1.0, 0.0)])
def test_a_flax_cnn_has_the_exponent_of_its_scaling(power, expected):
    result = check_of_cnn(power, [32, 128], 12)
    assert result.layers == ("params/Conv_0/kernel", "params/Conv_1/kernel", "output")
    # The standard errors are below 0.06: a failure is three of them away, below 3e-3.
    np.testing.assert_array_less(result.standard_errors[:2], 0.06)
    np.testing.assert_allclose(result.exponents[:2], expected, atol=0.2)
    assert result.hidden.tolist() == [True, True, False]


@pytest.mark.slow
@pytest.mark.parametrize(("power", "expected"), [(0.5, -0.5), (1.0, 0.0)])
def test_a_flax_cnn_has_the_exponent_to_a_twentieth(power, expected):
    result = check_of_cnn(power, [64, 128, 256, 512], 20)
    # The standard errors are below 0.015: a failure is three of them away, below 3e-3.
    np.testing.assert_array_less(result.standard_errors[:2], 0.015)
    np.testing.assert_allclose(result.exponents[:2], expected, atol=0.05)
