# SPDX-License-Identifier: Apache-2.0
"""The limiting kernels of the linear and the quadratic term of a cubed-ReLU network."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_positive
from unlazy.core.entries import entry
from unlazy.kernels.blocks import AngularKernel, angular_matrix, check_pair
from unlazy.kernels.differentiation import at_precision
from unlazy.kernels.moments import sine
from unlazy.special import arc_cosine


@entry
def relu3_tangent(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    init_scale: int | float = 1.0,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The tangent kernel of a network with $\sigma(z) = \max(z, 0)^3/6$, hidden layer trained.

    $$K_L(x, x') = x^\top x'\, \mathbb E_w[\sigma'(w^\top x)\, \sigma'(w^\top x')]
    = x^\top x' (\kappa^2 \|x\| \|x'\|)^2\, \frac{\kappa_2(u)}{4}, \qquad
    \kappa_2 = \frac{3 u \sin\theta + (\pi - \theta)(1 + 2u^2)}{2\pi}$$

    for $w \sim N(0, \kappa^2 I)$ and $u = \cos\theta$ between the rows. For rows of norm $B_x$ and
    $\kappa = 1/B_x$ it is the paper's $B_x^2\, u\, \kappa_2/4$.

    Source: BL-16, arXiv:1910.01619; general norms are derived.

    Args:
        x1: one input per row, no row zero.
        x2: other inputs, for the cross kernel; None means `x1`.
        init_scale: $\kappa$, as in `nets.TwoLayer`.
        dtype: "float64" or "float32", to compute in and to return, as in `relu_gram`.

    Example:
        >>> print(np.asarray(relu3_tangent(np.eye(2))) * 8)
        [[3. 0.]
         [0. 3.]]
    """
    check_positive(init_scale, "init_scale")
    # A row's share is kappa^2 |x|^3, so its norm counts with the power 3.
    return _matrix(_Tangent(), x1, x2, lambda norm: float(init_scale) ** 2 * norm**3, dtype)


@entry
def relu3_quadratic(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    init_scale: int | float = 1.0,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The kernel of the quadratic Taylor term of a network, its matrices set free.

    $$K_Q(x, x') = (x^\top x')^2\, \tfrac14
    \mathbb E_w[\sigma''(w^\top x)\, \sigma''(w^\top x')]
    = (x^\top x')^2\, \kappa^2 \|x\| \|x'\|\, \frac{\kappa_1(u)}{4}, \qquad
    \kappa_1 = \frac{\sin\theta + u(\pi - \theta)}{2\pi}$$

    for $\sigma$ and the arguments of `relu3_tangent`. In
    $f_Q = \frac{1}{2\sqrt m} \sum_r a_r \sigma''(w_{0,r}^\top x)\, x^\top A_r x$ the matrices
    $A_r = w_r w_r^\top$ are replaced by any symmetric ones, penalised by their Frobenius norm: the
    features are those of $f_Q$, the preference for low rank is lost. For rows of norm $B_x$ and
    $\kappa = 1/B_x$ it is the paper's $B_x^4 u^2 \kappa_1/4$.

    Source: BL-16, arXiv:1910.01619; general norms are derived.

    Example:
        >>> print(np.asarray(relu3_quadratic(np.eye(2))) * 8)
        [[1. 0.]
         [0. 1.]]
    """
    check_positive(init_scale, "init_scale")
    return _matrix(_Quadratic(), x1, x2, lambda norm: float(init_scale) * norm**3, dtype)


def _matrix(kernel: AngularKernel, x1, x2, rows: Callable[[Array], Array], dtype) -> Array:
    x1, x2, dtype = check_pair(x1, x2, dtype)
    numbers = partial(_each, rows)
    return at_precision(partial(angular_matrix, kernel, numbers), x1, x2, dtype)


def _each(rows: Callable[[Array], Array], norms: list[Array]) -> list[Array]:
    return [rows(norm) for norm in norms]


@dataclass(frozen=True)
class _Tangent:
    """`rows` are kappa^2 times the cubed norms."""

    def pairs(self, cos, gap, rows1, rows2):
        orthant = arc_cosine(cos, gap).orthant
        kappa2 = 3 * cos * sine(gap) / (2 * math.pi) + orthant * (1 + 2 * cos**2)
        return cos * kappa2 / 4 * (rows1 * rows2)

    def diagonal(self, rows):
        return 3 / 8 * rows**2


@dataclass(frozen=True)
class _Quadratic:
    """`rows` are kappa times the cubed norms."""

    def pairs(self, cos, gap, rows1, rows2):
        return cos**2 * arc_cosine(cos, gap).cos / 8 * (rows1 * rows2)

    def diagonal(self, rows):
        return rows**2 / 8
