# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import ResNet3, ResNet3Params
from unlazy.papers.allenzhu_li2019 import resnet3_gradient, resnet3_patterns


def problem(getkey, n=5, activation="relu"):
    net = ResNet3(4, 60, 3, sigma_v=4.0, activation=activation)
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), net.init(key=getkey()))
    return net, params, jr.normal(getkey(), (n, 4)), jr.normal(getkey(), (n, 3))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_gradients_are_those_of_automatic_differentiation(activation, getkey, x64):
    # RN-41, RN-27: measured there 1e-16.
    net, params, x, y = problem(getkey, activation=activation)
    exact = jax.grad(lambda p: jnp.sum((net(p, x) - y) ** 2) / 2)(params)
    found = resnet3_gradient(net, params, x, y)
    for name in ("W", "b1", "V", "b2"):
        scale = np.abs(getattr(exact, name)).max()
        error = np.abs(getattr(found, name) - getattr(exact, name)).max()
        assert error < 1e-12 * scale


def test_outputs_are_rebuilt_from_the_patterns(getkey, x64):
    # RN-26: out1 = A D_W (W, b1) xa, out = out1 + A D_V (V, b2) z.
    net, params, x, _ = problem(getkey)
    at = resnet3_patterns(net, params, x)
    out1 = (at.first * (x @ params.W.T + params.b1[None])) @ params.A.T
    out = out1 + (at.second * (out1 @ params.V.T + params.b2[None])) @ params.A.T
    np.testing.assert_allclose(at.out1, out1, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(at.out, out, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(at.out, net(params, x), rtol=1e-12, atol=1e-14)
    assert set(np.unique(at.second)) == {0.0, 1.0}


def test_the_residual_map_is_the_derivative_with_respect_to_the_first_outputs(getkey, x64):
    net, params, x, _ = problem(getkey)
    at = resnet3_patterns(net, params, x)

    def after(out1):
        return out1 + jax.nn.relu(params.V @ out1 + params.b2) @ params.A.T

    np.testing.assert_allclose(at.M, jax.vmap(jax.jacfwd(after))(at.out1), rtol=1e-11, atol=1e-13)


def test_a_direction_sees_the_errors_through_both_layers(getkey, x64):
    # RN-27: <grad, -(W', V')> = <y - out, f + g>, f = M A D_W W' xa, g = A D_V V' z. RN-41: 9e-16.
    net, params, x, y = problem(getkey, n=1)
    step = jax.tree.map(lambda leaf: jr.normal(getkey(), leaf.shape), params)
    gradient = resnet3_gradient(net, params, x, y)
    names = ("W", "b1", "V", "b2")
    left = -sum(float(jnp.sum(getattr(gradient, q) * getattr(step, q))) for q in names)
    at = resnet3_patterns(net, params, x)
    f = at.M[0] @ (params.A @ (at.first[0] * (step.W @ x[0] + step.b1)))
    g = params.A @ (at.second[0] * (step.V @ at.out1[0] + step.b2))
    assert left == pytest.approx(float((y - at.out)[0] @ (f + g)), rel=1e-12)


def test_gradients_are_no_larger_than_the_claim(getkey, x64):
    # RN-57, Claim C.5: ||grad_W|| = O(||e|| (sigma_v + 1)) and ||grad_V|| = O(||e|| (tau_w + 1));
    # ratios at most .44 and .28 over 20 random draws there. The gradients have sums of 500 terms,
    # so that other draws differ by a few percent: a third is allowed.
    net = ResNet3(5, 500, 3, sigma_v=2.0)

    @jax.jit
    def ratios(key):
        keys = jr.split(key, 6)
        start = net.init(key=keys[0])
        W, b1 = sized(jr.normal(keys[1], (500, 6)), 2.0)
        V, b2 = sized(jr.normal(keys[2], (500, 4)), 0.3)
        params = ResNet3Params(start.W + W, start.b1 + b1, start.V + V, start.b2 + b2, start.A)
        x = jr.normal(keys[3], (1, 5))
        x, y = x / jnp.linalg.norm(x), jr.normal(keys[4], (1, 3))
        g, e = resnet3_gradient(net, params, x, y), jnp.linalg.norm(net(params, x) - y)
        first = jnp.sqrt(jnp.sum(g.W**2) + jnp.sum(g.b1**2))
        second = jnp.sqrt(jnp.sum(g.V**2) + jnp.sum(g.b2**2))
        return jnp.stack([first / (e * 3), second / (e * 3)])

    def sized(matrix, spectral):
        matrix = spectral * matrix / jnp.linalg.norm(matrix, ord=2)
        return matrix[:, :-1], matrix[:, -1]

    worst = np.max([ratios(getkey()) for _ in range(20)], axis=0)
    assert worst[0] < 0.44 * 1.33
    assert worst[1] < 0.28 * 1.33
    assert worst.min() > 0.1  # the claim is tight up to its constant


def test_a_general_network_is_refused(getkey):
    net = ResNet3(3, 4, 2, form="general")
    with pytest.raises(ValueError, match="`net` must be of form 'bottleneck'"):
        resnet3_patterns(net, net.init(key=getkey()), jnp.ones((2, 3)))


@pytest.mark.parametrize("shape", [(3, 1), (1, 2), (3,)])
def test_labels_are_never_broadcast(shape, getkey, no_shape_checker):
    net = ResNet3(3, 4, 2)
    with pytest.raises(ValueError, match=r"`y` must have the shape.*\(3, 2\), got y.shape="):
        resnet3_gradient(net, net.init(key=getkey()), jnp.eye(3), jnp.ones(shape))


def test_every_product_of_the_patterns_is_in_full_precision(getkey):
    # TF32 on a GPU would turn signs near zero; a CPU shows no difference, so look at the program.
    net = ResNet3(3, 4, 2)
    params = net.init(key=getkey())
    program = str(jax.make_jaxpr(lambda x: resnet3_patterns(net, params, x).M)(jnp.eye(3)))
    products = program.count("dot_general[")
    assert products >= 5
    assert program.count("Precision.HIGHEST") == 2 * products
