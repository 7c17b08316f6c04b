# SPDX-License-Identifier: Apache-2.0
"""A short training of a small network, epoch by epoch, for the probe to watch."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from unlazy.laziness.probe import Probe

from . import ladder

CLASSES = 3


class Epochs(NamedTuple):
    """The parameters at the start and after each epoch, the samples and their classes."""

    points: list[Any]
    x: np.ndarray
    y: np.ndarray


def network(params, x):
    hidden = jax.nn.relu(x @ params["first"]["W"] + params["first"]["b"][None])
    return hidden @ params["last"]["W"]


def started(seed: int = 0, width: int = 16):
    keys = jax.random.split(jax.random.key(seed))
    return {
        "first": {
            "W": jax.random.normal(keys[0], (ladder.INPUTS, width)) / np.sqrt(ladder.INPUTS),
            "b": jnp.full(width, 0.1),
        },
        "last": {"W": jax.random.normal(keys[1], (width, CLASSES)) / np.sqrt(width)},
    }


@functools.cache
def epochs() -> Epochs:
    """Train with optax, in a loop that donates its parameters."""
    x, _ = ladder.data(0)
    y = np.argmax(x[:, :CLASSES], axis=1)
    optimizer = optax.adam(0.05)

    @functools.partial(jax.jit, donate_argnums=0)
    def epoch(carry):
        def step(carry, _):
            params, state = carry
            loss = optax.softmax_cross_entropy_with_integer_labels
            g = jax.grad(lambda p: jnp.mean(loss(network(p, x), y)))(params)
            update, state = optimizer.update(g, state, params)
            return (optax.apply_updates(params, update), state), None

        return jax.lax.scan(step, carry, None, length=5)[0]

    start = started()
    points = [jax.tree.map(np.array, start)]
    carry = jax.tree.map(jnp.array, (start, optimizer.init(start)))
    for _ in range(4):
        with jax.numpy_dtype_promotion("standard"):  # which optax asks for
            carry = epoch(carry)
        points.append(jax.tree.map(np.array, carry[0]))
    return Epochs([jax.tree.map(jnp.asarray, point) for point in points], x, y)


def watched() -> Probe:
    """A probe of all outputs that has seen every epoch."""
    points, x, y = epochs()
    probe = Probe(network, points[0], x, y, directions=CLASSES, order=2)
    for epoch, params in enumerate(points[1:], start=1):
        probe(epoch, params)
    return probe
