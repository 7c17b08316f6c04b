# SPDX-License-Identifier: Apache-2.0
r"""Lemma 9: output weights with which random ReLU features are a power of a linear function.

A readout gives each neuron $w \sim N(0, B_x^{-2} I)$ a number a(w) such that, on the sphere of
radius $B_x$, $\mathbb E_w[\mathrm{relu}(w^\top x)\, a(w)] = \alpha (\beta^\top x)^q$.
"""

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_count, check_finite, check_inputs, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.linalg import eigh
from unlazy.linalg.full_precision import full_product
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.quadratic_fit import checked_direction
from unlazy.special import funk_hecke, gegenbauer, gegenbauer_power, harmonic_dimension, hermite

Method = Literal["hermite", "zonal", "least-squares"]

_ENTRIES = 2**24  # of the features held at a time: 128 MB in float64


@entry
def relu_series(degree: int) -> Float64[np.ndarray, " q"]:
    r"""Power series of $\mathbb E[\mathrm{relu}(g)\,\mathrm{relu}(g')]$ in the correlation u.

    $$\kappa_1(u) = \frac{\sin\theta + u (\pi - \theta)}{2\pi} = \sum_p c_p u^p, \qquad
    c_0 = \frac1{2\pi}, \quad c_1 = \frac14, \quad
    c_{2l} = \frac{1}{2\pi} \frac{(2l-3)!!}{(2l-2)!!} \frac{1}{(2l-1)\, 2l}$$

    with $u = \cos\theta$, up to p = `degree`. Odd coefficients from $c_3$ on vanish: random ReLU
    features do not see those powers. The others are at least $1/(2\pi \max(p, 1)^3)$. $c_p$ is the
    square of the p-th Hermite coefficient of ReLU.

    Source: BL-33, arXiv:1910.01619 proof of Lemma 9.

    Example:
        >>> print(relu_series(4) * 48 * np.pi)
        [24.         37.69911184 12.          0.          1.        ]
    """
    check_count(degree, "degree", least=0, most=10**6)
    c = np.zeros(max(degree, 1) + 1)
    c[:2] = 1 / (2 * math.pi), 0.25
    ratio = 1.0  # (2l-3)!!/(2l-2)!!, by its recurrence: the factorials themselves overflow
    for l in range(1, degree // 2 + 1):
        c[2 * l] = ratio / (2 * math.pi * (2 * l - 1) * 2 * l)
        ratio *= (2 * l - 1) / (2 * l)
    return c[: degree + 1]


class RidgeReadout(eqx.Module):
    """The numbers a(w) of given neurons."""

    a: Float64[np.ndarray, " q"]
    energy: float  # E a(w)^2 over all neurons; for least squares the mean over those given


@entry
def relu_readout(
    W: Float[Array | np.ndarray, "q d"],
    alpha: int | float,
    beta: Float[Array | np.ndarray, " d"],
    power: int,
    *,
    radius: int | float = 1.0,
    method: Method = "hermite",
    x: Inputs | None = None,
    ridge: int | float = 0.0,
) -> RidgeReadout:
    r"""The numbers a(w) that make random ReLU features a power, in one of three forms.

    $$\mathbb E_{w \sim N(0, B_x^{-2} I)}[\mathrm{relu}(w^\top x)\, a(w)] = \alpha (\beta^\top x)^q,
    \qquad \|x\| = B_x, \qquad q \in \{0, 1, 2, 4, 6, \dots\}$$

    - "hermite": $a = \alpha (B_x\|\beta\|)^q h_q(g)/\eta_q$ with
      $g = B_x w^\top\beta/\|\beta\|$ and $\eta_q$ the Hermite coefficient of ReLU. Exact, with
      $\mathbb E a^2 = \alpha^2 (B_x\|\beta\|)^{2q}/c_q$, the norm of the paper's proof.
    - "zonal": $a = \alpha (B_x\|\beta\|)^q B_x\|w\| \sum_k \frac{b_k}{d \mu_k}
      P_k(w^\top\beta/(\|w\|\|\beta\|))$, $b_k$ the coefficients of $t^q$ and $\mu_k$ those of ReLU
      in the Gegenbauer polynomials. Exact too, and of the least $\mathbb E a^2$ that is possible:
      smaller for large q or small d. Needs d >= 3.
    - "least-squares": $a = \bar m\, \Phi^\top (\Phi\Phi^\top + \rho I)^{-1} \alpha (X\beta)^q$ with
      $\Phi = \mathrm{relu}(X W^\top)$ and $\bar m$ the number of neurons: interpolates at the rows
      of `x` once $\bar m \ge n$; elsewhere it is kernel regression, not the power.

    Source: BL-34, BL-35 and BL-36, arXiv:1910.01619 Lemma 9 (with $B_x^{2p}$ as in its proof).

    Args:
        W: one neuron per row; drawn by the law above for the first two forms.
        alpha: the factor.
        beta: the direction.
        power: q.
        radius: $B_x$.
        method: which form.
        x: where to interpolate, for "least-squares" only.
        ridge: $\rho$, for "least-squares" only.

    Example:
        >>> readout = relu_readout(np.eye(3), 1.0, np.array([1.0, 0.0, 0.0]), 1)
        >>> print(readout.a, readout.energy)  # 2 w . beta
        [2. 0. 0.] 4.0
    """
    check_name(method, _FORMS, "method")
    check_finite(alpha, "alpha")
    check_positive(radius, "radius")
    check_count(power, "power", least=0)
    if power % 2 and power != 1:
        raise ValueError(
            f"`power` must be 0, 1 or even, got power={power}. "
            "ReLU features do not see the odd powers from 3 on."
        )
    W, beta = np.asarray(W, np.float64), checked_direction(beta, np.shape(W)[1])
    if method == "least-squares":
        if x is None:
            raise ValueError(f"`x` must be given for method={method!r}, got x=None.")
        return _least_squares(W, float(alpha), beta, power, x, float(ridge))
    if x is not None or ridge:
        raise ValueError(f"`x` and `ridge` are for method='least-squares', got method={method!r}.")
    scale = float(alpha) * (float(radius) * float(np.linalg.norm(beta))) ** power
    return _FORMS[method](float(radius) * W, beta / np.linalg.norm(beta), power, scale)


def _hermite(W: np.ndarray, unit: np.ndarray, q: int, scale: float) -> RidgeReadout:
    """The readout of standard Gaussian neurons for the unit sphere, times `scale`."""
    c = float(relu_series(q)[q])
    sign = -1.0 if q >= 4 and q % 4 == 0 else 1.0  # eta_q = (-1)^(q/2 - 1) sqrt(c_q)
    a = scale * sign / math.sqrt(c) * hermite(W @ unit, q)[q]
    return RidgeReadout(a, scale**2 / c)


def _zonal(W: np.ndarray, unit: np.ndarray, q: int, scale: float) -> RidgeReadout:
    d = W.shape[1]
    if d < 3:
        raise ValueError(f"`method` must be 'hermite' for fewer than 3 inputs, got d={d}.")
    k = np.arange(q % 2, q + 1, 2)
    b = gegenbauer_power(d, q)[k]
    mu = funk_hecke(lambda t: jnp.maximum(t, 0), d, q)[k]
    length = np.linalg.norm(W, axis=1)
    cosine = np.clip(W @ unit / np.where(length > 0, length, 1), -1, 1)
    a = scale * length * ((b / (d * mu)) @ gegenbauer(cosine, d, q)[k])
    sizes = np.array([float(harmonic_dimension(d, int(j))) for j in k])
    return RidgeReadout(a, scale**2 * float(np.sum(b**2 / (d * mu**2 * sizes))))


def _least_squares(W, alpha: float, beta: np.ndarray, q: int, x: Inputs, ridge: float):
    check_inputs(x)
    if np.shape(x)[1] != W.shape[1]:
        raise ValueError(
            f"`x` must have {W.shape[1]} columns, one for each of beta, got x.shape={np.shape(x)}."
        )
    if not ridge >= 0:
        raise ValueError(f"`ridge` must be a number >= 0, got ridge={ridge}.")
    x = np.asarray(x, np.float64)
    y = alpha * (x @ beta) ** q
    with float64():
        gram = sum(full_product(Phi, Phi.T) for Phi in _feature_blocks(x, W))
        eigen = eigh(gram + ridge * jnp.eye(len(x)))
        vectors, values = np.asarray(eigen.vectors), np.asarray(eigen.values)
        keep = values > len(x) * np.finfo(np.float64).eps * values[0]
        solution = vectors[:, keep] @ ((vectors[:, keep].T @ y) / values[keep])
        parts = [
            np.asarray(full_product(Phi.T, jnp.asarray(solution))) for Phi in _feature_blocks(x, W)
        ]
    a = len(W) * np.concatenate(parts)
    return RidgeReadout(a, float(np.mean(a**2)))


def _feature_blocks(x: Float64[np.ndarray, "n d"], W: Float64[np.ndarray, "q d"]):
    block = max(1, _ENTRIES // len(x))
    for k in range(0, len(W), block):
        yield _features(jnp.asarray(x), jnp.asarray(W[k : k + block]))


@jax.jit
def _features(x: Float64[Array, "n d"], W: Float64[Array, "b d"]) -> Float64[Array, "n b"]:
    return jnp.maximum(full_product(x, W.T), 0)


_FORMS = {"hermite": _hermite, "zonal": _zonal, "least-squares": _least_squares}
