# SPDX-License-Identifier: Apache-2.0
import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.escape import direction_penalty, directions
from unlazy.nets import TwoLayer, TwoLayerParams


def mlp(w, x):
    return jnp.tanh(x @ w["W"]) @ w["A"]


def mlp_params(key, outputs=3):
    key_W, key_A = jr.split(key)
    return {"W": jr.normal(key_W, (4, 9)), "A": jr.normal(key_A, (9, outputs)) / 3}


def moved(w, key, size=0.5):
    leaves, tree = jax.tree.flatten(w)
    keys = jr.split(key, len(leaves))
    return tree.unflatten(
        [leaf + size * jr.normal(k, leaf.shape) for leaf, k in zip(leaves, keys, strict=True)]
    )


def test_for_a_two_layer_network_it_is_r3(x64, getkey):
    net = TwoLayer(5, 16, ul.activation("sigmoid", shift=1.5), init="gaussian", init_scale=0.5)
    params = net.init(key=getkey())
    x = ul.data.sphere(30, 5, radius=5**0.5, key=getkey())
    W = jr.normal(getkey(), (16, 5))
    geometry = directions(net, params, x, rank=6)
    penalty = direction_penalty(net, params, x, rank=6, trained="hidden")
    end = TwoLayerParams(W=params.W + W, a=params.a)
    assert float(penalty(end)) == pytest.approx(float(geometry.r3(W)), rel=1e-11)
    np.testing.assert_allclose(penalty.spectrum, geometry.spectrum, atol=1e-14)


def test_with_several_outputs_it_is_the_projected_linear_model(x64, getkey):
    w, x = mlp_params(getkey()), jr.normal(getkey(), (12, 4))
    end = moved(w, getkey())
    penalty = direction_penalty(mlp, w, x, rank=4)
    jac = jax.jit(jax.jacrev(lambda w: mlp(w, x)))(w)
    rows = {name: np.asarray(part).reshape(12, 3, -1) for name, part in jac.items()}
    K = sum(np.einsum("iap,jap->ij", part, part) for part in rows.values())
    U = np.linalg.eigh(K)[1][:, -4:]
    f_L = sum(part @ np.ravel(end[name] - w[name]) for name, part in rows.items())
    expected = np.sum((f_L - U @ (U.T @ f_L)) ** 2) / 12
    assert float(penalty(end)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("size", [3, *(pytest.param(b, marks=pytest.mark.slow) for b in (2, 7))])
def test_the_mean_over_all_batches_is_the_penalty(size, x64, getkey):
    # Exactly, and hence so is the mean of the gradients.
    w, x = mlp_params(getkey()), jr.normal(getkey(), (7, 4))
    end = moved(w, getkey())
    penalty = direction_penalty(mlp, w, x, rank=2)
    batches = jnp.array(list(itertools.combinations(range(7), size)))
    estimates = jax.jit(jax.vmap(lambda rows: penalty(end, rows)))(batches)
    assert float(jnp.mean(estimates)) == pytest.approx(float(penalty(end)), rel=1e-11)


def test_it_drops_into_an_optax_loop_and_holds_the_linear_part_back(getkey):
    import optax

    w0, x = mlp_params(getkey(), outputs=1), jr.normal(getkey(), (40, 4))
    y = jnp.sign(jr.normal(getkey(), (40, 1)))  # nothing but noise to fit
    penalty = direction_penalty(mlp, w0, x, rank=5)

    @jax.jit
    def train(lam):
        optimizer = optax.sgd(0.02, momentum=0.9)

        def step(carry, _):
            w, state = carry
            loss = lambda w: jnp.mean((mlp(w, x) - y) ** 2) + lam * penalty(w)  # noqa: E731
            updates, state = optimizer.update(jax.grad(loss)(w), state, w)
            return (optax.apply_updates(w, updates), state), None

        (w, _), _ = jax.lax.scan(step, (w0, optimizer.init(w0)), None, length=200)
        return penalty(w)

    free, held = float(train(0.0)), float(train(10.0))
    assert free > 0.01
    assert held < 0.1 * free


def test_the_rank_is_found_by_the_gap(getkey):
    w = mlp_params(getkey())
    x = 0.01 * jr.normal(getkey(), (30, 4)) * jnp.array([[1.0, 1.0, 1e-2, 1e-2]])
    assert direction_penalty(mlp, w, x).rank == 2


def test_frozen_parameters_do_not_count(x64, getkey):
    w, x = mlp_params(getkey()), jr.normal(getkey(), (10, 4))
    penalty = direction_penalty(mlp, w, x, rank=3, trained=lambda path: path == "A")
    only = {"W": moved(w, getkey())["W"], "A": w["A"]}
    assert float(penalty(only)) == 0.0
    assert float(penalty(moved(w, getkey()))) > 0


def test_bad_input_is_named(getkey, no_shape_checker):
    w, x = mlp_params(getkey()), jr.normal(getkey(), (10, 4))
    with pytest.raises(ValueError, match=r"`rank` must be below the number of inputs, 10"):
        direction_penalty(mlp, w, x, rank=10)
    with pytest.raises(ValueError, match="`rank` must be an integer >= 1"):
        direction_penalty(mlp, w, x, rank=0)
    with pytest.raises(ValueError, match=r"`rows` must be at least 2, got rows=\[1\]"):
        direction_penalty(mlp, w, x, rank=3)(w, jnp.array([1]))
    for method in ("__call__", "linear"):
        with pytest.raises(
            ValueError, match=r"`rows` must hold row numbers from -10 to 9, got 10 "
        ):
            getattr(direction_penalty(mlp, w, x, rank=3), method)(w, jnp.array([1, 10]))
    with pytest.raises(ValueError, match="`params` must have the shapes of the start"):
        direction_penalty(mlp, w, x, rank=3)({**w, "A": w["A"][:1]})
    with pytest.raises(ValueError, match="`x` must have at least 2 rows"):
        direction_penalty(mlp, w, x[:1])
