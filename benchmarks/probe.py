# SPDX-License-Identifier: Apache-2.0
"""A probe with its defaults, called once per epoch, against the epoch: a Flax CNN on images.

An epoch is 60,000 images on an accelerator and 10,000 on a CPU, in batches of 128. The images are
MNIST where `UNLAZY_DATA` has it, else noise of its shape: neither time depends on what they show.
On a CPU the time that the process computes is compared, as other processes may be running; on an
accelerator the time that passes.
"""

import statistics
import time
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import unlazy as ul
from unlazy.core.errors import UnlazyError

LIMIT = 0.10  # of the time of an epoch
BATCH, ROUNDS = 128, 3


class CNN(nn.Module):
    """Two convolutions and a hidden layer."""

    @nn.compact
    def __call__(self, x):
        x = nn.max_pool(nn.relu(nn.Conv(32, (3, 3))(x)), (2, 2), (2, 2))
        x = nn.max_pool(nn.relu(nn.Conv(64, (3, 3))(x)), (2, 2), (2, 2))
        x = nn.relu(nn.Dense(128)(x.reshape(len(x), -1)))
        return nn.Dense(10)(x)


def images(n: int):
    try:
        task = ul.data.load(
            "mnist", classes=tuple(range(10)), n_train=n, n_test=2, key=jax.random.key(0)
        )
        x, y = np.asarray(task.x_train), np.argmax(task.y_train, axis=1)
        return x.reshape(n, 28, 28, 1).astype(np.float32) * 28, y
    except (UnlazyError, OSError):
        rng = np.random.default_rng(0)
        return rng.standard_normal((n, 28, 28, 1)).astype(np.float32), rng.integers(0, 10, n)


def trainer(f, optimizer, *, in_one_program: bool):
    """One epoch, as fast as the device allows.

    An accelerator is fastest with one program per epoch. On a CPU the convolutions of XLA are many
    times slower inside a loop, and a program per step is.
    """

    def loss(params, x, y):
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(f(params, x), y))

    def step(carry, x, y):
        params, state = carry
        update, state = optimizer.update(jax.grad(loss)(params, x, y), state, params)
        return optax.apply_updates(params, update), state

    @partial(jax.jit, donate_argnums=0)
    def at_once(carry, x, y, order):
        return jax.lax.scan(lambda c, rows: (step(c, x[rows], y[rows]), None), carry, order)[0]

    one = jax.jit(step, donate_argnums=0)

    def one_by_one(carry, x, y, order):
        for rows in order:
            carry = one(carry, x[rows], y[rows])
        return carry

    return at_once if in_one_program else one_by_one


def measured(n: int, clock) -> tuple[dict[str, float], str]:
    """Median seconds of an epoch and of a call, those to make the probe, and the last record."""
    x, y = images(n)
    net, optimizer = CNN(), optax.adam(1e-3)
    f, params = ul.laziness.from_linen(net, net.init(jax.random.key(0), x[:1]))
    begin = clock()
    probe = ul.Probe(f, params, x, y)
    times: dict[str, list[float]] = {"made": [clock() - begin], "epoch": [], "probe": []}
    x, y, carry = jnp.asarray(x), jnp.asarray(y), (params, optimizer.init(params))
    epoch = trainer(f, optimizer, in_one_program=jax.default_backend() != "cpu")
    for number in range(ROUNDS + 1):
        order = np.random.default_rng(number).permutation(n)[: n // BATCH * BATCH]
        begin = clock()
        carry = jax.block_until_ready(epoch(carry, x, y, jnp.asarray(order.reshape(-1, BATCH))))
        between = clock()
        probe(number, carry[0])
        if number:  # the first epoch compiles
            times["epoch"].append(between - begin)
            times["probe"].append(clock() - between)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    return seconds, str(probe.history.records[-1])


def main() -> bool:
    on_cpu = jax.default_backend() == "cpu"
    n, clock, kind = (10_000, time.process_time, "of computing") if on_cpu else (
        60_000, time.perf_counter, "on the clock")  # fmt: skip
    seconds, record = measured(n, clock)
    share = seconds["probe"] / seconds["epoch"]
    print(f"\nprobe, CNN 32-64-128 on {n} images of 28 x 28, defaults: seconds {kind}")
    print(
        f"epoch {seconds['epoch']:.3f}, call {seconds['probe']:.4f}, made in {seconds['made']:.1f}"
    )
    print(record)
    print(f"share {share:.1%}, limit {LIMIT:.0%}: {'within' if share <= LIMIT else 'EXCEEDED'}")
    return share <= LIMIT
