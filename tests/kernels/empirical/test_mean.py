# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.kernels import empirical_ntk, empirical_ntk_traced, mean_over_starts, ntk
from unlazy.nets import TwoLayer


def test_mean_and_error_are_those_of_the_stack():
    keys = jr.split(jr.key(3), 7)
    stack = np.stack([np.asarray(1e3 + jr.normal(key, (4, 3)), np.float64) for key in keys])
    seen = []
    found = mean_over_starts(
        lambda x: x,
        lambda key: 1e3 + jr.normal(key, (4, 3)),
        draws=7,
        progress=lambda *at: seen.append(at),
        key=jr.key(3),
    )
    np.testing.assert_allclose(found.mean, stack.mean(axis=0), rtol=1e-14)
    expected = stack.std(axis=0, ddof=1) / np.sqrt(7)
    np.testing.assert_allclose(found.standard_error, expected, rtol=1e-9)
    assert found.draws == 7
    assert found.mean.dtype == np.float64
    assert seen == [(k, 7) for k in range(1, 8)]


def deep(width):
    """An MLP of two hidden layers in the NTK parametrisation, whose limit is `ntk`."""

    def f(params, x):
        h = x * np.float32(np.sqrt(2 / 3))
        for W in params[:-1]:
            h = jax.nn.relu(h @ W) * np.float32(np.sqrt(2 / W.shape[1]))
        return h @ params[-1]

    def init(key):
        keys = jr.split(key, 3)
        shapes = ((3, width), (width, width), (width, 1))
        return [jr.normal(k, shape) for k, shape in zip(keys, shapes, strict=True)]

    return f, init


def test_the_mean_over_starts_of_a_wide_network_is_the_limit_within_its_error():
    f, init = deep(256)
    x = jr.normal(jr.key(1), (4, 3))
    limit = np.asarray(ntk(x, depth=2, activation="relu", weight_variance=2.0, bias_variance=0.0))
    found = mean_over_starts(
        lambda params: empirical_ntk_traced(f, params, x), init, draws=60, key=jr.key(2)
    )
    scale = np.sqrt(np.outer(np.diagonal(limit), np.diagonal(limit)))
    error = np.asarray(found.standard_error)
    # Ten entries, each within 5 errors (Student's t of 59 degrees: failure probability 6e-5), and
    # a bias of order 1/256.
    assert np.all(np.abs(np.asarray(found.mean) - limit) < 5 * error + 2 * scale / 256)
    assert np.all(error < 0.05 * scale)


def test_the_error_falls_like_one_over_the_root_of_the_draws():
    net, x = TwoLayer(inputs=3, width=20), jr.normal(jr.key(0), (3, 3))

    def error(draws):
        found = mean_over_starts(
            jax.jit(lambda params: empirical_ntk_traced(net, params, x)),
            lambda key: net.init(key=key),
            draws=draws,
            key=jr.key(draws),
        )
        return float(np.mean(found.standard_error))

    # The deviation of one sample deviation from 25 draws is 14%, less in the mean over six entries;
    # the ratio is within 45% of 4 but with probability 1e-3.
    assert error(25) / error(400) == pytest.approx(4, rel=0.45)


def test_the_network_is_compiled_for_the_first_draw_alone(compilations):
    f, init = deep(8)
    x = jr.normal(jr.key(1), (4, 3))
    counts = []
    mean_over_starts(
        lambda params: empirical_ntk(f, params, x),
        init,
        draws=4,
        progress=lambda *_: counts.append(len(compilations)),
        key=jr.key(0),
    )
    assert counts[0] == counts[-1] > 0


def test_wrong_arguments_are_named(no_shape_checker):
    def init(key):
        return jr.normal(key, (3,))

    sizes = iter(range(2, 9))
    for change, message in (
        ({"draws": 1}, "`draws` must be an integer >= 2, got draws=1"),
        ({"key": 0}, "`key` must be one random key"),
        ({"kernel": lambda _: jnp.ones(next(sizes))}, r"`kernel` must give arrays of one shape"),
        ({"kernel": lambda _: "text"}, "kernel"),
    ):
        arguments: dict[str, Any] = {"kernel": lambda w: w, "init": init, "draws": 3}
        arguments |= {"key": jr.key(0)} | change
        with pytest.raises((ValueError, TypeError), match=message):
            mean_over_starts(**arguments)
