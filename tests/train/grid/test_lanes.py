# SPDX-License-Identifier: Apache-2.0
"""A lane of a grid is a single run: against the formula, PyTorch, optax and itself."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy.train import batch_order, fit_grid
from unlazy.train.grid import grid as program
from unlazy.train.grid import memory

KEY = jr.key(7)


def resnet(params, x):
    """RN-4, the three-layer residual network of the experiments, with a smooth activation."""
    out1 = jnp.tanh(x @ params["W"].T + params["b1"][None, :]) @ params["A"].T
    return out1 + jnp.tanh(out1 @ params["V"].T + params["b2"][None, :]) @ params["A"].T


def loss(params, batch):
    x, y = batch
    return jnp.mean(jnp.sum((resnet(params, x) - y) ** 2, axis=1))


def init(*, key, m=5, d=3, k=2):
    shapes = {"W": (m, d), "b1": (m,), "A": (k, m), "V": (m, k), "b2": (m,)}
    keys = jr.split(key, len(shapes))
    return {
        name: jr.normal(one, shape) / np.sqrt(m)
        for one, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def samples(n=12, d=3, k=2, *, key):
    key_x, key_y = jr.split(key)
    return jr.normal(key_x, (n, d)), jr.normal(key_y, (n, k))


def plain_sgd(loss, params, data, orders, *, lr, wd, batch_size, momentum=0.9, drops=None):
    """RN-32 written as it reads, one step after the other; the loss of every step too."""
    v = jax.tree.map(jnp.zeros_like, params)
    gradient = jax.jit(jax.value_and_grad(loss))
    losses = []
    for epoch, order in enumerate(orders):
        lr = lr * (drops or {}).get(epoch, 1.0)
        for start in range(0, len(order) - batch_size + 1, batch_size):
            rows = order[start : start + batch_size]
            value, g = gradient(params, jax.tree.map(lambda leaf, rows=rows: leaf[rows], data))
            v = jax.tree.map(lambda v, g, p: momentum * v + (g + wd * p), v, g, params)
            params = jax.tree.map(lambda p, v, lr=lr: p - lr * v, params, v)
            losses.append(float(value))
    return params, np.asarray(losses)


def largest_gap(tree, other):
    gaps = jax.tree.map(lambda a, b: float(jnp.max(jnp.abs(a - b))), tree, other)
    return max(jax.tree.leaves(gaps))


def grid(params, data, **options):
    options = {"epochs": 4, "batch_size": 5, "keep": "all", "key": KEY} | options
    return fit_grid(loss, params, data, **options)


@pytest.mark.parametrize(("workers", "own_batch"), [(1, False), (2, False), (1, True)])
def test_every_lane_follows_the_formula_of_sgd(x64, monkeypatch, workers, own_batch):
    monkeypatch.setattr(memory, "copies_pay", lambda: own_batch)  # as on an accelerator
    params, data = init(key=jr.key(0)), samples(n=12, key=jr.key(1))
    rates, decays, drops = [0.02, 0.1, 0.05], [0.0, 0.03], {2: 0.1, 3: 0.5}
    results = grid(
        params,
        data,
        learning_rates=rates,
        weight_decays=decays,
        seeds=[4, 0],
        drops=drops,
        workers=workers,
    )
    lane = 0
    for lr in rates:
        for wd in decays:
            for seed in (4, 0):
                orders = [batch_order(12, epoch=e, seed=seed, key=KEY) for e in range(4)]
                expected, losses = plain_sgd(
                    loss, params, data, orders, lr=lr, wd=wd, batch_size=5, drops=drops
                )
                assert largest_gap(results.kept[lane], expected) < 1e-12
                place = np.unravel_index(lane, results.diverged.shape)
                means = losses.reshape(4, 2).mean(axis=1)  # 12 samples: two batches of five
                np.testing.assert_allclose(results.loss[place], means, rtol=1e-12)
                final = float(loss(expected, data))
                assert results.table()["train"][lane] == pytest.approx(final, rel=1e-11)
                lane += 1


def test_a_lane_of_a_float32_grid_is_a_single_run():
    params, data = init(key=jr.key(0)), samples(n=20, key=jr.key(1))
    options = {"epochs": 30, "batch_size": 5}
    together = grid(
        params, data, learning_rates=[0.01, 0.02], weight_decays=[0.0, 0.01, 0.1], **options
    )
    alone = grid(params, data, learning_rates=[0.02], weight_decays=[0.01], **options)
    # 120 steps of rounding; a wrong batch or rate shows in the first digit.
    assert largest_gap(together.kept[4], alone.kept[0]) < 1e-5


def test_the_losses_are_those_of_torch(x64):
    # torch 2.13, SGD(lr=0.05, momentum=0.9, weight_decay=0.02) and MultiStepLR([3], 0.1) in
    # float64 on the same full batches: the loss before each of six steps, and at the end.
    recorded = [1.433319321633, 1.244824259236, 1.036980180775]
    recorded += [0.920964575855, 0.91464893615, 0.908588812439]
    d, m, k, n = 3, 4, 2, 6

    def entries(*shape):
        return jnp.asarray(0.7 * np.sin(1.3 * np.arange(1, np.prod(shape) + 1)).reshape(shape))

    params = {
        "W": entries(m, d),
        "b1": 0.5 * entries(m),
        "A": entries(k, m),
        "V": entries(m, k),
        "b2": 0.3 * entries(m),
    }
    x = jnp.asarray(np.cos(0.7 * np.arange(n * d)).reshape(n, d))
    y = jnp.asarray(np.sin(0.4 * np.arange(n * k)).reshape(n, k))
    results = fit_grid(
        loss,
        params,
        (x, y),
        learning_rates=[0.05, 0.01],
        weight_decays=[0.02],
        epochs=6,
        drops={3: 0.1},
    )
    np.testing.assert_allclose(results.loss[0, 0, 0], recorded, atol=2e-12)
    assert results.final("train")[0, 0, 0] == pytest.approx(0.902727991051, abs=2e-12)


def test_optax_with_coupled_decay_is_the_built_in_rule(x64):
    def torch_sgd(lr, wd):
        return optax.chain(optax.add_decayed_weights(wd), optax.sgd(lr, momentum=0.9))

    params, data = init(key=jr.key(0)), samples(key=jr.key(1))
    options = {"learning_rates": [0.02, 0.1], "weight_decays": [0.0, 0.05], "drops": {2: 0.3}}
    ours = grid(params, data, **options)
    theirs = grid(params, data, optimizer=torch_sgd, **options)
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-12)
    assert largest_gap(ours.kept[3], theirs.kept[3]) < 1e-12


def test_an_optimizer_with_counters_trains_in_float32():
    params, data = init(key=jr.key(0)), samples(key=jr.key(1))

    def adamw(lr, wd):
        return optax.adamw(lr, weight_decay=wd)

    results = grid(params, data, optimizer=adamw, learning_rates=[0.01], weight_decays=[0.1])

    @jax.jit
    def step(current, state, batch):
        with jax.numpy_dtype_promotion("standard"):
            change, state = adamw(0.01, 0.1).update(jax.grad(loss)(current, batch), state, current)
        return optax.apply_updates(current, change), state

    state, current = adamw(0.01, 0.1).init(params), params
    for epoch in range(4):
        order = batch_order(12, epoch=epoch, key=KEY)
        for rows in (order[:5], order[5:10]):
            current, state = step(current, state, tuple(leaf[rows] for leaf in data))
    assert largest_gap(results.kept[0], current) < 1e-5


def test_without_momentum_there_is_no_velocity(x64):
    params, data = init(key=jr.key(0)), samples(key=jr.key(1))
    results = grid(params, data, learning_rates=[0.1], weight_decays=[0.1], momentum=0)
    orders = [batch_order(12, epoch=e, key=KEY) for e in range(4)]
    expected, _ = plain_sgd(loss, params, data, orders, lr=0.1, wd=0.1, batch_size=5, momentum=0.0)
    assert largest_gap(results.kept[0], expected) < 1e-13


def test_seeds_have_their_own_start_and_labels(x64):
    starts = [init(key=jr.key(i)) for i in range(3)]
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    x, _ = samples(key=jr.key(9))
    labels = jr.normal(jr.key(10), (3, 12, 2))
    options = {"learning_rates": [0.02, 0.1], "weight_decays": [0.0, 0.1]}
    results = grid(
        params,
        (x, labels),
        seeds=[5, 6, 5],
        params_axes="seed",
        data_axes=(None, "seed"),
        evaluate={"test": (x[:4], labels[:, :4])},
        **options,
    )
    for i, seed in enumerate((5, 6, 5)):
        alone = grid(
            starts[i],
            (x, labels[i]),
            seeds=[seed],
            evaluate={"test": (x[:4], labels[i, :4])},
            **options,
        )
        np.testing.assert_allclose(results.loss[:, :, i], alone.loss[:, :, 0], rtol=1e-11)
        np.testing.assert_allclose(
            results.final("test")[:, :, i], alone.final("test")[:, :, 0], rtol=1e-11
        )
        assert largest_gap(results.kept[9 + i], alone.kept[3]) < 1e-11


def test_what_is_not_trained_stays(x64):
    params, data = init(key=jr.key(0)), samples(key=jr.key(1))
    results = grid(
        params, data, learning_rates=[0.1], weight_decays=[0.1], trained=lambda path: path != "A"
    )
    assert largest_gap(results.kept[0]["A"], params["A"]) == 0
    assert largest_gap(results.kept[0]["W"], params["W"]) > 1e-3


def test_each_epoch_visits_each_sample_once_in_a_new_order():
    orders = [batch_order(50, epoch=e, seed=s, key=KEY) for e in range(3) for s in range(2)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == 6


def test_a_model_of_functions_and_arrays_trains():
    import equinox as eqx

    model = eqx.nn.MLP(3, 2, 8, 1, key=jr.key(0))  # has functions and None among its leaves

    def mlp_loss(model, batch):
        x, y = batch
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    data = samples(key=jr.key(1))
    results = fit_grid(mlp_loss, model, data, learning_rates=[0.01, 0.1], epochs=20)
    best = results.best("train")
    assert best.values["train"] < float(mlp_loss(model, data))
    assert float(mlp_loss(best.params, data)) == pytest.approx(best.values["train"], rel=1e-5)


def test_batches_are_copied_for_small_ones_alone(monkeypatch):
    seen = []

    def remember(plan, *rest, **options):
        seen.append(plan.own_batch)
        return run_chunks(plan, *rest, **options)

    run_chunks = program.run_chunks
    monkeypatch.setattr("unlazy.train.grid.grid.run_chunks", remember)
    monkeypatch.setattr(memory, "copies_pay", lambda: True)
    params, data = init(key=jr.key(0)), samples(n=12, key=jr.key(1))
    for size in (5, 9, None):  # 5 rows of 5 numbers, 9 of them, or no batches; 42 parameters
        grid(params, data, learning_rates=[0.1], batch_size=size, epochs=1)
    assert seen == [True, False, False]
