# SPDX-License-Identifier: Apache-2.0
"""Every operation that networks are made of, against nested forward derivatives in float64."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax import lax

from unlazy.taylor import terms

ORDER = 6
# Nested derivatives take seconds to compile for these, and minutes for some at order 6.
COSTLY = (
    *("cholesky", "triangular solve", "eigvalsh", "inv", "solve", "det", "cumprod", "prod", "scan"),
    *("cumulative logsumexp", "cumulative max", "hypot", "attention", "fft", "logaddexp", "std"),
    *("layer norm", "softmax", "log_softmax", "logsumexp", "matmul of both", "moving power"),
    *("mish", "var", "norm", "quotient", "einsum", "sinc", "convolution", "while_loop", "ndtr"),
    *("log_ndtr", "log_sigmoid", "softplus", "digamma", "gammaln", "fori_loop", "xlogy"),
)


def matrix(x):
    """A symmetric positive definite matrix made of twelve numbers."""
    A = x.reshape(3, 4)
    return A @ A.T + 2 * jnp.eye(3, dtype=x.dtype)


def scanned(x):
    def body(h, row):
        h = jnp.tanh(h + row)
        return h, h**2

    return jnp.concatenate([part.ravel() for part in lax.scan(body, x[:3], x.reshape(4, 3))])


def counted(x):
    return lax.fori_loop(0, 3, lambda i, h: jnp.sin(h) * (1 + i), x)


def until_large(x):
    return lax.while_loop(lambda h: jnp.sum(h**2) < 1e3, lambda h: h * 1.5 + h**2, x)


@jax.custom_jvp
def with_jvp(x):
    return jnp.sin(x)


@with_jvp.defjvp
def with_jvp_rule(primals, tangents):
    return with_jvp(*primals), jnp.cos(primals[0]) * tangents[0]


@jax.custom_vjp
def with_vjp(x):
    return jnp.exp(x)


with_vjp.defvjp(lambda x: (jnp.exp(x), x), lambda x, g: (g * jnp.exp(x),))


def attention(x):
    q = x.reshape(4, 3)
    return jax.nn.softmax(q @ jnp.exp(q).T) @ jnp.sin(q)


def _pair(x):
    return jnp.sin(x).reshape(3, 4), jnp.outer(x[:4], x[4:8])


def windows(image):
    """The entries of all windows (2, 3) at strides (1, 2), padded as "SAME" pads."""
    padded = jnp.pad(image, ((0, 1), (0, 1)), constant_values=-2.0)
    return jnp.stack([padded[i : i + 3, j : j + 3 : 2] for i in range(2) for j in range(3)])


IMAGE = (1, 3, 4, 1)

# Functions of twelve numbers in (0.1, 0.9).
SMOOTH: dict[str, Callable] = {
    **{
        name: getattr(jnp, name)
        for name in (
            *(
                "tanh",
                "sin",
                "cos",
                "tan",
                "exp",
                "exp2",
                "expm1",
                "log",
                "log1p",
                "sqrt",
                "square",
            ),
            *("arctan", "arcsin", "arccos", "arcsinh", "arctanh", "sinh", "cosh", "cbrt", "sinc"),
            *("reciprocal", "cumsum", "cumprod", "prod", "var", "std", "sort"),
        )
    },
    **{
        name: getattr(jax.nn, name)
        for name in (
            *("relu", "softplus", "gelu", "silu", "sigmoid", "log_sigmoid", "mish", "elu", "selu"),
            *("celu", "relu6", "leaky_relu", "hard_tanh", "soft_sign", "squareplus", "softmax"),
            *("log_softmax", "logsumexp", "hard_sigmoid"),
        )
    },
    **{
        name: getattr(jax.scipy.special, name)
        for name in ("erf", "erfc", "erfinv", "gammaln", "digamma", "log_ndtr", "ndtr")
    },
    "exact gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "acosh": lambda x: jnp.arccosh(1.5 + x),
    "rsqrt": lax.rsqrt,
    "xlogy": lambda x: jax.scipy.special.xlogy(x, x),
    "logaddexp": lambda x: jnp.logaddexp(x, x[::-1] ** 2),
    "atan2": lambda x: jnp.arctan2(x, x[::-1] + 1),
    "hypot": lambda x: jnp.hypot(x, x[::-1]),
    "fifth power": lambda x: x**5,
    "inverse square": lambda x: x**-2,
    "float power": lambda x: x**2.5,
    "float power of negatives": lambda x: (-x) ** 3.0,
    "array power": lambda x: jnp.power(-x, jnp.full(12, 3)),
    "moving power": lambda x: x ** x[::-1],
    "quotient": lambda x: jnp.sin(x) / (1 + x[::-1] ** 2),
    "abs": lambda x: jnp.abs(jnp.sin(7 * x)),
    "clip": lambda x: jnp.clip(x, 0.3, 0.6) ** 2,
    "clamp": lambda x: lax.clamp(0.3, x, 0.6) ** 2,
    "maximum": lambda x: jnp.maximum(jnp.sin(5 * x), x[::-1]),
    "minimum": lambda x: jnp.minimum(jnp.sin(5 * x), x[::-1]),
    "relu3 by where": lambda x: jnp.where(x > 0.5, (x - 0.5) ** 3, 0),
    "max": lambda x: jnp.max(jnp.sin(5 * x.reshape(3, 4)), axis=1),
    "min": lambda x: jnp.min(jnp.sin(5 * x.reshape(3, 4)), axis=0),
    "argmax gather": lambda x: jnp.take(jnp.sin(x), jnp.argmax(x)) * x,
    "top_k": lambda x: lax.top_k(jnp.sin(5 * x), 3)[0],
    "matmul of both": lambda x: jnp.sin(x.reshape(3, 4)) @ jnp.exp(x.reshape(4, 3)),
    "einsum": lambda x: jnp.einsum("ij,ik,jk->i", x.reshape(3, 4), *_pair(x)),
    "norm": jnp.linalg.norm,
    "layer norm": lambda x: jax.nn.standardize(x.reshape(3, 4)),
    "attention": attention,
    "cholesky": lambda x: jnp.linalg.cholesky(matrix(x)),
    "solve": lambda x: jnp.linalg.solve(matrix(x), x[:3]),
    "inv": lambda x: jnp.linalg.inv(matrix(x)),
    "det": lambda x: jnp.linalg.det(matrix(x)),
    "eigvalsh": lambda x: jnp.linalg.eigvalsh(matrix(x)),
    "triangular solve": lambda x: lax.linalg.triangular_solve(
        jnp.tril(matrix(x)), matrix(x), lower=True, left_side=True
    ),
    "fft": lambda x: jnp.abs(jnp.fft.fft(x)[1:6]),
    "concatenate": lambda x: jnp.concatenate([x**2, jnp.ones(2, x.dtype), x]),
    "pad": lambda x: jnp.pad(x**2, 2, constant_values=1.5),
    "roll": lambda x: jnp.roll(x, 2) * x,
    "indexed": lambda x: x[jnp.array([0, 3, 3])] * x[:3],
    "scatter add": lambda x: x.at[jnp.array([0, 0, 2])].add(x[:3] ** 2),
    "scatter set": lambda x: x.at[jnp.array([1, 2])].set(x[:2] ** 2),
    "scatter mul": lambda x: x.at[jnp.array([1, 2])].multiply(x[:2], unique_indices=True),
    "dynamic slice": lambda x: lax.dynamic_slice(x**2, (jnp.argmax(x) // 4,), (3,)),
    "dynamic update": lambda x: lax.dynamic_update_slice(x, x[:2] ** 2, (3,)),
    "convolution": lambda x: lax.conv_general_dilated(
        x.reshape(IMAGE),
        jnp.exp(x[:4]).reshape(2, 2, 1, 1),
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    ),
    "max pool": lambda x: lax.reduce_window(jnp.sin(5 * x), -jnp.inf, lax.max, (2,), (2,), "VALID"),
    "padded pool": lambda x: lax.reduce_window(
        jnp.sin(5 * x.reshape(3, 4)), -jnp.inf, lax.max, (2, 3), (1, 2), "SAME"
    ),
    "average pool": lambda x: lax.reduce_window(x**2, 0.0, lax.add, (2,), (2,), "VALID"),
    "cumulative max": lambda x: lax.cummax(jnp.sin(5 * x)),
    "cumulative logsumexp": lax.cumlogsumexp,
    "scan": scanned,
    "fori_loop": counted,
    "while_loop": until_large,
    "map": lambda x: lax.map(jnp.tanh, x),
    "cond": lambda x: lax.cond(jnp.sum(x) > 3, jnp.sin, jnp.exp, x),
    "switch": lambda x: lax.switch(jnp.argmax(x) % 3, [jnp.sin, jnp.cos, jnp.exp], x),
    "checkpoint": jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))),
    "jit": jax.jit(lambda x: jnp.sin(jnp.exp(x))),
    "vmap": jax.vmap(lambda x: jnp.sin(x) * x),
    "grad": jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 3)),
    "jvp": lambda x: jax.jvp(jnp.tanh, (x,), (x**2,))[1],
    "custom_jvp": with_jvp,
    "custom_vjp": lambda x: with_vjp(jnp.sin(x)),
    "stop_gradient": lambda x: lax.stop_gradient(x) * jnp.sin(x),
    "floor": lambda x: jnp.floor(5 * x) * x,
    "sign": lambda x: jnp.sign(x - 0.5) * x**2,
    "convert": lambda x: x.astype(jnp.float32).astype(x.dtype) * 0 + x**2,
    "nan_to_num": lambda x: jnp.nan_to_num(x**2),
}
# Where nested derivatives cannot be had, or not in full precision on every device.
INSTEAD: dict[str, Callable] = {
    "custom_vjp": lambda x: jnp.exp(jnp.sin(x)),
    "max pool": lambda x: jnp.max(jnp.sin(5 * x).reshape(6, 2), axis=1),
    "padded pool": lambda x: jnp.max(windows(jnp.sin(5 * x.reshape(3, 4))), axis=0),
}


def point(seed=0):
    key_x, key_d = jr.split(jr.key(seed))
    x = jr.uniform(key_x, (12,), minval=0.1, maxval=0.9)
    return x, jr.uniform(key_d, (12,), minval=-1.0, maxval=1.0)


# All of them compile for minutes: one in eight each time, the rest with the slow tests.
@pytest.mark.parametrize(
    "name",
    [
        name if k % 8 == 0 else pytest.param(name, marks=pytest.mark.slow)
        for k, name in enumerate(SMOOTH)
    ],
)
def test_terms_are_those_of_nested_jvp(name, nested_terms, x64):
    compare(name, 3 if name in COSTLY else ORDER, nested_terms)


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTLY)
def test_terms_to_order_six_are_those_of_nested_jvp(name, nested_terms, x64):
    compare(name, ORDER, nested_terms)


def compare(name, order, nested_terms):
    x, d = point()
    f = SMOOTH[name]
    oracle = INSTEAD.get(name, f)
    ours = terms(lambda w, _: f(w), x, d, None, order)
    theirs = jax.jit(lambda x, d: nested_terms(lambda w, _: oracle(w), x, d, None, order))(x, d)
    for k in range(order + 1):
        scale = np.max(np.abs(theirs[k])) + 1e-3
        np.testing.assert_allclose(ours[k], theirs[k], rtol=1e-9, atol=1e-9 * scale)
