# SPDX-License-Identifier: Apache-2.0
"""The grid on an accelerator, by both libraries in one environment: for a machine with a GPU.

`python -m benchmarks.peers.grid_on_gpu [--lanes 12]`: PyTorch trains every lane, or as many as
said, spread over the grid, and its time is scaled up. Ours is timed with compilation.
"""

import argparse
import time

import jax
import numpy as np

from benchmarks.peers.grid_problem import LANES, arrays, comparable
from benchmarks.peers.unlazy_grid import orders, train_grid

LIMIT = 50.0


def ours(inputs: dict[str, np.ndarray]) -> tuple[float, np.ndarray]:
    times, losses = [], np.zeros(0)
    for _ in range(2):
        start = time.perf_counter()
        losses = train_grid(inputs).table()["train"]
        times.append(time.perf_counter() - start)
    print(f"fit_grid on {jax.devices()[0].device_kind}: {times[0]:.2f} s, again {times[1]:.2f} s")
    return times[0], losses


def torch(
    inputs: dict[str, np.ndarray], chosen: list[int], device: str
) -> tuple[float, np.ndarray]:
    from benchmarks.peers.torch_grid import train_lane

    train_lane({**inputs, "orders": inputs["orders"][:2]}, 0.01, 0.0, device)
    start = time.perf_counter()
    losses = [train_lane(inputs, *LANES[lane], device) for lane in chosen]
    seconds = (time.perf_counter() - start) / len(chosen)
    print(f"torch on {device}: {seconds:.2f} s a lane, {seconds * len(LANES):.1f} s for all")
    return seconds * len(LANES), np.asarray(losses)


def main() -> bool:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lanes", type=int, default=len(LANES))
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    inputs = {**arrays(np.random.default_rng(0)), "orders": orders()}
    chosen = np.linspace(0, len(LANES) - 1, options.lanes).round().astype(int).tolist()
    seconds, losses = ours(inputs)
    theirs, other = torch(inputs, chosen, options.device)
    print(f"{'learning rate':>13} {'weight decay':>12} {'ours':>10} {'torch':>10}")
    for lane, value in zip(chosen, other, strict=True):
        lr, wd = LANES[lane]
        print(f"{lr:13g} {wd:12g} {losses[lane]:10.6f} {value:10.6f}")
    gap = np.max(np.abs(comparable(losses[chosen]) - comparable(other)))
    print(f"largest difference {gap:.2g}; {theirs / seconds:.1f} times faster, limit {LIMIT:g}")
    return theirs / seconds >= LIMIT


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
