# SPDX-License-Identifier: Apache-2.0
"""Kernels, grids and a wide network on 1, 2, 4 and 8 devices: work per device, traffic and time.

Strong scaling keeps the problem, weak scaling the work per device. The devices are virtual, parts
of one processor: times are processor seconds, summed over its cores. Where devices add no work of
their own, those of strong scaling stay level and those of weak scaling grow with the devices. The
work of each device and what devices send each other are those of real ones. What bounds it: the
most loaded device, and one sum over all devices per product.
"""

import json
import math
import os
import re
import subprocess
import sys
import time

COUNTS = (1, 2, 4, 8)
LANDMARKS = 512
# Times the processor seconds of one device, for the same product on eight: on two cores 2.1 was
# measured, of which much is waiting of eight threads for each other.
LIMIT = 3.0
COLLECTIVES = re.compile(r" = \(?(\w+)\[([\d,]*)\][^=]* (?:all-reduce|all-gather|all-to-all)\(")


def main(n: int = 4096, d: int = 64, lanes: int = 16) -> bool:
    rows = [_measured(devices, n, d, lanes) for devices in COUNTS]
    print(f"\noperator.matmat, n = {n}, d = {d}, 4 columns; weak: n = {n} sqrt(devices / 8)")
    print("devices  tiles/device  sums/product  bytes/sum   strong s     weak s")
    for row in rows:
        print(
            f"{row['devices']:7} {row['tiles_per_device']:13} {row['collectives']:13}"
            f" {row['bytes']:10} {row['strong']:10.3f} {row['weak']:10.3f}"
        )
    print(f"\nlandmark preconditioner, n = {n}, d = {d}, {LANDMARKS} landmarks")
    print("devices  blocks/device        C'C s  product s")
    for row in rows:
        print(
            f"{row['devices']:7} {row['blocks_per_device']:14} {row['square']:12.3f}"
            f" {row['inverse']:10.3f}"
        )
    print(f"\nfit_grid, {lanes} lanes; weak: {lanes} / 8 lanes per device")
    print("devices  lanes/device  collectives   strong s     weak s")
    for row in rows:
        print(
            f"{row['devices']:7} {row['lanes_per_device']:13} {0:12} {row['grid_strong']:10.3f}"
            f" {row['grid_weak']:10.3f}"
        )
    print("\na gradient of a two-layer network, 16384 neurons, 256 samples")
    print("devices  neurons/device  sums  bytes/sum    seconds")
    for row in rows:
        print(
            f"{row['devices']:7} {row['neurons_per_device']:15} {row['net_sums']:5}"
            f" {row['net_bytes']:10} {row['net']:10.4f}"
        )
    within = rows[-1]["strong"] <= LIMIT * rows[0]["strong"]
    within = within and all(row["collectives"] <= 1 and row["net_sums"] <= 1 for row in rows)
    print(f"limit {LIMIT}, one sum per product: {'within' if within else 'EXCEEDED'}")
    return within


def _measured(devices: int, n: int, d: int, lanes: int) -> dict:
    """The figures of one number of devices, in a process of its own."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-m", "benchmarks.mesh_scaling", *map(str, (n, d, lanes))]
    run = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def _figures(n: int, d: int, lanes: int) -> dict:
    import jax

    mesh = jax.make_mesh((jax.device_count(),), ("devices",))
    few = int(n * math.sqrt(mesh.size / COUNTS[-1]))
    return {
        "devices": mesh.size,
        **_kernel(mesh, n, d),
        **_preconditioner(mesh, n, d),
        "weak": _kernel(mesh, few, d)["strong"],
        "lanes_per_device": math.ceil(lanes / mesh.size),
        "grid_strong": _grid(mesh, lanes),
        "grid_weak": _grid(mesh, lanes * mesh.size // COUNTS[-1]),
        **_network(mesh),
    }


def _kernel(mesh, n: int, d: int) -> dict:
    import numpy as np

    from unlazy.core.float64 import float64
    from unlazy.kernels import operator, relu_gram, streaming

    draw = np.random.default_rng(0)
    V = draw.normal(size=(n, 4))
    # Tiles of 128 rows for all numbers of devices.
    gram = operator(relu_gram, draw.normal(size=(n, d)), memory=7e6, mesh=mesh).tiles.spread
    assert gram is not None
    tiles = math.comb(gram.blocks + 1, 2)
    with float64():
        sums = gram.tiling.place(np.zeros((mesh.size, len(gram.x), 4)), gram.tiling.spread())
        text = streaming._total.lower(sums).compile().as_text()
    found = _collectives(text)
    return {
        "tiles_per_device": math.ceil(tiles / mesh.size),
        "collectives": len(found),
        "bytes": max(found, default=0),
        "strong": _seconds(lambda: gram.matmat(V)),
    }


def _preconditioner(mesh, n: int, d: int) -> dict:
    """Of `LargeKernelRegression`: what its devices share of the set-up, and of a product."""
    import jax.numpy as jnp
    import numpy as np

    from unlazy.core.float64 import float64
    from unlazy.kernels import relu_gram
    from unlazy.kernels.landmarks import LandmarkPreconditioner
    from unlazy.kernels.streaming import streamed

    draw = np.random.default_rng(0)
    gram = streamed(relu_gram, draw.normal(size=(n, d)), rows=128, mesh=mesh)
    inverse = LandmarkPreconditioner.from_samples(gram, LANDMARKS, ridge=0.1)
    with float64():
        r = jnp.asarray(draw.normal(size=(n, 4)))
    return {
        "blocks_per_device": math.ceil(gram.blocks / mesh.size),
        "square": _seconds(lambda: gram.columns_squared(inverse.chosen)),
        "inverse": _seconds(lambda: inverse(r)),
    }


def _grid(mesh, lanes: int) -> float:
    import jax.numpy as jnp
    import jax.random as jr
    import numpy as np

    from unlazy.nets import TwoLayer
    from unlazy.train import fit_grid

    net = TwoLayer(inputs=32, width=256)
    x = jr.normal(jr.key(0), (512, 32))
    data, params = (x, jnp.sign(x[:, 0])), net.init(key=jr.key(1))

    def loss(params, batch):
        return jnp.mean((net(params, batch[0]) - batch[1]) ** 2)

    rates = np.geomspace(1e-3, 1e-1, lanes)
    options = {"epochs": 20, "batch_size": 64, "keep": "none", "mesh": mesh, "key": jr.key(2)}
    return _seconds(lambda: fit_grid(loss, params, data, learning_rates=rates, **options))


def _network(mesh) -> dict:
    import jax
    import jax.numpy as jnp
    import jax.random as jr

    from unlazy.nets import TwoLayer, shard_neurons

    net = TwoLayer(inputs=64, width=16384)
    params = shard_neurons(net.init(key=jr.key(0)), mesh)
    x = jr.normal(jr.key(1), (256, 64))
    gradient = jax.jit(jax.grad(lambda params: jnp.mean((net(params, x) - 1) ** 2)))
    found = _collectives(gradient.lower(params).compile().as_text())
    return {
        "neurons_per_device": params.W.addressable_shards[0].data.shape[0],
        "net_sums": len(found),
        "net_bytes": max(found, default=0),
        "net": _seconds(lambda: gradient(params)),
    }


def _collectives(text: str | None) -> list[int]:
    """The bytes of what each collective operation of a compiled program gives."""
    sizes = {"f64": 8, "f32": 4}
    found = COLLECTIVES.findall(text or "")
    return [sizes[kind] * math.prod(map(int, filter(None, s.split(",")))) for kind, s in found]


def _seconds(call, rounds: int = 3) -> float:
    import jax

    times = []  # in processor seconds
    for _ in range(rounds + 1):  # the first compiles
        start = time.process_time()
        jax.block_until_ready(call())
        times.append(time.process_time() - start)
    return sorted(times[1:])[rounds // 2]


if __name__ == "__main__":
    print(json.dumps(_figures(*map(int, sys.argv[1:]))))
