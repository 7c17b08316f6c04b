# SPDX-License-Identifier: Apache-2.0
"""train.fit of a CNN beside the loop that one writes by hand: one compiled step, called in turn.

What bounds both: the convolutions and their gradients. On a processor XLA computes a convolution in
a loop 30 to 50 times slower than alone unless its axes are in one order (`core.convolutions`).
"""

import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from unlazy.train import fit

LIMIT = 1.3  # times the loop by hand
_CHANNELS = (1, 32, 64)


def loss(params: dict[str, jax.Array], data: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Cross-entropy of two 3x3 convolutions with pools and a dense layer, 28 by 28 images."""
    x, y = data
    for layer in range(2):
        kernel = params[f"W{layer}"]
        numbers = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)
        x = jax.nn.relu(x + params[f"b{layer}"])
        n, h, w, c = x.shape
        x = x.reshape(n, h // 2, 2, w // 2, 2, c).mean((2, 4))
    logits = x.reshape(x.shape[0], -1) @ params["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def _params() -> dict[str, jax.Array]:
    rng, params = np.random.default_rng(0), {}
    for layer in range(2):
        inputs, outputs = _CHANNELS[layer : layer + 2]
        W = rng.standard_normal((3, 3, inputs, outputs)) / np.sqrt(4.5 * inputs)
        params |= {f"W{layer}": jnp.asarray(W, jnp.float32), f"b{layer}": jnp.zeros(outputs)}
    head = rng.standard_normal((49 * 64, 10)) / 56
    return params | {"head": jnp.asarray(head, jnp.float32)}


def _by_hand(optimizer: optax.GradientTransformation, params, data, steps: int, batch: int):
    @jax.jit
    def step(params, state, key):
        rows = jr.choice(key, len(data[1]), (batch,), replace=False)
        gradient = jax.grad(loss)(params, jax.tree.map(lambda leaf: leaf[rows], data))
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state

    def run():
        trained, state = params, optimizer.init(params)
        for key in jr.split(jr.key(0), steps):
            trained, state = step(trained, state, key)
        return jax.block_until_ready(trained)

    return run


def main(steps: int = 200, batch: int = 64) -> bool:
    x, y = jr.normal(jr.key(1), (1024, 28, 28, 1)), jr.randint(jr.key(2), (1024,), 0, 10)
    params, optimizer = _params(), optax.sgd(0.05)

    def by_fit():
        history = fit(
            loss,
            params,
            (x, y),
            optimizer=optimizer,
            steps=steps,
            batch_size=batch,
            key=jr.key(0),
            record_every=10,
        )
        return history.params

    calls = {"by hand": _by_hand(optimizer, params, (x, y), steps, batch), "train.fit": by_fit}
    print(f"\ntraining a CNN, {steps} steps of {batch} samples: seconds of the first call, then")
    seconds = {}
    for name, call in calls.items():
        times = []
        for _ in range(3):
            start = time.perf_counter()
            jax.block_until_ready(call())
            times.append(time.perf_counter() - start)
        seconds[name] = min(times[1:])
        print(f"{name:10} {times[0]:7.2f} {seconds[name]:7.2f}")
    ratio = seconds["train.fit"] / seconds["by hand"]
    print(f"{ratio:.2f} times by hand, limit {LIMIT}")
    return ratio <= LIMIT
