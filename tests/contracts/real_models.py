# SPDX-License-Identifier: Apache-2.0
"""Small models as users write them, in Flax Linen, Flax NNX and Equinox, all in float64.

Each is given twice: `f(params, x)` with everything that the library hands out (the variables, the
state, the model), and `plain(weights, x)` of its parameters alone, which the second route uses.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flax import nnx

WIDE = np.float64
IMAGE, SEQUENCE = (6, 6, 2), (4, 3)


class Case(NamedTuple):
    f: Callable[..., Any]
    params: Any
    end: Any  # where the parameters move to, and statistics with them
    plain: Callable[..., Any]
    weights: Any
    end_weights: Any
    shape: tuple[int, ...]  # of one input
    rounding: float = 1e-9  # of the model's own arithmetic

    def inputs(self, n, seed=0, scale=1.0):
        x = scale * np.random.default_rng(seed).standard_normal((n, *self.shape))
        return jnp.asarray(x, WIDE)


def relaxed(f):
    """Run a library's own arithmetic under the promotion that its users have."""

    def call(*arguments, **named):
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return f(*arguments, **named)

    return call


def shifted(tree, seed, scale=0.05):
    """The tree in float64, with its floats moved at random, upwards as variances are positive."""
    rng = np.random.default_rng(seed)

    def moved(leaf):
        if not eqx.is_inexact_array(leaf):
            return leaf
        return leaf.astype(WIDE) + scale * rng.uniform(0.5, 1.5, leaf.shape)

    return jax.tree.map(moved, tree)


# --- Flax Linen ------------------------------------------------------------------------------


class LinenCNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(3, (3, 3), param_dtype=WIDE)(x)
        x = nn.BatchNorm(use_running_average=True, param_dtype=WIDE)(x)
        x = nn.max_pool(nn.relu(x), (2, 2), strides=(2, 2))
        return nn.Dense(2, param_dtype=WIDE)(x.reshape(x.shape[0], -1))


class LinenTransformer(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm(param_dtype=WIDE)(nn.Dense(4, param_dtype=WIDE)(x))
        x = h + nn.MultiHeadDotProductAttention(2, param_dtype=WIDE)(h)
        x = x + nn.Dense(4, param_dtype=WIDE)(nn.gelu(nn.Dense(5, param_dtype=WIDE)(x)))
        return nn.Dense(2, param_dtype=WIDE)(nn.LayerNorm(param_dtype=WIDE)(x).mean(axis=1))


class LinenGRU(nn.Module):
    @nn.compact
    def __call__(self, x):
        states = jnp.asarray(nn.RNN(nn.GRUCell(4, param_dtype=WIDE))(x))
        return nn.Dense(2, param_dtype=WIDE)(states[:, -1])


def linen(model, shape):
    x = jnp.ones((2, *shape), WIDE)
    variables = relaxed(model.init)(jr.key(1), x)
    others = {name: shifted(variables[name], 2, 0.3) for name in variables if name != "params"}
    params = {"params": shifted(variables["params"], 3), **others}
    end = shifted(params, 4)
    plain = relaxed(lambda weights, x: model.apply({"params": weights, **others}, x))
    weights = (params["params"], end["params"])
    return Case(relaxed(model.apply), params, end, plain, *weights, shape)


# --- Flax NNX --------------------------------------------------------------------------------


class NnxCNN(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(2, 3, (3, 3), param_dtype=WIDE, rngs=rngs)
        self.norm = nnx.BatchNorm(3, use_running_average=True, param_dtype=WIDE, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, deterministic=True, rngs=rngs)
        self.last = nnx.Linear(27, 2, param_dtype=WIDE, rngs=rngs)

    def __call__(self, x):
        x = nnx.max_pool(nnx.relu(self.norm(self.conv(x))), (2, 2), strides=(2, 2))
        return self.last(self.dropout(x.reshape(x.shape[0], -1)))


class NnxTransformer(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, 4, param_dtype=WIDE, rngs=rngs)
        self.norm = nnx.LayerNorm(4, param_dtype=WIDE, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 4, param_dtype=WIDE, decode=False, rngs=rngs)
        self.last = nnx.Linear(4, 2, param_dtype=WIDE, rngs=rngs)

    def __call__(self, x):
        h = self.norm(self.first(x))
        return self.last((h + self.attention(h)).mean(axis=1))


class NnxGRU(nnx.Module):
    def __init__(self, rngs):
        self.cell = nnx.GRUCell(3, 4, param_dtype=WIDE, rngs=rngs)
        self.last = nnx.Linear(4, 2, param_dtype=WIDE, rngs=rngs)

    def __call__(self, x):
        start = jnp.zeros((x.shape[0], 4), x.dtype)
        return self.last(jax.lax.scan(self.cell, start, jnp.moveaxis(x, 1, 0))[0])


def of_nnx(kind, shape):
    model = relaxed(kind)(nnx.Rngs(0))
    graph, state = nnx.split(model)
    state = shifted(state, 5)
    end = shifted(state, 6)
    parts, weights, rest = nnx.split(nnx.merge(graph, state), nnx.Param, ...)
    _, end_weights, _ = nnx.split(nnx.merge(graph, end), nnx.Param, ...)
    f = relaxed(lambda state, x: nnx.merge(graph, state)(x))
    plain = relaxed(lambda weights, x: nnx.merge(parts, weights, rest)(x))
    return Case(f, state, end, plain, weights, end_weights, shape)


# --- Equinox ---------------------------------------------------------------------------------


class EqxCNN(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    pool: eqx.nn.MaxPool2d
    dropout: eqx.nn.Dropout
    last: eqx.nn.MLP

    def __init__(self, *, key):
        key_conv, key_last = jr.split(key)
        self.conv = eqx.nn.Conv2d(2, 3, 3, padding=1, key=key_conv)
        self.norm = eqx.nn.BatchNorm(3, "rows", inference=True, mode="ema")
        self.pool, self.dropout = eqx.nn.MaxPool2d(2, 2), eqx.nn.Dropout(0.5, inference=True)
        self.last = eqx.nn.MLP(27, 2, 4, 1, jax.nn.softplus, key=key_last)

    def __call__(self, x, state):
        x, _ = self.norm(self.conv(jnp.moveaxis(x, -1, 0)), state)
        return self.last(self.dropout(self.pool(jax.nn.relu(x)).ravel()))


class EqxTransformer(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    last: eqx.nn.Linear

    def __init__(self, *, key):
        key_first, key_attention, key_last = jr.split(key, 3)
        self.first = eqx.nn.Linear(3, 4, key=key_first)
        self.norm = eqx.nn.LayerNorm(4)
        self.attention = eqx.nn.MultiheadAttention(2, 4, key=key_attention)
        self.last = eqx.nn.Linear(4, 2, key=key_last)

    def __call__(self, x, state):  # noqa: ARG002  # as the model with a state is called
        h = jax.vmap(lambda row: self.norm(self.first(row)))(x)
        return self.last(jnp.mean(h + self.attention(h, h, h), axis=0))


class EqxGRU(eqx.Module):
    cell: eqx.nn.GRUCell
    last: eqx.nn.Linear

    def __init__(self, *, key):
        key_cell, key_last = jr.split(key)
        self.cell = eqx.nn.GRUCell(3, 4, key=key_cell)
        self.last = eqx.nn.Linear(4, 2, key=key_last)

    def __call__(self, x, state):  # noqa: ARG002
        def step(h, row):
            return self.cell(row, h), None

        return self.last(jax.lax.scan(step, jnp.zeros(4, x.dtype), x)[0])


def of_equinox(kind, shape):
    model, state = relaxed(eqx.nn.make_with_state(kind))(key=jr.key(7))
    params = (shifted(model, 8), shifted(state, 9, 0.3))
    end = shifted(params, 10)

    def f(params, x):
        return jax.vmap(params[0], in_axes=(0, None), axis_name="rows")(x, params[1])

    weights, rest = eqx.partition(params[0], eqx.is_inexact_array)
    plain = relaxed(lambda weights, x: f((eqx.combine(weights, rest), params[1]), x))
    end_weights = eqx.filter(end[0], eqx.is_inexact_array)
    return Case(relaxed(f), params, end, plain, weights, end_weights, shape)


CASES = {
    "linen CNN with batch norm": lambda: linen(LinenCNN(), IMAGE),
    "linen transformer": lambda: linen(LinenTransformer(), SEQUENCE),
    "linen GRU": lambda: linen(LinenGRU(), SEQUENCE),
    "nnx CNN with batch norm": lambda: of_nnx(NnxCNN, IMAGE),
    # Its softmax computes in float32.
    "nnx transformer": lambda: of_nnx(NnxTransformer, SEQUENCE)._replace(rounding=1e-5),
    "nnx GRU": lambda: of_nnx(NnxGRU, SEQUENCE),
    "equinox CNN with batch norm": lambda: of_equinox(EqxCNN, IMAGE),
    "equinox transformer": lambda: of_equinox(EqxTransformer, SEQUENCE),
    "equinox GRU": lambda: of_equinox(EqxGRU, SEQUENCE),
}
