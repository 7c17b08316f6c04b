# SPDX-License-Identifier: Apache-2.0
"""Kernels of the distance or of the angle alone: Gaussian, arcsine, conjugate and tangent."""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry
from unlazy.kernels.blocks import angular_matrix, check_pair
from unlazy.kernels.differentiation import at_precision
from unlazy.kernels.mlp import MOST_LAYERS, ntk
from unlazy.kernels.polar import polar
from unlazy.special import arc_cosine


@entry
def gaussian(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    bandwidth: int | float,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The Gaussian kernel.

    $$K(x, x') = e^{-\|x - x'\|^2 / h}$$

    `bandwidth` is h, positive, of the dimension of a squared distance; scikit-learn's gamma is 1/h.
    The distance of nearly equal rows comes from the rows, not from a difference of large products.
    Zero rows are fine; the other arguments are as for `relu_gram`.

    Source: RN-17, arXiv:1905.10337.

    Example:
        >>> print(gaussian(jnp.eye(2), bandwidth=2.0).round(4))
        [[1.     0.3679]
         [0.3679 1.    ]]
    """
    check_positive(bandwidth, "bandwidth")
    x1, x2, dtype = check_pair(x1, x2, dtype, allow_zero_rows=True)
    scale = 1 / math.sqrt(bandwidth)
    evaluate = partial(angular_matrix, _Gaussian(), lambda norms: [norm * scale for norm in norms])
    return at_precision(evaluate, x1, x2, dtype)


@entry
def arcsin(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The arcsine kernel, of the angle alone.

    $$K(x, x') = \arcsin\frac{\langle x, x'\rangle}{\|x\| \|x'\|}$$

    It is $\pi/2$ on the diagonal, and $\pi/2$ times the kernel of random features
    $\mathrm{sign}(w^\top x)$, the limit of `nngp` with erf for long rows. Arguments are as for
    `relu_gram`.

    Source: RN-17, arXiv:1905.10337.

    Example:
        >>> print(arcsin(jnp.eye(2)).round(4))
        [[1.5708 0.    ]
         [0.     1.5708]]
    """
    x1, x2, dtype = check_pair(x1, x2, dtype)
    return at_precision(partial(angular_matrix, _Arcsin(), list), x1, x2, dtype)


@entry
def conjugate(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    layers: int = 2,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The conjugate kernel of a ReLU network, normalised to 1 on the diagonal.

    $$K(x, x') = \kappa_1(\cdots\kappa_1(u)), \qquad
    \kappa_1(u) = \frac{\sqrt{1 - u^2} + u (\pi - \arccos u)}{\pi}$$

    `layers` - 1 times, with u the cosine between (x, 1) and (x', 1): a first-layer bias of the
    weights' variance, no others. It is `nngp` on those rows, normalised. `layers` counts the layers
    of weights, the readout included. Zero rows are fine; the other arguments are as for
    `relu_gram`.

    Source: RN-17, arXiv:1905.10337: k1(u) for 2 layers, k1(k1(u)) for 3.

    Example:
        >>> print(conjugate(jnp.eye(2), layers=3).round(4))
        [[1.     0.6839]
         [0.6839 1.    ]]
    """
    return _normalised(x1, x2, layers, "last", dtype)


@entry
def tangent(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    layers: int = 2,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The tangent kernel of a ReLU network, normalised to `layers` on the diagonal.

    $$\Theta_2 = u\,\kappa_0(u) + \kappa_1(u), \qquad
    \Theta_3 = \Theta_2\, \kappa_0(\kappa_1(u)) + \kappa_1(\kappa_1(u))$$

    and so on, with $\kappa_0(u) = (\pi - \arccos u)/\pi$ and `conjugate`'s u and $\kappa_1$. It is
    `ntk` on the rows (x, 1), normalised. Arguments are as for `conjugate`.

    Source: RN-17, arXiv:1905.10337, "up to scale and to the variance of the second bias", here 0.

    Example:
        >>> print(tangent(jnp.eye(2)).round(4))
        [[2.     0.9423]
         [0.9423 2.    ]]
    """
    return _normalised(x1, x2, layers, "all", dtype)


def _normalised(x1, x2, layers: int, trained: str, dtype) -> Float[Array, "n1 n2"]:
    check_count(layers, "layers", least=2, most=MOST_LAYERS + 1)
    x1, x2, dtype = check_pair(x1, x2, dtype, allow_zero_rows=True)
    # The readout's variance of unit rows is weight_variance^layers / (2^depth fan_in): set to 1.
    depth = layers - 1
    variance = (2.0**depth * (x1.shape[1] + 1)) ** (1 / layers)

    def evaluate(x1, x2, dtype):
        u1 = polar(append_one(x1, dtype), "x1", dtype).unit
        u2 = None if x2 is None else polar(append_one(x2, dtype), "x2", dtype).unit
        return ntk(u1, u2, depth=depth, weight_variance=variance, trained=trained, dtype=dtype)

    return at_precision(evaluate, x1, x2, dtype)


def append_one(x: Array | np.ndarray, dtype: jnp.dtype) -> Float[Array, "n d1"]:
    """The rows (x, 1), whose last weight is a bias."""
    x = jnp.asarray(x, dtype)
    return jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1)


@dataclass(frozen=True)
class _Gaussian:
    """`rows` are the norms, in units of the root of the bandwidth."""

    def pairs(self, cos, gap, rows1, rows2):
        one_minus = jnp.where(cos < 0, 2 - gap, gap)
        return jnp.exp(-((rows1 - rows2) ** 2) - 2 * (rows1 * rows2) * one_minus)

    def diagonal(self, rows):
        return jnp.ones_like(rows)


@dataclass(frozen=True)
class _Arcsin:
    """`rows` are not used."""

    def pairs(self, cos, gap, rows1, rows2):
        del rows1, rows2
        return 2 * math.pi * (arc_cosine(cos, gap).orthant - 0.25)

    def diagonal(self, rows):
        return jnp.full_like(rows, math.pi / 2)
