# SPDX-License-Identifier: Apache-2.0
"""Models of Equinox and Flax in one line: the library's own outputs, in evaluation mode."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flax import nnx

import unlazy as ul
from unlazy.laziness import from_equinox, from_linen, from_nnx

IMAGES = np.random.default_rng(0).standard_normal((4, 6, 6, 2)).astype(np.float32)


@pytest.fixture(autouse=True)
def as_users_run():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.BatchNorm(use_running_average=not train)(nn.Conv(3, (3, 3))(x))
        x = nn.Dropout(0.5, deterministic=not train)(jnp.tanh(x))
        return nn.Dense(2)(x.reshape(x.shape[0], -1))


class Nnx(nnx.Module):
    def __init__(self, rngs, width=3):
        self.conv = nnx.Conv(2, width, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(36 * width, 2, rngs=rngs)

    def __call__(self, x, scale=1.0):
        x = self.dropout(jnp.tanh(self.norm(self.conv(x))))
        return scale * self.last(x.reshape(x.shape[0], -1))


class Eqx(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self, key, width=3):
        key_conv, key_last = jr.split(key)
        self.conv = eqx.nn.Conv2d(2, width, 3, padding=1, key=key_conv)
        self.norm = eqx.nn.BatchNorm(width, "rows", mode="ema")
        self.dropout = eqx.nn.Dropout(0.5)
        self.last = eqx.nn.Linear(36 * width, 2, key=key_last)

    def __call__(self, x, state, key=None):
        x, state = self.norm(self.conv(jnp.moveaxis(x, -1, 0)), state)
        return self.last(self.dropout(jnp.tanh(x), key=key).ravel()), state


def linen(seed=0):
    module = Linen()
    variables = module.init(jr.key(seed), IMAGES, train=False)
    statistics = jax.tree.map(lambda v: v + 0.3 + seed, variables["batch_stats"])
    return module, {"params": variables["params"], "batch_stats": statistics}


def trained_nnx(seed=0):
    """A model that has seen data, in training mode."""
    model = Nnx(nnx.Rngs(seed))
    model(IMAGES)
    return model


def trained_equinox(seed=0):
    model, state = eqx.nn.make_with_state(Eqx)(jr.key(seed))
    keys = jr.split(jr.key(1), len(IMAGES))
    call = jax.vmap(model, in_axes=(0, None, 0), out_axes=(0, None), axis_name="rows")
    return model, call(IMAGES, state, keys)[1]


def of_linen(seed=0):
    module, variables = linen(seed)
    return from_linen(module, variables, train=False), (variables,)


def of_nnx(seed=0):
    model = trained_nnx(seed)
    return from_nnx(model), (model,)


def of_equinox(seed=0):
    model, state = trained_equinox(seed)
    return from_equinox(model, state), (model, state)


ADAPTED = {"linen": of_linen, "nnx": of_nnx, "equinox": of_equinox}


def test_linen_is_its_own_apply():
    module, variables = linen()
    f, params = from_linen(module, variables, train=False)
    np.testing.assert_array_equal(f(params, IMAGES), module.apply(variables, IMAGES, train=False))


def test_nnx_is_the_model_in_evaluation_mode_and_the_model_stays_in_training_mode():
    model = trained_nnx()
    f, params = from_nnx(model, scale=2.0)
    found = f(params, IMAGES)
    assert not model.dropout.deterministic
    assert not model.norm.use_running_average
    model.eval()
    np.testing.assert_allclose(found, 2 * model(IMAGES), rtol=1e-6)


def test_equinox_is_the_model_in_inference_mode_row_by_row():
    model, state = trained_equinox()
    f, params = from_equinox(model, state, key=None)
    found = f(params, IMAGES)
    assert not model.dropout.inference
    quiet = eqx.nn.inference_mode(model)
    np.testing.assert_allclose(found[3], eqx.filter_jit(quiet)(IMAGES[3], state)[0], rtol=1e-5)


@pytest.mark.parametrize("library", ADAPTED)
def test_every_instrument_takes_the_pair_and_trains_no_statistics(library):
    (f, params), _ = ADAPTED[library]()
    K = ul.kernels.empirical_ntk_traced(f, params, IMAGES)
    trainable, frozen = ul.nets.partition(params, None)
    x = jnp.asarray(IMAGES)
    jac = jax.jacobian(lambda t: f(ul.nets.combine(t, frozen), x))(trainable)
    J = np.concatenate([np.reshape(leaf, (4, 2, -1)) for leaf in jax.tree.leaves(jac)], -1)
    assert J.shape[-1] == 54 + 3 + 6 + 216 + 2  # convolution, its bias, normalisation, last layer
    np.testing.assert_allclose(K, np.einsum("ncp,mcp->nm", J, J), rtol=1e-4)


@pytest.mark.parametrize("library", ADAPTED)
def test_another_snapshot_is_evaluated_with_its_own_statistics(library):
    adapted, _ = ADAPTED[library]()
    other, snapshot = ADAPTED[library](seed=1)
    end = adapted.params_of(*snapshot)
    np.testing.assert_allclose(adapted.f(end, IMAGES), other.f(other.params, IMAGES), rtol=1e-6)
    delta = ul.taylor.displacement(adapted.params, end)
    terms = ul.taylor.terms(adapted.f, adapted.params, delta, IMAGES, 1)
    np.testing.assert_allclose(terms[0], adapted.f(adapted.params, IMAGES), rtol=1e-5, atol=1e-6)
    assert terms.shape == (2, 4, 2)


def test_a_plain_equinox_model_needs_no_state():
    mlp = eqx.nn.MLP(3, "scalar", 4, 1, key=jr.key(0))
    adapted = from_equinox(mlp)
    x = jnp.ones((5, 3))
    np.testing.assert_array_equal(adapted.f(adapted.params, x), jax.vmap(mlp)(x))
    assert adapted.params_of(mlp).layers[0].weight is mlp.layers[0].weight


def test_a_snapshot_of_another_model_is_refused_by_path():
    adapted = from_nnx(Nnx(nnx.Rngs(0)))
    with pytest.raises(ValueError, match=r"`model` must be a snapshot .*shape \(4,\) at conv/bias"):
        adapted.params_of(Nnx(nnx.Rngs(0), width=4))
    module, variables = linen()
    adapted = from_linen(module, variables, train=False)
    with pytest.raises(ValueError, match="got nothing at batch_stats/BatchNorm_0/mean, not an arr"):
        adapted.params_of({"params": variables["params"]})
    mlp = eqx.nn.MLP(3, 2, 4, 1, key=jr.key(0))
    with pytest.raises(ValueError, match=r"at layers/0/weight, not an array of shape \(4, 3\)"):
        from_equinox(mlp).params_of(eqx.nn.MLP(3, 2, 5, 1, key=jr.key(0)))


def test_training_mode_is_refused_where_the_library_cannot_leave_it():
    module, variables = linen()
    f, params = from_linen(module, variables, train=True)
    with pytest.raises(ValueError, match=r"`module` must be in evaluation mode.*train=False"):
        f(params, IMAGES)
    model = nnx.BatchNorm(2, rngs=nnx.Rngs(0))
    f, params = from_nnx(model, use_running_average=False)
    with pytest.raises(ValueError, match="`model` must be in evaluation mode, got batch normal"):
        f(params, IMAGES)


@pytest.mark.usefixtures("no_shape_checker")
def test_what_is_no_model_is_refused_by_name():
    for wrong in (None, "text", {}, lambda x: x):
        with pytest.raises(TypeError, match=r"`model` must be an equinox\.Module"):
            from_equinox(wrong)
        with pytest.raises(TypeError, match=r"`model` must be a flax\.nnx\.Module"):
            from_nnx(wrong)
        with pytest.raises(TypeError, match=r"`module` must be a flax\.linen\.Module"):
            from_linen(wrong, {})
        with pytest.raises(TypeError, match="`variables` must be the collections of a Linen"):
            from_linen(nn.Dense(2), wrong)
    with pytest.raises(TypeError, match=r"`state` must be an equinox\.nn\.State or None"):
        from_equinox(eqx.nn.Identity(), state=1)
