# SPDX-License-Identifier: Apache-2.0
"""Networks that use their parameters in different ways, and the kernel from dense Jacobians."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from unlazy.nets import TwoLayer


class Case(NamedTuple):
    f: Any
    params: Any
    shape: tuple[int, ...]  # of one sample
    layers: int  # how many leaves the layer-wise identity must find


def dense_jacobian(f, params, x, keep=lambda _: True):
    """Derivatives of all outputs by all chosen parameters, of shape (n, outputs, parameters)."""

    def chosen(path, leaf):
        return eqx.is_inexact_array(leaf) and keep(jax.tree_util.keystr(path))

    mask = jax.tree_util.tree_map_with_path(chosen, params)
    arrays, rest = eqx.partition(params, mask)

    @jax.jit
    def jacobian(x):
        jac = jax.jacrev(lambda a: f(eqx.combine(a, rest), x).reshape(x.shape[0], -1))(arrays)
        flat = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(jac)]
        return jnp.concatenate(flat, axis=2)

    return np.asarray(jacobian(x))


def dense_kernel(f, params, x1, x2=None, keep=lambda _: True):
    """The definition: contract the whole Jacobian."""
    J1 = dense_jacobian(f, params, x1, keep)
    J2 = J1 if x2 is None else dense_jacobian(f, params, x2, keep)
    return np.einsum("iap,jbp->ijab", J1, J2)


def normal(k, *shape):
    # By NumPy: nothing to compile for each shape.
    return jnp.asarray(np.random.default_rng(k).standard_normal(shape), jnp.float32)


def rows(model, x):
    return jax.vmap(model)(x)


def two_layer():
    net = TwoLayer(inputs=4, width=6)
    return Case(net, net.init(key=jr.key(0)), (4,), 2)


def mlp():
    return Case(rows, eqx.nn.MLP(4, 3, 5, 2, jnp.tanh, key=jr.key(1)), (4,), 6)


def scaled_mlp():
    """The NTK parametrisation, scaling weights here, outputs there, and one bias."""
    params = {"W1": normal(0, 5, 4), "b1": normal(1, 5), "W2": normal(2, 5, 2), "s": normal(3)}

    def f(p, x):
        h = jnp.tanh(x @ (p["W1"] / math.sqrt(4)).T + 0.3 * p["b1"][None, :])
        return p["s"] * jnp.einsum("io,ni->no", 2 * p["W2"], h) / jnp.sqrt(5.0)

    return Case(f, params, (4,), 3)


def bias_before_product():
    params = {"W": normal(0, 4, 4), "b": normal(1, 4), "v": normal(2, 4)}
    return Case(lambda p, x: jnp.sin((x + p["b"][None, :]) @ p["W"]) @ p["v"], params, (4,), 2)


def bias_over_rows():
    """A bias that several positions share; wide enough to contract the weight by its factors."""
    params = {"W": normal(0, 12, 12) / 3, "b": normal(1, 12), "V": normal(2, 24, 2)}

    def f(p, x):
        h = jnp.tanh(x @ p["W"] + p["b"][None, None, :])
        return h.reshape(x.shape[0], -1) @ p["V"]

    return Case(f, params, (2, 12), 2)


def square_bias():
    """A bias of the size of the layer, but transposed on its way."""
    params = {"W": normal(0, 4, 2, 2), "b": normal(1, 2, 2)}

    def f(p, x):
        z = jnp.tensordot(x, p["W"], 1) + p["b"].T[None]
        return (jnp.tanh(z) ** 2).reshape(x.shape[0], 4)

    return Case(f, params, (4,), 2)


def conv_nchw():
    class Net(eqx.Module):
        first: eqx.nn.Conv2d
        second: eqx.nn.Conv2d
        pool: eqx.nn.MaxPool2d
        last: eqx.nn.Linear

        def __call__(self, x):
            h = jax.nn.relu(self.first(x[None]))
            h = self.pool(jnp.tanh(self.second(h)))
            return self.last(h.ravel())

    k = jr.split(jr.key(3), 3)
    net = Net(
        eqx.nn.Conv2d(1, 3, 3, stride=2, padding=1, key=k[0]),
        eqx.nn.Conv2d(3, 2, (2, 3), padding=((0, 1), (2, 0)), dilation=(2, 1), key=k[1]),
        eqx.nn.MaxPool2d(2, 2),
        eqx.nn.Linear(4, 2, key=k[2]),
    )
    return Case(rows, net, (8, 7), 4)


def conv_nhwc():
    params = {"K": normal(0, 3, 3, 2, 4), "v": normal(1, 4, 2), "T": normal(2, 2, 2, 4, 3)}

    def f(p, x):
        spec = ("NHWC", "HWIO", "NHWC")
        h = jax.lax.conv_general_dilated(x, p["K"], (1, 2), "SAME", dimension_numbers=spec)
        h = jnp.tanh(h)
        up = jax.lax.conv_transpose(h, p["T"], (2, 2), "VALID", dimension_numbers=spec)
        return h.mean(axis=(1, 2)) @ p["v"] + jnp.cos(up).sum(axis=(1, 2))[:, :2]

    return Case(f, params, (4, 4, 2), 3)


def grouped_conv():
    params = {"K": normal(0, 4, 1, 3), "v": normal(1, 4)}

    def f(p, x):
        h = jax.lax.conv_general_dilated(x, p["K"], (1,), "VALID", feature_group_count=2)
        return jnp.tanh(h).sum(axis=2) @ p["v"]

    return Case(f, params, (2, 6), 1)


def shared_residual():
    params = {"W": normal(0, 4, 4) / 2, "v": normal(1, 4)}

    def f(p, x):
        for _ in range(3):
            x = x + jnp.tanh(x @ p["W"])
        return x @ p["v"]

    return Case(f, params, (4,), 2)


def shared_after_one_transpose():
    """One transpose, two products, one of them with another scale."""
    params = {"A": normal(0, 3, 6) / 2, "V": normal(1, 6, 3)}

    def f(p, x):
        At = p["A"].T
        h = x @ At
        return h + jnp.tanh(h @ p["V"].T) @ (At / 2)

    return Case(f, params, (6,), 2)


def unrolled():
    """More uses than rows: the gradient itself is smaller than its factors."""
    params = {"W": normal(0, 2, 2) / 2}

    def f(p, x):
        for _ in range(3):
            x = jnp.tanh(x @ p["W"])
        return x

    return Case(f, params, (2,), 0)


def shared_conv():
    """One kernel in two convolutions, whose inputs and outputs lie differently."""
    params = {"K": normal(0, 4, 4, 2, 2) / 2}

    def f(p, x):
        h = jax.lax.conv_general_dilated(x, p["K"], (1, 1), "SAME")
        h = jnp.transpose(jnp.tanh(h), (0, 2, 3, 1))
        spec = ("NHWC", "OIHW", "NHWC")
        out = jax.lax.conv_general_dilated(h, p["K"], (1, 1), "VALID", dimension_numbers=spec)
        return out[:, 0, 0, :3]

    return Case(f, params, (4, 2, 2), 1)


def tied():
    params = {"W": normal(0, 3, 4)}
    return Case(lambda p, x: jnp.tanh(x @ p["W"].T) @ p["W"], params, (4,), 0)


def attention():
    params = {name: normal(k, 3, 3) for k, name in enumerate(("Q", "K", "V"))}
    params |= {"gain": normal(4, 3), "heads": normal(5, 2, 3, 3), "table": normal(6, 7, 3)}

    def f(p, x):
        h = p["table"][x]
        q, k, v = (h @ p[name] for name in ("Q", "K", "V"))
        h = jax.nn.softmax(q @ jnp.swapaxes(k, 1, 2)) @ v * p["gain"][None, None, :]
        return jnp.einsum("nsi,hij->nj", h, p["heads"])

    return Case(f, params, (5,), 3)


def recurrent():
    params = {"W": normal(0, 3, 3), "U": normal(1, 3, 2), "v": normal(2, 3, 2)}

    def f(p, x):
        def step(h, row):
            return jnp.tanh(h @ p["W"] + row @ p["U"].T), None

        start = jnp.zeros((x.shape[0], 3), x.dtype)
        return jax.lax.scan(step, start, jnp.swapaxes(x, 0, 1))[0] @ p["v"]

    return Case(f, params, (4, 2), 1)


def nested_jits():
    params = {"W": normal(0, 4, 4), "V": normal(1, 4, 4), "unused": normal(2, 3), "v": normal(3, 4)}
    layer = jax.jit(lambda W, h: jax.nn.gelu(h @ W))

    def f(p, x):
        h = jax.checkpoint(lambda W, h: jnp.sin(h @ W))(p["V"], layer(p["W"], x))
        return layer(jnp.eye(4, dtype=x.dtype), h) @ p["v"]

    return Case(f, params, (4,), 3)


def linear_in_the_parameter():
    """Parameters that reach the output without meeting the input."""
    params = {"b": normal(0, 2), "W": normal(1, 3, 2)}
    return Case(lambda p, x: x @ p["W"] + p["b"][None, :] + p["b"][None, ::-1], params, (3,), 1)


CASES = {
    make.__name__: make
    for make in (
        *(two_layer, mlp, scaled_mlp, bias_before_product, bias_over_rows, square_bias),
        *(conv_nchw, conv_nhwc, grouped_conv, shared_residual, tied, attention, recurrent),
        *(shared_after_one_transpose, unrolled, shared_conv),
        *(nested_jits, linear_in_the_parameter),
    )
}


def samples(case, n, k=0):
    if case.shape == (5,):
        return jnp.asarray(np.random.default_rng(100 + k).integers(0, 7, (n, 5)), jnp.int32)
    return normal(100 + k, n, *case.shape)


def double(tree):
    return jax.tree.map(
        lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf, tree
    )
