# SPDX-License-Identifier: Apache-2.0
import functools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import certificates, data, kernels
from unlazy.papers.allenzhu_li2019 import convolutional_kernel, recursive_kernel


def rows(n, d, seed=0):
    rng = np.random.default_rng([n, d, seed])
    return rng.standard_normal((n, d)) * rng.uniform(0.1, 5, (n, 1))


@pytest.mark.parametrize("layers", [1, 2, 7])
def test_recursive_kernels_have_their_closed_form(layers):
    x1, x2 = rows(4, 6), rows(5, 6, 1).astype(np.float32)
    u = [np.asarray(x, np.float64) for x in (x1, x2)]
    u = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in u]
    cosine = u[0] @ u[1].T
    p = layers
    expected = (p - (p - 1) * cosine) / (p + 1 - p * cosine)
    np.testing.assert_allclose(recursive_kernel(x1, x2, layers=p), expected, rtol=1e-13)
    K = recursive_kernel(x1, layers=p)
    np.testing.assert_array_equal(np.diag(K), 1)
    assert np.linalg.eigvalsh(K).min() > 0


def test_recursive_kernels_take_any_function():
    # cosh has no negative coefficient: the Gram matrix is positive. A layer more is a cosh more.
    x = rows(8, 3)
    K = recursive_kernel(x, layers=2, function=np.cosh)
    np.testing.assert_allclose(K, np.cosh(recursive_kernel(x, layers=1, function=np.cosh)))
    assert np.linalg.eigvalsh(K).min() > -1e-12
    np.testing.assert_allclose(np.diag(K), math.cosh(math.cosh(1)))
    with pytest.raises(ValueError, match="`function` must map an array to a finite one"):
        recursive_kernel(x, function=lambda u: np.full(u.shape, np.nan))
    with pytest.raises(ValueError, match="`x1` must have no row of zeros"):
        recursive_kernel(np.zeros((2, 3)))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("trained", ["all", "last"])
def test_a_window_of_all_positions_is_a_dense_network(layers, trained):
    # Every position then sees the same: `kernels.ntk` with readout, whose ReLU has no factor 2.
    x1, x2 = rows(5, 4), rows(3, 4, 1)
    x1[0, 2] = 0.0
    found = convolutional_kernel(x1, x2, window=4, layers=layers, trained=trained)
    dense = kernels.ntk(x1, x2, depth=layers, weight_variance=1.0, trained=trained)
    np.testing.assert_allclose(found, 2.0**layers * np.asarray(dense), rtol=1e-12)


def network(params, x, window):
    """One convolutional layer after another around a circle, and a dense readout; one input."""
    *hidden, a = params
    h = x[None]
    for W in hidden:
        views = jnp.stack([jnp.roll(h, -s, axis=1) for s in range(window)], axis=2)  # (c, d, q)
        z = jnp.einsum("ocq,cdq->od", W, views) / math.sqrt(window * h.shape[0])
        h = math.sqrt(2) * jnp.maximum(z, 0)
    return jnp.sum(a * h) / math.sqrt(a.size)


def test_wide_convolutional_networks_have_the_kernel():
    # Two layers, window 3, 256 channels, 12 starts. The entries scatter by about 6% per start, so
    # by 2% in the mean; a deviation of 10% of the largest entry has probability below 1e-5.
    d, q, c, starts = 6, 3, 256, 12
    x = rows(3, d, 5).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)

    @jax.jit
    def gram(key):
        keys = jr.split(key, 3)
        shapes = ((c, 1, q), (c, c, q), (c, d))
        params = [jr.normal(k, shape) for k, shape in zip(keys, shapes, strict=True)]
        grads = jax.vmap(jax.grad(network), in_axes=(None, 0, None))(params, jnp.asarray(x), q)
        return sum(jnp.einsum("i...,j...->ij", g, g) for g in grads)

    mean = np.mean([np.asarray(gram(jr.key(seed))) for seed in range(starts)], axis=0)
    limit = convolutional_kernel(x, window=q, layers=2)
    assert np.abs(mean - limit).max() < 0.1 * limit.max()
    assert np.abs(limit - limit.mean()).max() > 0.2 * limit.max()  # and no constant matrix


def test_pooled_kernels_do_not_see_shifts_and_are_means_over_them():
    x = rows(4, 5)
    options = {"window": 2, "layers": 2, "readout": "pooled"}
    K = convolutional_kernel(x, **options)
    np.testing.assert_allclose(convolutional_kernel(np.roll(x, 3, axis=1), x, **options), K)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    dense = convolutional_kernel(x, window=2, layers=2)
    assert np.linalg.eigvalsh(dense).min() > 0
    assert np.abs(dense - K).max() > 0.1
    # Near the diagonal, where a cosine would lose the angle: the kernel of nearly equal rows is
    # continuous, with slope kappa_0' of order one over the angle.
    near = x + 1e-9 * rows(4, 5, 3)
    change = np.diag(convolutional_kernel(x, near, window=2, layers=2)) - np.diag(dense)
    assert np.abs(change).max() < 1e-7


KERNELS = {
    "recursive": recursive_kernel,
    "deep recursive": functools.partial(recursive_kernel, layers=5),
    "convolutional": functools.partial(convolutional_kernel, window=4, layers=2),
    "one layer": convolutional_kernel,
    "pooled": functools.partial(convolutional_kernel, window=4, layers=2, readout="pooled"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_recursive_and_convolutional_kernels_fail_like_all_others(name):
    # Theorem 2 on d = 8, k = 3: half as many samples as the 56 targets, and every target is missed.
    # One layer of window 3 spans no more than the 33 parities within a window: fewer samples.
    n = 28 if name in ("recursive", "deep recursive", "convolutional") else 20
    x = np.asarray(data.cube(n, 8, key=jr.key(17)))
    # Samples that are shifts of each other give one function of a pooled kernel.
    orbits = {min(tuple(np.roll(row, s).tolist()) for s in range(8)) for row in x}
    dimension = len(orbits) if name == "pooled" else None
    found = certificates.kernel(KERNELS[name], x, degree=3, dimension=dimension)
    assert found.fraction_bad == 1.0


def test_bad_arguments_are_named():
    x = rows(2, 3)
    with pytest.raises(ValueError, match="`window` must be at most the 3 inputs, got window=4"):
        convolutional_kernel(x, window=4)
    with pytest.raises(ValueError, match="`readout` must be a known name"):
        convolutional_kernel(x, readout="mean")
    with pytest.raises(ValueError, match="`layers` must be an integer"):
        recursive_kernel(x, layers=0)
