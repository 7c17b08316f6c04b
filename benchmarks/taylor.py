# SPDX-License-Identifier: Apache-2.0
"""Taylor terms and models against a forward pass, and against nested forward derivatives.

What bounds order k: 2k + 1 products for each layer behind the first, and two for the first. The
recurrences of the activations are entrywise and hide behind them.
"""

import itertools
import math
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import interleaved
from unlazy.taylor import expand, terms

LIMIT = 1.3 * (2 * 6 + 1)  # forward passes that the terms to order 6 may take
COMPILE_LIMIT = 1 / 3  # of the time that nested derivatives take to compile at order 8


def mlp(params, x):
    for W, b in params[:-1]:
        x = jnp.tanh(x @ W + b)
    W, b = params[-1]
    return x @ W + b


def problem(n: int, sizes=(784, 512, 512, 512, 10)):
    rng = np.random.default_rng(0)

    def draw(*shape):
        return jnp.asarray(rng.standard_normal(shape) / math.sqrt(shape[0]), jnp.float32)

    params = [(draw(d, m), 0.1 * draw(m)) for d, m in itertools.pairwise(sizes)]
    delta = jax.tree.map(lambda p: 0.1 * draw(*p.shape), params)
    return params, delta, draw(n, sizes[0])


def nested(params, delta, x, order: int):
    """The sum of the terms by `jax.jvp` of `jax.jvp` of ..., as it is usually written."""

    def rest(function, k):
        value = function(params)
        if k == order:
            return value
        return value + rest(lambda p: jax.jvp(function, (p,), (delta,))[1], k + 1) / (k + 1)

    return rest(lambda p: mlp(p, x), 0)


def model(params, delta, x, order: int):
    return expand(mlp, params, order)(jax.tree.map(jnp.add, params, delta), x)


def compilation(function, *arguments) -> float:
    start = time.perf_counter()
    jax.jit(function).lower(*arguments).compile()
    return time.perf_counter() - start


def main(n: int = 256) -> bool:
    params, delta, x = problem(n)
    print(f"\ntaylor, MLP 784-512-512-512-10 of tanh, n = {n}, float32: seconds, forward passes")
    print(f"{'order':>5} {'terms':>8} {'passes':>7} {'model':>8} {'nested':>8} {'gradient':>9} ")
    within = True
    forward = jax.jit(mlp)
    for order in range(1, 7):
        compiled = jax.jit(partial(model, order=order))
        usual = jax.jit(partial(nested, order=order))
        gradient = jax.jit(jax.grad(lambda d, k=order: jnp.sum(model(params, d, x, k) ** 2)))
        times = interleaved(
            {
                "forward": lambda: forward(params, x),
                "terms": lambda k=order: terms(mlp, params, delta, x, k),
                "model": lambda f=compiled: f(params, delta, x),
                "nested": lambda f=usual: f(params, delta, x),
                "gradient": lambda f=gradient: f(delta),
            }
        )
        passes = times["terms"] / times["forward"]
        print(
            f"{order:5} {times['terms']:8.4f} {passes:7.2f} {times['model']:8.4f} "
            f"{times['nested']:8.4f} {times['gradient']:9.4f}"
        )
        if order == 6:
            within &= passes <= LIMIT
    print(f"limit {LIMIT:.1f} passes at order 6: {'within' if within else 'EXCEEDED'}")
    ours = compilation(partial(model, order=8), params, delta, x)
    theirs = compilation(partial(nested, order=8), params, delta, x)
    quick = ours <= COMPILE_LIMIT * theirs
    print(f"to compile order 8: {ours:.2f} s, nested {theirs:.2f} s, limit a third: ", end="")
    print("within" if quick else "EXCEEDED")
    return within and quick
