# SPDX-License-Identifier: Apache-2.0
"""The derivatives of each activation, of any order, written out."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.stats.norm as gaussian
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import Polynomial
from numpy.polynomial.hermite import herm2poly
from numpy.polynomial.hermite_e import herme2poly

Elementwise = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]
Coefficients = tuple[float, ...]  # the options of an activation


class Family(NamedTuple):
    """One activation: its k-th derivative, and the last that exists everywhere."""

    derivative: Callable[[int, Coefficients], Elementwise]
    smooth_to: Callable[[Coefficients], int | float] = lambda _: math.inf


def _polynomial(k: int, coefficients: Coefficients) -> Elementwise:
    return _horner(Polynomial(coefficients).deriv(k).coef if k else np.array(coefficients))


def _rectified_power(k: int, power: int, divisor: int = 1) -> Elementwise:
    """The k-th derivative of max(z, 0)^power / divisor."""
    left, scale = power - k, math.perm(power, k) / divisor
    if left == 0:  # the indicator of z >= 0; nan stays nan
        return lambda z: jnp.where(z < 0, 0, jnp.where(z >= 0, jnp.full_like(z, scale), z))
    if left == 1:
        return _positive_part if scale == 1 else lambda z: scale * _positive_part(z)
    # where, not maximum: at 0 automatic differentiation then gives the stated slope. The power
    # is taken of what is left, since an overflow in a branch not taken spoils the gradient.
    return lambda z: scale * jnp.where(z < 0, 0, z) ** left


@jax.custom_jvp
def _positive_part(z: Array) -> Array:
    # Its slope is written out: at 0 it is 1, not one half, and no comparison is shared by values
    # and slopes, which XLA would write to memory; on a GPU a tenth of a step of wide networks.
    return jnp.maximum(z, 0)


@_positive_part.defjvp
def _positive_part_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (z,), (dz,) = primals, tangents
    return _positive_part(z), jnp.where(z < 0, 0, dz)


def _two_slopes(k: int, slopes: Coefficients) -> Elementwise:
    below, above = slopes
    if k:  # nan stays nan
        return lambda z: jnp.where(z < 0, below, jnp.where(z >= 0, above, z))
    return lambda z: z * jnp.where(z < 0, jnp.full_like(z, below), jnp.full_like(z, above))


def _sigmoid(k: int) -> Elementwise:
    if k == 0:
        return jax.nn.sigmoid
    # d/dz p(s) = p'(s) s (1 - s) for s the sigmoid: a polynomial in s at every order. Taken at
    # -|z|, where s is small and no digits cancel, by the symmetry s(-z) = 1 - s(z).
    p = Polynomial([0, 1])
    for _ in range(k):
        p = p.deriv() * Polynomial([0, 1, -1])
    value, sign = _horner(p.coef), (-1) ** (k + 1)
    return lambda z: jnp.where(z > 0, sign, 1) * value(jax.nn.sigmoid(jnp.where(z > 0, -z, z)))


def _tanh(k: int) -> Elementwise:
    sigmoid = _sigmoid(k)  # tanh(z) = 2 sigmoid(2z) - 1
    return (lambda z: 2.0 ** (k + 1) * sigmoid(2 * z)) if k else jnp.tanh


def _softplus(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    # Not jax.nn.softplus, whose custom rule Taylor-mode differentiation cannot enter, nor the usual
    # form with |z|, whose slope at exactly 0 would come out as 0. Each branch gets an argument that
    # is safe for it, since a where passes nan from the branch not taken to the gradient.
    above = z > 0
    high, low = jnp.where(above, z, 0), jnp.where(above, 0, z)
    return jnp.where(above, high + jnp.log1p(jnp.exp(-high)), jnp.log1p(jnp.exp(low)))


def _erf(k: int) -> Elementwise:
    if k == 0:
        return jax.scipy.special.erf
    # (2/sqrt(pi)) (-1)^(k-1) H_(k-1)(z) exp(-z^2), physicists' Hermite polynomials.
    sign = (-1) ** (k - 1) * 2 / math.sqrt(math.pi)
    factor = _horner(sign * herm2poly([0] * (k - 1) + [1]))
    return lambda z: factor(z) * jnp.exp(-(z**2))


def _gelu(k: int) -> Elementwise:
    if k == 0:
        return lambda z: z * gaussian.cdf(z)
    # Leibniz: (z Phi)^(k) = z Phi^(k) + k Phi^(k-1), Phi^(j) = (-1)^(j-1) He_(j-1) phi.
    return lambda z: z * _gaussian_cdf(k)(z) + k * _gaussian_cdf(k - 1)(z)


def _gaussian_cdf(k: int) -> Elementwise:
    if k == 0:
        return gaussian.cdf
    factor = _horner((-1) ** (k - 1) * herme2poly([0] * (k - 1) + [1]))
    return lambda z: factor(z) * gaussian.pdf(z)


def _sin(k: int) -> Elementwise:
    function, sign = [(jnp.sin, 1), (jnp.cos, 1), (jnp.sin, -1), (jnp.cos, -1)][k % 4]
    return lambda z: sign * function(z)


def _horner(coefficients: np.ndarray) -> Elementwise:
    def value(z):
        result = jnp.full_like(z, float(coefficients[-1]))
        for coefficient in coefficients[-2::-1]:
            result = result * z + float(coefficient)
        return result

    return value


FAMILIES = {
    "identity": Family(lambda k, _: _polynomial(k, (0.0, 1.0))),
    "quadratic": Family(lambda k, _: _polynomial(k, (0.0, 0.0, 0.5))),
    "relu": Family(lambda k, _: _rectified_power(k, 1), lambda _: 1),
    "relu3": Family(lambda k, _: _rectified_power(k, 3, math.factorial(3)), lambda _: 3),
    "abs": Family(lambda k, _: _two_slopes(k, (-1.0, 1.0)), lambda _: 1),
    "sign": Family(lambda _, __: jnp.sign, lambda _: 0),
    "leaky_relu": Family(_two_slopes, lambda _: 1),
    "abrelu": Family(_two_slopes, lambda _: 1),
    "rectified_power": Family(lambda k, c: _rectified_power(k, int(c[0])), lambda c: int(c[0])),
    "sigmoid": Family(lambda k, _: _sigmoid(k)),
    "tanh": Family(lambda k, _: _tanh(k)),
    "erf": Family(lambda k, _: _erf(k)),
    "softplus": Family(lambda k, _: _sigmoid(k - 1) if k else _softplus),
    "gelu": Family(lambda k, _: _gelu(k)),
    "sin": Family(lambda k, _: _sin(k)),
    "cos": Family(lambda k, _: _sin(k + 1)),
    "exp": Family(lambda _, __: jnp.exp),
    "polynomial": Family(_polynomial),
}
