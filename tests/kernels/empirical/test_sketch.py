# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.kernels import gradient_sketch
from unlazy.kernels.empirical import sketch as sketch_module
from unlazy.nets import combine, partition


def jacobian(f, params, x):
    arrays, frozen = partition(params, None)
    jac = jax.jit(jax.jacrev(lambda a: f(combine(a, frozen), x).reshape(x.shape[0], -1)))(arrays)
    flat = [np.asarray(g).reshape(*g.shape[:2], -1) for g in jax.tree.leaves(jac)]
    return np.concatenate(flat, axis=2)


@pytest.mark.parametrize("name", [pytest.param("conv_nchw", marks=pytest.mark.slow), "attention"])
def test_inner_products_of_two_sketches_estimate_the_kernel_with_the_stated_variance(
    name, networks
):
    case = networks.CASES[name]()
    x1, x2 = networks.samples(case, 3), networks.samples(case, 5, k=1)
    G1, G2 = jacobian(case.f, case.params, x1), jacobian(case.f, case.params, x2)
    K = np.einsum("iap,jbp->ijab", G1, G2)
    own1, own2 = (np.einsum("iap,iap->ia", G, G) for G in (G1, G2))
    fourth = np.einsum("iap,jbp->ijab", G1**2, G2**2)
    variance = own1[:, None, :, None] * own2[None, :, None, :] + K**2 - 2 * fourth
    D, key = 6000, jr.key(7)
    Z1, Z2 = (np.asarray(gradient_sketch(case.f, case.params, x, D, key=key)) for x in (x1, x2))
    draws = D * np.einsum("iad,jbd->ijabd", Z1, Z2)  # one estimate per direction, all independent
    # The mean of an entry is within 5 of its standard errors; of at most 135 entries none is beyond
    # but with probability 1e-4.
    assert np.all(np.abs(np.mean(draws, axis=-1) - K) < 5 * np.sqrt(variance / D))
    # The square of a product of two near-normal variables has a deviation of up to 7 of its mean.
    spread = np.mean((draws - K[..., None]) ** 2, axis=-1)
    np.testing.assert_allclose(spread, variance, rtol=5 * 7 / np.sqrt(D))


def test_the_sketch_is_the_gradient_times_signs_whatever_the_blocks(networks, x64, monkeypatch):
    # With 2^k directions of one parameter's gradient at a time: by linearity, the gradients of a
    # basis of inputs reveal the signs.
    def f(p, x):
        return jnp.concatenate([x @ p["W"], (x @ p["v"] ** 3)[:, None]], axis=1)

    params = {"W": networks.normal(0, 4, 2), "v": networks.normal(1, 4)}
    params = networks.double(params)
    x = jnp.eye(4)
    Z = np.asarray(gradient_sketch(f, params, x, 70, key=jr.key(1)))
    assert Z.shape == (4, 3, 70)
    signs = Z[:, :2] * np.sqrt(70)  # the gradient of output a at the i-th unit vector is W_ia alone
    np.testing.assert_allclose(np.abs(signs), 1, rtol=1e-12)
    assert abs(np.mean(signs)) < 5 / np.sqrt(signs.size)  # failure probability 6e-7
    other = networks.double(networks.normal(2, 5, 4))
    G = jacobian(f, params, other)
    v = np.linalg.lstsq(np.asarray(3 * params["v"][None, :] ** 2 * x), Z[:, 2], rcond=None)[0]
    expected = np.einsum("iap,pd->iad", G, np.concatenate([Z[:, :2].reshape(8, 70), v]))
    np.testing.assert_allclose(gradient_sketch(f, params, other, 70, key=jr.key(1)), expected)
    small = gradient_sketch(f, params, other, 70, memory=1e3, key=jr.key(1))
    np.testing.assert_allclose(small, expected)
    fewer = gradient_sketch(f, params, other, 33, key=jr.key(1))
    np.testing.assert_allclose(fewer * np.sqrt(33 / 70), expected[..., :33])
    assert not np.allclose(gradient_sketch(f, params, other, 70, key=jr.key(2)), expected)


def test_parameters_in_parts_have_signs_of_their_own(networks, x64, monkeypatch):
    case = networks.CASES["scaled_mlp"]()
    params, x = networks.double(case.params), networks.double(networks.samples(case, 3))
    monkeypatch.setattr(sketch_module, "_WORDS", 3)  # no part of a gradient fits into one
    D = 4096
    Z = np.asarray(gradient_sketch(lambda p, x: case.f(p, x), params, x, D, key=jr.key(1)))
    K = networks.dense_kernel(case.f, params, x)
    own = np.einsum("iiaa->ia", K)
    scale = np.sqrt((own[:, None, :, None] * own[None, :, None, :] + K**2) / D)
    gap = (np.einsum("iad,jbd->ijab", Z, Z) - K) / scale
    assert np.max(np.abs(gap)) < 5  # 36 entries: failure probability below 1e-4


def test_the_sum_of_outputs_is_the_sum_of_the_sketches(networks, x64):
    case = networks.CASES["mlp"]()
    params, x = networks.double(case.params), networks.double(networks.samples(case, 4))
    options: dict[str, Any] = {"trained": lambda path: "weight" in path, "key": jr.key(0)}
    each = gradient_sketch(case.f, params, x, 10, **options)
    one = gradient_sketch(case.f, params, x, 10, sum_of_outputs=True, **options)
    assert one.shape == (4, 1, 10)
    assert one.dtype == jnp.float64
    np.testing.assert_allclose(one[:, 0], np.sum(each, axis=1), rtol=1e-10)


def test_progress_counts_samples_and_wrong_arguments_are_named(no_shape_checker):
    def f(w, x):
        return x @ w

    seen: list[tuple[int, int]] = []
    options: dict[str, Any] = {"memory": 300, "progress": lambda *at: seen.append(at)}
    gradient_sketch(f, jnp.ones(3), jnp.ones((7, 3)), 8, key=jr.key(0), **options)
    assert seen[-1] == (7, 7)
    assert len(seen) > 1
    for change, message in (
        ({"dimension": 0}, "`dimension` must be an integer >= 1"),
        ({"key": 3}, "`key` must be one random key"),
        ({"x": jnp.full((2, 3), jnp.nan)}, "`x` must be finite"),
    ):
        arguments: dict[str, Any] = {"x": jnp.ones((2, 3)), "dimension": 4, "key": jr.key(0)}
        arguments |= change
        with pytest.raises(ValueError, match=message):
            gradient_sketch(f, jnp.ones(3), **arguments)
