# SPDX-License-Identifier: Apache-2.0
"""fit_grid on the grid of the experiments, against its own lanes trained one after the other.

What bounds it: the products of a step, about 6 B m (d + 3k) operations a lane, of which the narrow
ones (k = 8 columns) run at a third of a core's peak. The comparison with PyTorch is among the
peers: `python -m benchmarks.peers fit_grid`, and `benchmarks.peers.grid_on_gpu` on a GPU.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.grid_problem import BATCH, EPOCHS, LANES, MOMENTUM, D, K, M, N, arrays
from benchmarks.peers.unlazy_grid import KEY, NAMES, loss, train_grid
from unlazy.train import fit_grid

LIMIT = 1.5  # times faster than the lanes one by one, compilation left out of both
ALONE = 8  # lanes that are trained alone; the rest is scaled up


def one_lane(inputs, lr: float, wd: float):
    return fit_grid(
        loss,
        {name: jnp.asarray(inputs[name]) for name in NAMES},
        (jnp.asarray(inputs["x"]), jnp.asarray(inputs["y"])),
        learning_rates=[lr],
        weight_decays=[wd],
        epochs=EPOCHS,
        batch_size=BATCH,
        momentum=MOMENTUM,
        key=KEY,
    )


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> bool:
    inputs = arrays(np.random.default_rng(0))
    first = seconds(lambda: train_grid(inputs))
    together = seconds(lambda: train_grid(inputs))
    one_lane(inputs, *LANES[0])
    alone = seconds(lambda: [one_lane(inputs, *lane) for lane in LANES[:ALONE]])
    alone *= len(LANES) / ALONE
    steps = len(LANES) * EPOCHS * (N // BATCH)
    operations = steps * 6 * BATCH * M * (D + 3 * K)
    print(f"\nfit_grid, {len(LANES)} lanes, {EPOCHS} epochs, {jax.devices()[0].platform}: seconds")
    print(f"{'together':10} {together:8.2f} {operations / together / 1e9:6.1f} Gflop/s")
    print(f"{'compiling':10} {first - together:8.2f}")
    print(f"{'one by one':10} {alone:8.2f}  {alone / together:.2f} times as long")
    within = alone >= LIMIT * together
    print(f"limit {LIMIT}: {'within' if within else 'EXCEEDED'}")
    return within
