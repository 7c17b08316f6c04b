# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.kernels import empirical_ntk, empirical_ntk_traced
from unlazy.kernels.empirical.features import make_recipe
from unlazy.kernels.empirical.model import Model
from unlazy.nets import ResNet3, partition
from unlazy.papers.allenzhu_li2019 import resnet_ntk


class Parts:
    """RN-18 by NumPy: the parts of the kernel of W, V and the shared A, and that of the outer A."""

    def __init__(self, params, x1, x2):
        p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
        one, two = (self.layers(p, np.asarray(x, np.float64)) for x in (x1, x2))
        dot = "ip,jp->ij"
        BW = [np.einsum("irs,sj->irj", M, p.A) * D1[:, None] for _, _, _, _, D1, _, M in (one, two)]
        BV = [p.A[None] * D2[:, None] for *_, D2, _ in (one, two)]
        xa, z, h1, h2 = (np.einsum(dot, one[q], two[q]) for q in range(4))
        h12, h21 = np.einsum(dot, one[2], two[3]), np.einsum(dot, one[3], two[2])
        M1, M2, same = one[-1], two[-1], np.eye(p.A.shape[0])
        self.W = xa[..., None, None] * np.einsum("irm,jsm->ijrs", *BW)
        self.V = z[..., None, None] * np.einsum("irm,jsm->ijrs", *BV)
        self.A = (
            h2[..., None, None] * same + np.einsum("isp,jrp->ijsr", M1, M2) * h1[..., None, None]
        )
        self.A += np.swapaxes(M2, 1, 2)[None] * h21[..., None, None]
        self.A += M1[:, None] * h12[..., None, None]
        self.last = (h1 + h2 + h12 + h21)[..., None, None] * same

    @staticmethod
    def layers(p, x):
        xa = np.hstack([x, np.ones((len(x), 1))])
        first = x @ p.W.T + p.b1
        h1 = np.maximum(first, 0)
        z = np.hstack([h1 @ p.A.T, np.ones((len(x), 1))])
        second = z @ np.hstack([p.V, p.b2[:, None]]).T
        D2 = (second >= 0).astype(float)
        M = np.eye(p.A.shape[0]) + np.einsum("rj,ij,js->irs", p.A, D2, p.V)
        return xa, z, h1, np.maximum(second, 0), (first >= 0).astype(float), D2, M


def problem(getkey):
    net = ResNet3(4, 40, 3, sigma_v=4.0)  # a large V, so that M is far from the identity
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), net.init(key=getkey()))
    x = np.random.default_rng(0).standard_normal((7, 4))
    return net, jax.tree.map(jnp_double, params), x[:5], x[3:]


def jnp_double(leaf):
    with jax.enable_x64(True):
        return jnp.asarray(leaf)


@pytest.mark.parametrize("trained", ["all", "hidden", "last"])
def test_kernel_has_the_closed_form(trained, getkey):
    # RN-18: at most 3e-15 there.
    net, params, x, x2 = problem(getkey)
    parts = Parts(params, x, x2)
    hidden = parts.W + parts.V
    exact = {"all": hidden + parts.A, "hidden": hidden, "last": parts.last}[trained]
    K = np.asarray(empirical_ntk(net, params, x, x2, trained=trained))
    assert K.dtype == np.float64
    assert np.abs(K - exact).max() < 1e-13 * np.abs(exact).max()
    assert np.abs(np.asarray(parts.A - parts.last)).max() > 0.1  # the inner use of A does matter


def test_traced_kernel_is_the_trace_of_the_closed_form_and_symmetric(getkey):
    net, params, x, _ = problem(getkey)
    parts = Parts(params, x, x)
    exact = np.trace(parts.W + parts.V + parts.A, axis1=2, axis2=3)
    K = np.asarray(empirical_ntk_traced(net, params, x))
    np.testing.assert_allclose(K, exact, rtol=1e-12)
    np.testing.assert_array_equal(K, K.T)


def test_no_parameter_needs_its_gradient(getkey):
    # The shared A as well: two products along the same axis, two positions.
    net, params, x, _ = problem(getkey)
    arrays, frozen = partition(params, None)
    with jax.enable_x64(True):
        model = Model(net, frozen)
        recipe = make_recipe(model, arrays, jnp.asarray(x[:1]), layerwise=True, traced=False)
    assert recipe.flat == []
    assert sorted(layer.leaf for layer in recipe.layers) == [0, 2, 4, 4]


@pytest.mark.slow
def test_a_wide_network_has_the_limit_kernel(getkey):
    # RN-19 at m = 20000, d = 4; its deviations: 0.042 for W, 0.0075 for V, 0.083 for A. An entry is
    # a mean of 20000 products a^2 D D' (W, V: standard deviation at most sqrt(3)) or of h h' (at
    # most sqrt(8) |xa| |xa'|): 5 standard errors over 3 x 25 x 3 entries, probability 2e-4.
    m = 20_000
    net, x = ResNet3(4, m, 2, init="experiment"), np.random.default_rng(1).standard_normal((5, 4))
    params = net.init(key=getkey())
    x = x.astype(np.float32)
    xa = np.hstack([x, np.ones((5, 1))])
    norms = np.outer(*[np.linalg.norm(xa, axis=1)] * 2)
    K = {t: np.asarray(empirical_ntk(net, params, x, trained=t)) for t in ("all", "hidden", "last")}
    for trained, spread in {"all": 5.0, "hidden": 1.75, "last": 3.0}.items():
        limit = np.asarray(resnet_ntk(x, trained=trained))[..., None, None] * np.eye(2)
        allowed = 5 * spread * (norms + 1) / np.sqrt(m)
        assert (np.abs(K[trained] - limit) <= allowed[..., None, None]).all()


@pytest.mark.slow
def test_the_closed_form_is_faster_than_jacobians(getkey):
    import time

    net = ResNet3(30, 500, 15, init="experiment")
    params, x = net.init(key=getkey()), jr.normal(getkey(), (60, 30))

    def seconds(implementation):
        def run():
            K = empirical_ntk(net, params, x, implementation=implementation)
            return jax.block_until_ready(K)

        run()
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    assert seconds("auto") < seconds("jacobian") / 4  # measured: 24 times faster
