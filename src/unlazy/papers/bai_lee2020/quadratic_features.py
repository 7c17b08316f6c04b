# SPDX-License-Identifier: Apache-2.0
"""Extreme eigenvalues of the weighted second moments that each neuron's quadratic term sees."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.activations.base import Activation
from unlazy.activations.base import activation as as_activation
from unlazy.core.checks import check_finite
from unlazy.core.float64 import float64
from unlazy.nets import TwoLayerParams
from unlazy.papers.shared.patterns import Inputs, check_network

_ENTRIES = 2**23  # of the products held at a time: 64 MB in float64


class Extremes(NamedTuple):
    """The ends of the spectrum of each matrix; eigenvectors are empty unless asked for."""

    low: Float64[np.ndarray, " q"]
    high: Float64[np.ndarray, " q"]
    v_low: Float64[np.ndarray, "q dim"]
    v_high: Float64[np.ndarray, "q dim"]


class Start(NamedTuple):
    """A start of the quadratic model in float64, each distinct neuron once."""

    x: Float64[Array, "n d"]
    W: Float64[Array, "q d"]  # the distinct neurons: the first half of a start made of twins
    a: Float64[np.ndarray, " m"]
    copies: int  # how many times each row of W occurs
    sigma: Activation


def checked_start(params0: TwoLayerParams, x: Inputs, activation: str | Activation) -> Start:
    """Raise unless the arguments fit; call it where x64 is on."""
    check_network(params0.W, x)
    check_finite(params0.a, "params0.a")
    W, a = np.asarray(params0.W, np.float64), np.asarray(params0.a, np.float64)
    if a.shape != (len(W),):
        raise ValueError(
            f"`params0.a` must have shape ({len(W)},), one weight a neuron, got "
            f"params0.a.shape={a.shape}."
        )
    half = len(W) // 2
    twins = len(W) % 2 == 0 and np.array_equal(W[:half], W[half:])
    distinct = W[:half] if twins else W
    with float64():
        return Start(
            jnp.asarray(x, jnp.float64),
            jnp.asarray(distinct),
            a,
            2 if twins else 1,
            as_activation(activation),
        )


def extremes(
    start: Start, weights: Float[np.ndarray, " n"], *, power: int = 1, vectors: bool = False
) -> Extremes:
    r"""For each neuron those of $\sum_i c_i \sigma''(w_r^\top x_i)^p\, x_i x_i^\top$.

    Neurons are taken in blocks, so that memory stays bounded whatever their number.
    """
    n, d = start.x.shape
    q = start.W.shape[0]
    block = min(q, max(1, _ENTRIES // (d * max(n, d))))
    results = []
    with float64():
        c = jnp.asarray(weights, jnp.float64)
        for k in range(0, q, block):
            # Filled up with the last neurons, so that one shape is compiled.
            rows = np.minimum(np.arange(k, k + block), q - 1)
            part = _block(start.sigma, power, vectors, start.x, start.W[rows], c)
            results.append([np.asarray(value)[: min(block, q - k)] for value in part])
    return Extremes(*(np.concatenate(parts) for parts in zip(*results, strict=True)))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _block(sigma: Activation, power: int, vectors: bool, x, W, c) -> Extremes:
    second = sigma.derivative(2)(_matmul(x, W.T)) ** power * c[:, None]
    weighted = second.T[:, :, None] * x[None, :, :]
    M = jnp.einsum("qni,nj->qij", weighted, x, precision=jax.lax.Precision.HIGHEST)
    M = (M + jnp.swapaxes(M, 1, 2)) / 2
    if not vectors:
        values = jnp.linalg.eigvalsh(M)
        nothing = jnp.zeros((W.shape[0], 0), x.dtype)
        return Extremes(values[:, 0], values[:, -1], nothing, nothing)  # pyright: ignore[reportArgumentType]  # arrays while traced
    values, V = jnp.linalg.eigh(M)
    return Extremes(values[:, 0], values[:, -1], V[:, :, 0], V[:, :, -1])  # pyright: ignore[reportArgumentType]  # arrays while traced


def _matmul(A, B):
    return jnp.matmul(A, B, precision=jax.lax.Precision.HIGHEST)
