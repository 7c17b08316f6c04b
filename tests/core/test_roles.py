# SPDX-License-Identifier: Apache-2.0
"""What is trained of a model, and what is not: statistics, settings, functions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import unlazy as ul
from unlazy.core.roles import Role, roles
from unlazy.nets import partition

P, A, S, F = Role.PARAMETER, Role.AUXILIARY, Role.STATISTIC, Role.FIXED
W, B = jnp.ones((2, 3)), jnp.zeros(3)


def test_only_the_params_of_linen_variables_are_trained():
    variables = {
        "params": {"Dense_0": {"kernel": W, "bias": B}, "scale": 2.0},
        "batch_stats": {"BatchNorm_0": {"mean": B, "var": jnp.ones(3)}},
        "cache": {"key": W, "index": jnp.array(3)},
    }
    expected = {
        "params": {"Dense_0": {"kernel": P, "bias": P}, "scale": P},
        "batch_stats": {"BatchNorm_0": {"mean": S, "var": S}},
        "cache": {"key": A, "index": F},
    }
    assert roles(variables) == expected
    assert roles([variables, W]) == [expected, P]  # as a part of more
    trained = [leaf is not None for leaf in jax.tree.leaves(partition(variables, None)[0])]
    assert len(trained) == 3


def test_a_mapping_with_the_key_params_beside_arrays_is_no_linen_model():
    assert roles({"params": {"w": W}, "log_sigma": B}) == {"params": {"w": P}, "log_sigma": P}
    assert roles({"params": {"w": W}}) == {"params": {"w": P}}


def test_running_statistics_are_known_by_pytorchs_names():
    state = {
        "bn1.weight": B,
        "bn1.running_mean": B,
        "bn1.running_var": B,
        "bn1.num_batches_tracked": np.array(7),
        "my_running_mean_model": B,  # a name that only contains one
    }
    found = roles(state)
    assert [found[name] for name in state] == [P, S, S, F, P]
    assert roles({"bn": {"running_mean": (B, B), "scale": B}})["bn"]["running_mean"] == (S, S)


class Normed(eqx.Module):
    """A model with all that Equinox keeps beside parameters."""

    weight: jax.Array
    rate: float
    activation: object
    norm: eqx.nn.BatchNorm
    layers: dict

    def __init__(self):
        self.weight, self.rate, self.activation = W, 0.5, jnp.tanh
        self.norm = eqx.nn.BatchNorm(3, "rows", mode="ema")
        self.layers = {"numpy": np.ones(2), "count": 3, "number": 1.5}


def test_the_state_and_the_numbers_of_equinox_are_not_trained():
    # Made without `make_with_state`, the running mean is still inside of the model.
    model = Normed()
    found = roles((model, 2.5))
    assert found[1] is P  # a number outside of a module
    assert (found[0].weight, found[0].rate, found[0].activation) == (P, F, F)
    assert found[0].layers == {"numpy": P, "count": F, "number": F}
    assert (found[0].norm.weight, found[0].norm.bias) == (P, P)
    assert S in jax.tree.leaves(found[0].norm.ema_state_index)
    assert P not in jax.tree.leaves(found[0].norm.ema_state_index)
    _, state = eqx.nn.make_with_state(Normed)()
    assert set(jax.tree.leaves(roles({"model": model, "state": state})["state"])) <= {S, F}


def test_only_the_params_of_an_nnx_state_are_trained():
    nnx = pytest.importorskip("flax.nnx")

    class Mask(nnx.Variable):
        pass

    model = nnx.Dict(
        norm=nnx.BatchNorm(3, rngs=nnx.Rngs(0)),
        lora=nnx.LoRAParam(W),
        mask=Mask(W),
        dropout=nnx.Dropout(0.5, rngs=nnx.Rngs(1)),
    )
    for tree in (model, nnx.state(model)):  # a module and its state
        words = {
            jax.tree_util.keystr(path, simple=True, separator="/").removesuffix("/value"): role
            for path, role in jax.tree_util.tree_leaves_with_path(roles(tree))
        }
        assert {name for name, role in words.items() if role is S} == {"norm/mean", "norm/var"}
        assert {name for name, role in words.items() if role is P} == {
            *("norm/scale", "norm/bias", "lora")
        }
        assert words["mask"] is A
        assert words["dropout/rngs/key"] is F


def test_a_filter_may_choose_another_collection_but_no_statistic():
    variables = {
        "params": {"w": W},
        "adapters": {"a": B},
        "batch_stats": {"norm": {"mean": B, "count": jnp.array(1)}},
    }
    chosen = partition(variables, lambda path: path.startswith("adapters"))[0]
    assert chosen["adapters"]["a"] is not None
    assert chosen["params"]["w"] is None
    for trained in (
        lambda path: "norm" in path,
        {"params": False, "adapters": True} | {"batch_stats": True},
    ):
        with pytest.raises(
            ValueError, match=r"leave out running statistics.*batch_stats/norm/mean\."
        ):
            partition(variables, trained)


def bias_only(path):
    return path.endswith("bias")


def with_lora(path):
    return "lora" in path


@pytest.mark.parametrize("trained", [bias_only, with_lora])
def test_adapters_and_biases_alone_give_the_kernel_of_their_columns(trained):
    keys = iter(jr.split(jr.key(0), 9))
    params = [
        {
            "kernel": jr.normal(next(keys), (d, m)) / d**0.5,
            "bias": jr.normal(next(keys), (m,)),
            "lora_a": jr.normal(next(keys), (d, 2)),
            "lora_b": jr.normal(next(keys), (2, m)),
        }
        for d, m in ((4, 6), (6, 3))
    ]

    def f(params, x):
        for layer in params:
            x = x @ layer["kernel"] + (x @ layer["lora_a"]) @ layer["lora_b"]
            x = jnp.tanh(x + jnp.broadcast_to(layer["bias"], x.shape))
        return x

    x1, x2 = jr.normal(next(keys), (5, 4)), 2 * jr.normal(jr.key(1), (3, 4))

    def columns(x):
        derivative = jax.jit(jax.jacrev(lambda p: f(p, x)))(params)
        jac = jax.tree_util.tree_leaves_with_path(derivative)
        kept = [leaf for path, leaf in jac if trained(path[-1].key)]
        assert 0 < len(kept) < len(jac)
        return jnp.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in kept], axis=2)

    expected = jnp.einsum("acp,bdp->abcd", columns(x1), columns(x2))
    mask = [{name: trained(name) for name in layer} for layer in params]
    for chosen in (trained, mask):
        kernel = ul.kernels.empirical_ntk(f, params, x1, x2, trained=chosen)
        np.testing.assert_allclose(kernel, expected, rtol=1e-4, atol=1e-4)
        traced = ul.kernels.empirical_ntk_traced(f, params, x1, x2, trained=chosen)
        np.testing.assert_allclose(traced, jnp.einsum("abcc->ab", expected), rtol=1e-4, atol=1e-4)


def loss_of(model, batch):
    return jnp.mean((jax.vmap(model)(batch[0]) - batch[1]) ** 2)


def test_every_trainer_takes_an_equinox_model_with_its_functions_and_settings():
    model = eqx.nn.Sequential(
        [
            eqx.nn.MLP(3, 4, 5, 1, key=jr.key(0)),
            eqx.nn.Lambda(jnp.tanh),
            eqx.nn.Dropout(0.5, inference=True),
            eqx.nn.Linear(4, 2, key=jr.key(1)),
        ]
    )
    data, key = (jr.normal(jr.key(2), (6, 3)), jr.normal(jr.key(3), (6, 2))), jr.key(4)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    slope = jax.jit(jax.grad(lambda arrays: loss_of(eqx.combine(arrays, rest), data)))(arrays)
    expected = jax.tree.map(lambda a, g: a - jnp.float32(0.1) * g, arrays, slope)
    plain = {"steps": 1, "learning_rate": 0.1, "key": key}
    trained = {
        "fit": ul.train.fit(loss_of, model, data, optimizer=optax.sgd(0.1), steps=1).params,
        "noisy": ul.train.noisy_sgd(loss_of, model, data, **plain).params,
        "perturbed": ul.train.perturbed_gradient_descent(loss_of, model, data, **plain).params,
        "grid": ul.train.fit_grid(loss_of, model, data, learning_rates=[0.1], epochs=1)
        .best("train")
        .params,
    }
    for params in trained.values():
        assert jax.tree.structure(params) == jax.tree.structure(model)
        assert params[1].fn is jnp.tanh
        assert isinstance(params[2].p, float)
        for ours, theirs in zip(
            jax.tree.leaves(eqx.filter(params, eqx.is_array)),
            jax.tree.leaves(expected),
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_setting_that_changed_is_compiled_anew():
    class Power(eqx.Module):
        w: jax.Array
        exponent: float

    def loss(model, x):
        return jnp.mean(model.w**model.exponent * x)

    def first_loss(exponent):
        model = Power(jnp.array(3.0), exponent)
        return ul.train.fit(loss, model, jnp.ones(2), optimizer=optax.sgd(0.0), steps=1).loss[0]

    assert [float(first_loss(exponent)) for exponent in (1.0, 2.0, 1.0)] == [3.0, 9.0, 3.0]


def test_curvature_leaves_settings_and_functions_alone():
    model = eqx.nn.Sequential(
        [
            eqx.nn.Lambda(lambda x: x.reshape(1, 4)),
            eqx.nn.MaxPool1d(2, 2),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(2, 1, key=jr.key(0)),
        ]
    )
    data = (jr.normal(jr.key(1), (5, 4)), jr.normal(jr.key(2), (5, 1)))
    ends = ul.curvature.extreme_eigenvalues(loss_of, model, data=data, key=jr.key(3))
    pooled = jnp.concatenate([data[0].reshape(5, 2, 2).max(-1), jnp.ones((5, 1))], axis=1)
    spectrum = np.linalg.eigvalsh(np.asarray(2 * pooled.T @ pooled / 5))
    np.testing.assert_allclose([ends.smallest, ends.largest], spectrum[[0, -1]], rtol=1e-4)
    assert ends.parameters == 3
    assert len(repr(ends).splitlines()) == 1
    direction = jax.tree.map(lambda a: jnp.ones_like(a) if eqx.is_array(a) else None, model)
    product = ul.curvature.hvp(loss_of, model, direction, data=data)
    expected = 2 * pooled.T @ pooled @ jnp.ones(3) / 5
    found = jnp.append(product[3].weight.ravel(), product[3].bias)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
