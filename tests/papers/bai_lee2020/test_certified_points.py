# SPDX-License-Identifier: Apache-2.0
"""`curvature.certify` on the clean risk, whose landscape the paper describes."""

import jax.numpy as jnp
import pytest

from unlazy.curvature import certify
from unlazy.nets import TwoLayer
from unlazy.train import SquaredError


def test_numbers_scale_with_the_width_of_a_two_layer_network(small, getkey):
    *_, risk, W, _ = small(m=16)
    found = certify(risk, W, key=getkey())
    assert found.width == 16
    norm = float(jnp.linalg.norm(risk.gradient(W)))
    assert found.gradient_norm == pytest.approx(norm, rel=1e-4)
    assert found.scaled_gradient == pytest.approx(2 * found.gradient_norm)
    assert found.scaled_curvature == pytest.approx(4 * found.curvature.smallest)
    assert "||g|| m^1/4" in str(found)
    assert "dense spectrum" in str(found)
    net = TwoLayer(3, 4, "tanh")
    data = (jnp.eye(3), jnp.ones(3))
    params = net.init(key=getkey())
    whole = certify(SquaredError(net), params, data=data, key=getkey())
    assert whole.width == 4
    assert whole.curvature.parameters == 16
    hidden = certify(SquaredError(net), params, data=data, trained="hidden", key=getkey())
    assert hidden.curvature.parameters == 12


def test_zero_movement_is_certified_as_a_saddle_also_from_float32(small, getkey):
    *_, risk, W, _ = small(m=16, n=30)
    assert W.dtype == jnp.float32
    assert certify(risk, jnp.zeros_like(W), key=getkey()).verdict == "saddle"
    assert jnp.ones(1).dtype == jnp.float32  # the setting is as it was
