# SPDX-License-Identifier: Apache-2.0
"""Trainings of known laziness: what a report must call lazy, rich, of order 2."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

INPUTS, SAMPLES = 8, 40


class Run(NamedTuple):
    """A model at the start and at the end of a training."""

    f: Any
    start: Any
    end: Any
    x: Any
    y: Any


def data(seed: int):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((SAMPLES, INPUTS)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.sign(x[:, 0] * x[:, 1] + 0.3 * x[:, 2]).astype(np.float32)
    return x, y


def trained(f, start, x, y, rate: float, steps: int):
    """Full-batch descent on the mean of half the squared error, from outputs of zero."""
    zero = f(start, x)

    @jax.jit
    def run(params):
        def loss(params):
            return jnp.mean((f(params, x) - zero - y) ** 2) / 2

        def step(_, params):
            return jax.tree.map(lambda p, g: p - rate * g, params, jax.grad(loss)(params))

        return jax.lax.fori_loop(0, steps, step, params)

    return run(start)


def descended(f, params, x, y, rate: float):
    """One step of descent on the mean of half the squared error."""
    gradient = jax.grad(lambda params: jnp.mean((f(params, x) - y) ** 2) / 2)(params)
    return jax.tree.map(lambda p, g: p - rate * g, params, gradient)


def two_layer(width: int, seed: int, scale: float, activation=jnp.tanh):
    """f(x) = scale * sum_r a_r sigma(w_r x), and standard Gaussian parameters."""
    keys = jax.random.split(jax.random.key(seed))
    start = {
        "W": jax.random.normal(keys[0], (width, INPUTS)),
        "a": jax.random.normal(keys[1], (width,)),
    }

    def f(params, x):
        return scale * activation(x @ params["W"].T) @ params["a"]

    return f, start


def wide(seed: int) -> Run:
    """A very wide network in the scaling of the NTK."""
    x, y = data(seed)
    f, start = two_layer(8192, seed, 1 / math.sqrt(8192))
    return Run(f, start, trained(f, start, x, y, 1.0, 400), x, y)


def mean_field(seed: int) -> Run:
    """A narrow network in the mean-field scaling, whose rate grows with its width."""
    x, y = data(seed)
    f, start = two_layer(64, seed, 1 / 64)
    return Run(f, start, trained(f, start, x, y, 20.0, 1500), x, y)


def random_signs(seed: int) -> Run:
    """A movement whose signs are random: the linear term cancels, the quadratic one stays."""
    x, _ = data(seed)
    width = 16384
    f, start = two_layer(width, seed, 1 / math.sqrt(width), jax.nn.softplus)
    keys = jax.random.split(jax.random.key(seed + 100))
    signs = jax.random.rademacher(keys[0], (width, 1), jnp.float32)
    towards = jax.random.normal(keys[1], (1, INPUTS))
    positive = (start["a"] > 0).astype(jnp.float32)[:, None]
    delta = 2 * width**-0.25 * signs * positive * towards
    end = {"W": start["W"] + delta, "a": start["a"]}
    return Run(f, start, end, x, np.asarray(f(end, x) - f(start, x)))


def scaled(seed: int, gamma: float) -> Run:
    """A network whose outputs are divided by gamma: the smaller, the lazier."""
    x, y = data(seed)
    f, start = two_layer(256, seed, 1 / math.sqrt(256) / gamma)
    return Run(f, start, trained(f, start, x, y, min(gamma**2, 3 * gamma), 800), x, y)


def at_start(seed: int) -> Run:
    """A network before its training."""
    x, y = data(seed)
    f, start = two_layer(64, seed, 1 / 8)
    return Run(f, start, start, x, y)


def linear(seed: int) -> Run:
    """A linear model."""
    x, y = data(seed)
    start = {"w": jax.random.normal(jax.random.key(seed), (INPUTS,))}

    def f(params, x):
        return x @ params["w"]

    return Run(f, start, trained(f, start, x, y, 1.0, 300), x, y)
