# SPDX-License-Identifier: Apache-2.0
"""Products by NumPy's library are the products, and kernels hold them."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.kernels import empirical_ntk, empirical_ntk_traced
from unlazy.kernels.empirical import contraction
from unlazy.kernels.empirical.host_products import is_on_host, product_on_host


@pytest.mark.parametrize("columns", [1, 100, 2**14, 2**14 + 1, 90001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_in_parts_is_the_product(columns, dtype):
    rng = np.random.default_rng(columns)
    one, two = (rng.standard_normal((rows, columns)).astype(dtype) for rows in (3, 5))
    exact = one.astype(np.float64) @ two.astype(np.float64).T
    K = product_on_host(one, two)
    assert K.dtype == dtype
    np.testing.assert_allclose(K, exact, atol=32 * np.finfo(dtype).eps * columns**0.5)
    with_itself = product_on_host(one, one)
    np.testing.assert_array_equal(with_itself, with_itself.T)
    np.testing.assert_allclose(with_itself, product_on_host(one, one.copy()), rtol=1e-4)


def test_axes_beyond_the_first_are_one_row(getkey):
    one, two = jr.normal(getkey(), (3, 4, 50)), jr.normal(getkey(), (2, 4, 50))
    np.testing.assert_allclose(
        product_on_host(one, two), jnp.einsum("iak,jak->ij", one, two), rtol=1e-4, atol=1e-4
    )


def test_long_sums_of_positive_terms_keep_their_digits():
    """Added one by one, ten million terms in float32 are off by up to half."""
    g = np.full((2, 10**7), 0.3, np.float32)
    exact = 10**7 * float(g[0, 0]) ** 2
    np.testing.assert_allclose(product_on_host(g, g), exact, rtol=1e-5)


def test_which_products_are_made_there(monkeypatch):
    few = jnp.zeros((100, 3, 3000))
    assert is_on_host(few, traced=True)  # 100 rows of 9000 columns
    assert not is_on_host(few, traced=False)  # 300 rows of 3000
    assert not is_on_host(jnp.zeros((300, 3, 9000)), traced=False)  # many
    assert not is_on_host(few[:, :, :1000], traced=True)  # short
    assert not is_on_host(few.astype(jnp.bfloat16), traced=True)
    seen = []
    jax.jit(lambda g: seen.append(is_on_host(g, traced=True)))(few)
    assert seen == [False]  # not known yet
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not is_on_host(few, traced=True)


def network(w, x):
    """Two convolutions with many positions, whose gradients are long, and a short head."""
    for kernel in w["conv"]:
        x = jnp.tanh(jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME"))
    return jnp.mean(x, axis=(2, 3)) @ w["head"]


@pytest.fixture
def problem(getkey):
    kernels = [jr.normal(getkey(), shape) / 9 for shape in ((32, 3, 3, 3), (32, 32, 3, 3))]
    w = {"conv": kernels, "head": jr.normal(getkey(), (32, 2))}
    return w, jr.normal(getkey(), (7, 3, 8, 8)), jr.normal(getkey(), (4, 3, 8, 8))


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("own", [True, False], ids=["one set", "two sets"])
@pytest.mark.parametrize("memory", [None, 4e6], ids=["at once", "in blocks"])
def test_kernels_hold_them(traced, own, memory, problem, monkeypatch):
    w, x1, x2 = problem
    made = []

    def counted(one, two):
        made.append(one.shape)
        return product_on_host(one, two)

    monkeypatch.setattr(contraction, "product_on_host", counted)
    kernel = empirical_ntk_traced if traced else empirical_ntk
    K = kernel(network, w, x1, None if own else x2, memory=memory)
    assert made
    jacobians = [
        jax.vmap(jax.jacrev(lambda w, x: network(w, x[None])[0]), (None, 0))(w, x)
        for x in (x1, x1 if own else x2)
    ]
    flat = [
        jnp.concatenate([g.reshape(*g.shape[:2], -1) for g in jax.tree.leaves(J)], axis=2)
        for J in jacobians
    ]
    expected = jnp.einsum("iap,jap->ij" if traced else "iap,jbp->ijab", *flat)
    np.testing.assert_allclose(K, expected, atol=2e-6 * float(jnp.max(jnp.abs(expected))))
