# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.kernels import relu_gram
from unlazy.papers.allenzhu_li2019 import resnet_ntk


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 4))


def out(params, x):
    """The three-layer ResNet of RN-4, with two outputs."""
    W, V, A = params
    h1 = jax.nn.relu(W @ jnp.append(x, 1.0))
    return A @ h1 + A @ jax.nn.relu(V @ jnp.append(A @ h1, 1.0))


@pytest.mark.slow
def test_finite_networks_converge_to_it(getkey):
    # RN-19. Means over 100 networks of width 2000; 4 standard errors over 12 entries: a fresh seed
    # fails with probability at most 0.002. The bias is of order 1/2000.
    x, m = jnp.asarray(rows(3), jnp.float32), 2000

    def one(key):
        keys = jr.split(key, 3)
        shapes = [(m, 5), (m, 3), (2, m)]
        params = [jr.normal(k, s) / math.sqrt(m) for k, s in zip(keys, shapes, strict=True)]
        jac = jax.jit(jax.vmap(jax.jacrev(out), in_axes=(None, 0)))(params, x)
        parts = [jnp.einsum("iapq,jbpq->ijab", g, g, precision="highest") for g in jac]
        return jnp.stack([sum(parts), parts[0] + parts[1]])

    samples = np.asarray(jax.lax.map(one, jr.split(getkey(), 100)), np.float64)
    mean, error = samples.mean(axis=0), samples.std(axis=0, ddof=1) / 10
    for part, trained in enumerate(["all", "hidden"]):
        exact = np.asarray(resnet_ntk(x, trained=trained))
        assert (np.abs(mean[part, ..., 0, 0] - exact) / error[part, ..., 0, 0]).max() < 4
        assert np.abs(mean[part, ..., 0, 1]).max() < 0.02  # the outputs are uncorrelated


def test_last_layer_is_the_kernel_of_its_features(getkey):
    # Features h1 + h2 of RN-8: for infinite width the second hidden layer is a ReLU of its bias.
    x, m = rows(3), 400_000
    w, b = np.random.default_rng(3).standard_normal((5, m)), np.random.default_rng(4)
    xa = np.hstack([x, np.ones((3, 1))])
    features = np.maximum(xa @ w, 0) + np.maximum(b.standard_normal(m), 0)
    products = features[:, None] * features[None]
    error = products.std(axis=2) / math.sqrt(m)  # 6 entries, 4 of these: fails with 4e-4
    exact = np.asarray(resnet_ntk(x, trained="last"))
    assert (np.abs(products.mean(axis=2) - exact) / error).max() < 4


def test_modes_add_up_and_hidden_is_the_two_layer_kernel_plus_one_half():
    x, y = rows(6), rows(4, seed=1)
    parts = {t: np.asarray(resnet_ntk(x, y, trained=t)) for t in ("all", "hidden", "last")}
    np.testing.assert_allclose(parts["all"], parts["hidden"] + parts["last"], rtol=1e-14)
    xa, ya = (np.hstack([v, np.ones((len(v), 1))]) for v in (x, y))
    np.testing.assert_allclose(
        parts["hidden"], np.asarray(relu_gram(xa, ya)) + 0.5, rtol=1e-13, atol=1e-14
    )


def test_matrix_is_symmetric_and_accepts_zero_rows():
    x = rows(5)
    x[2] = 0
    K = np.asarray(resnet_ntk(x))
    np.testing.assert_array_equal(K, K.T)
    assert K[2, 2] == pytest.approx(0.5 + 0.5 + (0.5 + 1 / math.pi + 0.5), rel=1e-14)
    with pytest.raises(ValueError, match="`trained` must be a known name"):
        resnet_ntk(x, trained="outer")
