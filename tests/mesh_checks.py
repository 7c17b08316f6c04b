# SPDX-License-Identifier: Apache-2.0
"""A script that computes on all devices of a mesh and on one, and prints how far they are apart.

Run by the fixtures `eight_devices` and `two_processes` of `conftest.py`, in processes of their own:
the number of devices is fixed when JAX starts. One script for all rooms, for a start takes seconds.
Arguments: none, or the address of a coordinator and the number of this process of two.
"""

import functools
import json
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

import unlazy as ul
from unlazy.core.meshes import to_host
from unlazy.kernels.streaming import streamed


def sample():
    x = jr.normal(jr.key(0), (48, 5))
    return x, jnp.sign(x[:, 0] * x[:, 1])


def apart(one, two):
    """The largest difference of two trees, relative to the largest entry of each array."""
    pairs = zip(jax.tree.leaves(to_host(one)), jax.tree.leaves(to_host(two)), strict=True)
    return max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)


def grid(mesh):
    x, y = sample()
    net = ul.nets.TwoLayer(inputs=5, width=16)

    def loss(params, batch):
        return jnp.mean((net(params, batch[0]) - batch[1]) ** 2)

    def run(**options):
        return ul.train.fit_grid(
            loss,
            jax.vmap(lambda key: net.init(key=key))(jr.split(jr.key(1), 3)),
            (x, jnp.stack([y, -y, y])),
            learning_rates=[0.01, 0.1, 1e4],
            weight_decays=[0, 1e-3],
            seeds=range(3),
            epochs=4,
            batch_size=16,
            params_axes="seed",
            data_axes=(None, "seed"),
            evaluate_every=2,
            key=jr.key(2),
            **options,
        )

    calls = []
    one = run()
    many = run(mesh=mesh, progress=lambda *done: calls.append(done))
    few = run(mesh=mesh, memory=2e4, keep="all")  # in several waves, 18 lanes on 4 or 8 devices
    return {
        "diverged": int(many.diverged.sum()),
        "same_divergence": bool(np.array_equal(one.diverged_epoch, many.diverged_epoch, True)),
        "loss": apart(many.loss[:2], one.loss[:2]),
        "waves": apart(few.loss[:2], one.loss[:2]),
        "kept": len(few.kept),
        "best": apart(many.best().params, one.best().params),
        "progress": calls[-1],
    }


def wide(net, mesh):
    data = sample()
    params = net.init(key=jr.key(3))
    spread = ul.nets.shard_neurons(params, mesh)

    def loss(params, batch):
        return jnp.mean((net(params, batch[0]).reshape(48, -1)[:, 0] - batch[1]) ** 2)

    def fit(params):
        return ul.train.fit(loss, params, data, steps=20, optimizer=optax.adam(0.01))

    one, many = fit(params), fit(spread)
    gradient = jax.jit(jax.grad(loss))
    text = gradient.lower(spread, data).compile().as_text() or ""
    return {
        "outputs": apart(net(spread, data[0]), net(params, data[0])),
        "gradient": apart(gradient(spread, data), gradient(params, data)),
        "trained": apart(many.params, one.params),
        "kernel": apart(
            ul.kernels.empirical_ntk_traced(net, spread, data[0]),
            ul.kernels.empirical_ntk_traced(net, params, data[0]),
        ),
        "neurons_per_device": [
            leaf.addressable_shards[0].data.shape[0]
            for leaf in (spread.W, gradient(spread, data).W, many.params.W)
        ],
        "gathers": text.count("all-gather("),
        "reductions": text.count("all-reduce("),
    }


def kernels(mesh):
    draw = np.random.default_rng(4)
    x = draw.normal(size=(300, 6))
    x[7], x[8], x[200] = x[3], -2 * x[4], x[5] + 1e-9  # parallel, antipodal, nearly parallel
    y, V = np.sign(x[:, 0]), draw.normal(size=(300, 2))
    kernel = functools.partial(ul.kernels.ntk, depth=2)
    H = ul.kernels.operator(kernel, x)
    K, few = np.asarray(H.dense()), np.arange(20, 190)  # no two of the few are parallel
    many = ul.kernels.operator(kernel, x, mesh=mesh)
    tight = ul.kernels.operator(kernel, x, memory=1e5, mesh=mesh)  # the matrix does not fit
    solution, exact = tight.solve(y, ridge=0.1), H.solve(y, ridge=0.1)
    top, eigenvalues = tight.top_eigen(2, key=jr.key(5)), np.linalg.eigvalsh(K)[::-1][:2]
    return {
        "matmat": apart(tight.matmat(V), K @ V),
        "matvec": apart(tight.matvec(y), K @ y),
        "dense": apart(many.dense(), K),
        "symmetric": bool(np.array_equal(many.dense(), many.dense().T)),
        "parallel": apart(many.dense()[[7, 8, 200], [3, 4, 5]], K[[7, 8, 200], [3, 4, 5]]),
        "diagonal": apart(tight.diagonal(), np.diagonal(K)),
        "block": apart(tight.block(slice(0, 9), slice(3, 99)), K[:9, 3:99]),
        "solve": apart(solution.value, exact.value),
        "methods": [solution.method, many.solve(y, ridge=0.1).method],
        "top_eigen": apart(top.values, eigenvalues),
        "trace": apart(tight.trace(key=jr.key(0)).value, np.trace(K)),
        "complexity": apart(
            ul.labels.complexity(tight.take(few), y[few]), ul.labels.complexity(H.take(few), y[few])
        ),
    }


def other_kernels(mesh):
    x, V = np.random.default_rng(7).normal(size=(200, 6)), np.ones((200, 2))
    images = ul.kernels.operator(_of_images, x.reshape(200, 2, 3), memory=1e5, mesh=mesh)
    net = ul.nets.TwoLayer(inputs=6, width=8)
    empirical = functools.partial(ul.kernels.empirical_ntk_traced, net, net.init(key=jr.key(6)))
    many = ul.kernels.operator(empirical, x, memory=1e5, mesh=mesh)
    return {
        "images": apart(images.matmat(V), _of_images(x, x) @ V),
        "empirical": apart(many.matmat(V), ul.kernels.operator(empirical, x).matmat(V)),
    }


def landmarks(mesh):
    """The products with some columns, of which each device has a part, and a whole regression."""
    draw = np.random.default_rng(8)
    x, points = draw.normal(size=(1100, 6)), draw.normal(size=(1500, 6))  # nine tiles, twelve
    chosen, (wide, few) = np.arange(3, 1100, 2), (draw.normal(size=(n, 2)) for n in (1100, 549))
    kernel = functools.partial(ul.kernels.ntk, depth=2)
    many, one = (streamed(kernel, x, dtype="float64", rows=128, mesh=to) for to in (mesh, None))
    large = ul.kernels.LargeKernelRegression(ul.kernels.relu_gram, ridge=0.1, landmarks=30)
    fits = [large.fit(x, wide + x[:, :2], tolerance=1e-6, mesh=where) for where in (mesh, None)]
    return {
        "columns": apart(many.columns(chosen, few), one.columns(chosen, few)),
        "transposed": apart(
            many.columns_transposed(chosen, wide), one.columns_transposed(chosen, wide)
        ),
        "squared": apart(many.columns_squared(chosen), one.columns_squared(chosen)),
        "cross": apart(many.cross(points, wide), one.cross(points, wide)),
        "regression": apart(*(fitted.predict(x[:20]) for fitted in fits)),
    }


def _of_images(x1, x2=None):
    flat = [x.reshape(len(x), -1) for x in (x1, x1 if x2 is None else x2)]
    return (1 + flat[0] @ flat[1].T) ** 2


def main(address=None, process="0"):
    if address:
        jax.distributed.initialize(address, num_processes=2, process_id=int(process))
    mesh = jax.make_mesh((jax.device_count() // 2, 2), ("a", "b"))  # both axes: all the devices
    report = {"devices": jax.device_count(), "processes": jax.process_count(), "grid": grid(mesh)}
    report["kernels"], report["landmarks"] = kernels(mesh), landmarks(mesh)
    report["two"] = wide(ul.nets.TwoLayer(inputs=5, width=64), mesh)
    if jax.process_count() == 1:
        report["kernels"] |= other_kernels(mesh)
        report["three"] = wide(ul.nets.ThreeLayer(inputs=5, widths=(64, 32)), mesh)
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":  # the suite's search for doctests imports this file
    main(*sys.argv[1:])
