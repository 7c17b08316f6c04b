# SPDX-License-Identifier: Apache-2.0
import jax
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.escape import quadratic_output
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.nichani2022 import twin_coordinates


def test_the_terms_in_twin_coordinates_are_those_of_the_movement(x64, getkey):
    # NB-5.
    d, m = 5, 12
    net = TwoLayer(d, m, ul.activation("sigmoid", shift=1.5), init="sphere")
    params, W = net.init(key=getkey()), jr.normal(getkey(), (m, d))
    x = ul.data.sphere(9, d, radius=d**0.5, key=getkey())
    u, v = twin_coordinates(params, W)
    Z0, U, V = x @ params.W[: m // 2].T, x @ u.T, x @ v.T
    slope, bend = (net.activation.derivative(k)(Z0) for k in (1, 2))
    f_L = np.sqrt(2 / m) * np.sum(slope * U, axis=1)
    f_Q = np.sum(bend * U * V, axis=1) / np.sqrt(m)
    along = lambda t: net(TwoLayerParams(W=params.W + t * W, a=params.a), x)  # noqa: E731
    slope = jax.jit(jax.jacfwd(along))(0.0)
    np.testing.assert_allclose(f_L, slope, atol=1e-14)
    np.testing.assert_allclose(f_Q, quadratic_output(net, params, W, x), atol=1e-14)
    np.testing.assert_allclose(twin_coordinates(params, W).movement, W, atol=1e-15)
    assert np.sum(u**2) + np.sum(v**2) == pytest.approx(float(np.sum(W**2)), rel=1e-14)


def test_params_without_twins_are_refused(getkey):
    net = TwoLayer(3, 4)
    with pytest.raises(ValueError, match="`params` must be of a paired start"):
        twin_coordinates(net.init(key=getkey()), jr.normal(getkey(), (4, 3)))
    params = TwoLayer(3, 4, init="sphere").init(key=getkey())
    with pytest.raises(ValueError, match=r"`W` must have shape \(4, 3\), got W.shape=\(4, 2\)"):
        twin_coordinates(params, jr.normal(getkey(), (4, 2)))
