# SPDX-License-Identifier: Apache-2.0
"""empirical_ntk against the products that bound it, and against contracting the Jacobian.

What bounds the traced kernel of a two-layer network: x x^T and B B^T, of which symmetry saves three
eighths, and the forward pass x W^T, another half of both. A full kernel of c outputs needs a
product of n c rows for each layer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from benchmarks.timing import first_call, interleaved
from unlazy.kernels import empirical_ntk, empirical_ntk_traced
from unlazy.nets import TwoLayer

LIMIT = 2.0  # times the two products, for the two-layer network with its hidden layer trained


class Problem(NamedTuple):
    name: str
    kernel: Callable
    f: Callable
    params: Any
    x: jax.Array
    options: dict
    with_jacobian: bool  # small enough to contract the Jacobian as well


class SmallCNN(eqx.Module):
    """Two 3x3 convolutions, average pooling and a dense layer of ten outputs."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    last: eqx.nn.Linear

    def __init__(self, key, channels: int = 32, size: int = 14):
        key_first, key_second, key_last = jr.split(key, 3)
        self.first = eqx.nn.Conv2d(1, channels, 3, padding=1, key=key_first)
        self.second = eqx.nn.Conv2d(channels, channels, 3, padding=1, key=key_second)
        self.last = eqx.nn.Linear(channels * (size // 2) ** 2, 10, key=key_last)

    def __call__(self, x):
        h = jax.nn.relu(self.first(x[None]))
        h = jax.nn.relu(self.second(h))
        c, rows, columns = h.shape
        h = h.reshape(c, rows // 2, 2, columns // 2, 2).mean(axis=(2, 4))
        return self.last(h.ravel())


def over_rows(model, x):
    return jax.vmap(model)(x)


def problems() -> list[Problem]:
    net = TwoLayer(inputs=784, width=2048)
    params = net.init(key=jr.key(0))
    x = jr.normal(jr.key(1), (1000, 784)) / 28
    mlp = eqx.nn.MLP(784, 10, 512, 3, activation=jnp.tanh, key=jr.key(2))
    images = jr.normal(jr.key(3), (100, 14, 14))
    hidden = {"trained": "hidden"}
    return [
        Problem("two-layer hidden", empirical_ntk_traced, net, params, x, hidden, False),
        Problem("two-layer all", empirical_ntk_traced, net, params, x, {}, False),
        Problem("MLP", empirical_ntk, over_rows, mlp, x[:200], {}, False),
        Problem("MLP, n = 20", empirical_ntk, over_rows, mlp, x[:20], {}, True),
        Problem("CNN", empirical_ntk, over_rows, SmallCNN(jr.key(4)), images, {}, True),
    ]


@jax.jit
def two_products(x, B):
    return x @ x.T, B @ B.T


def main() -> bool:
    x, B = jr.normal(jr.key(5), (1000, 784)), jr.normal(jr.key(6), (1000, 2048))
    print("\nempirical_ntk, float32: seconds; products are those of n = 1000 with d and m columns")
    print(f"{'network':18} {'ours':>8} {'products':>9} {'ratio':>6} {'jacobian':>9} {'first':>6}")
    within = True
    for name, kernel, f, params, inputs, options, with_jacobian in problems():

        def ours(kernel=kernel, f=f, params=params, inputs=inputs, **more):
            return kernel(f, params, inputs, **more)

        calls = {
            "ours": lambda ours=ours, options=options: ours(**options),
            "products": lambda: two_products(x, B),
        }
        if with_jacobian:
            calls["jacobian"] = lambda ours=ours: ours(implementation="jacobian")
        first = first_call(calls["ours"])
        times = interleaved(calls, rounds=5)
        ratio = times["ours"] / times["products"]
        jacobian = f"{times['jacobian']:9.3f}" if with_jacobian else f"{'':9}"
        print(
            f"{name:18} {times['ours']:8.3f} {times['products']:9.3f} {ratio:6.2f} "
            f"{jacobian} {first:6.2f}"
        )
        if name == "two-layer hidden":
            within &= ratio <= LIMIT
    print(f"limit {LIMIT} for the two-layer network: {'within' if within else 'EXCEEDED'}")
    return within
