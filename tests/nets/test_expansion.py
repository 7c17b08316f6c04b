# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients, linear_term, quadratic_term


@pytest.mark.parametrize("activation", ["tanh", "relu3"])
def test_terms_are_the_derivatives_of_the_network_along_the_movement(activation, getkey):
    net = TwoLayer(4, 6, activation=activation)
    with jax.enable_x64(True):
        params = TwoLayerParams(W=jr.normal(getkey(), (6, 4)), a=jr.normal(getkey(), (6,)))
        x, dW = jr.normal(getkey(), (5, 4)), jr.normal(getkey(), (6, 4))

        def along(t):
            return net(TwoLayerParams(W=params.W + t * dW, a=params.a), x)

        S, T = (coefficients(net.activation, params, x, k) for k in (1, 2))
        first, second = jax.jacfwd(along)(0.0), jax.jacfwd(jax.jacfwd(along))(0.0)
        np.testing.assert_allclose(linear_term(S, x @ dW.T), first, rtol=1e-12)
        np.testing.assert_allclose(quadratic_term(T, x @ dW.T), second / 2, rtol=1e-12)


def test_several_movements_at_once_give_what_each_gives(getkey):
    net = TwoLayer(3, 8, activation="sigmoid")
    params, x = net.init(key=getkey()), jr.normal(getkey(), (5, 3))
    Z = jr.normal(getkey(), (5, 2, 8))
    for order, term in ((1, linear_term), (2, quadratic_term)):
        C = coefficients(net.activation, params, x, order)
        one_by_one = jnp.stack([term(C, Z[:, k]) for k in range(2)], axis=1)
        np.testing.assert_allclose(term(C, Z), one_by_one, rtol=1e-5, atol=1e-6)


def test_twins_counted_once_keep_the_width_of_the_network(getkey):
    net = TwoLayer(3, 8, activation="tanh", init="symmetric")
    params, x = net.init(key=getkey()), jr.normal(getkey(), (5, 3))
    half = TwoLayerParams(W=params.W[:4], a=params.a[:4])
    Z = jr.normal(getkey(), (5, 4))
    both = jnp.concatenate([Z, -Z], axis=1)  # the movement of a twin is the other's, negated
    S, few = (coefficients(net.activation, p, x, 1) for p in (params, half))
    once = linear_term(few, 2 * Z, width=8)
    np.testing.assert_allclose(linear_term(S, both), once, rtol=1e-4, atol=1e-6)
