# SPDX-License-Identifier: Apache-2.0
"""The derivatives of each activation, of any order, written out."""

import math
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.stats.norm as gaussian
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import Polynomial
from numpy.polynomial.hermite import herm2poly
from numpy.polynomial.hermite_e import herme2poly

Elementwise = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]


class Family:
    """The k-th derivatives of one activation; `smooth_to` is the last that exists everywhere."""

    @classmethod
    def smooth_to(cls, coefficients: tuple[float, ...]) -> int | float:
        """The last derivative that exists everywhere."""
        del coefficients
        return math.inf

    @classmethod
    def derivative(cls, k: int, coefficients: tuple[float, ...]) -> Elementwise:
        """The k-th derivative, as a function of an array."""
        raise AssertionError(f"{cls.__name__} defines no derivative of order {k}, {coefficients}")


class _Polynomial(Family):
    @classmethod
    def derivative(cls, k, coefficients):
        return _horner(Polynomial(coefficients).deriv(k).coef if k else np.array(coefficients))


class _Identity(_Polynomial):
    @classmethod
    def derivative(cls, k, coefficients):
        return super().derivative(k, (0.0, 1.0, *coefficients))


class _Quadratic(_Polynomial):
    @classmethod
    def derivative(cls, k, coefficients):
        return super().derivative(k, (0.0, 0.0, 0.5, *coefficients))


class _RectifiedPower(Family):
    """`coefficients` are the power alone."""

    @classmethod
    def smooth_to(cls, coefficients):
        return int(coefficients[0])

    @classmethod
    def derivative(cls, k, coefficients):
        power = int(coefficients[0])
        return _rectified(power - k, math.perm(power, k))


class _Relu(Family):
    power: ClassVar[int] = 1

    @classmethod
    def smooth_to(cls, coefficients):
        del coefficients
        return cls.power

    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        return _rectified(cls.power - k, 1 / math.factorial(cls.power - k))


class _Relu3(_Relu):
    power = 3


class _Abrelu(Family):
    """`coefficients` are the slopes below and above 0."""

    @classmethod
    def smooth_to(cls, coefficients):
        del coefficients
        return 1

    @classmethod
    def derivative(cls, k, coefficients):
        below, above = coefficients
        if k:  # nan stays nan
            return lambda z: jnp.where(z < 0, below, jnp.where(z >= 0, above, z))
        return lambda z: z * jnp.where(z < 0, jnp.full_like(z, below), jnp.full_like(z, above))


class _Abs(_Abrelu):
    @classmethod
    def derivative(cls, k, coefficients):
        return super().derivative(k, (-1.0, 1.0, *coefficients))


class _Sign(Family):
    @classmethod
    def smooth_to(cls, coefficients):
        del coefficients
        return 0

    @classmethod
    def derivative(cls, k, coefficients):
        del k, coefficients
        return jnp.sign


def _rectified(power: int, scale: int | float) -> Elementwise:
    """`scale` times max(z, 0)^power."""
    if power == 0:  # the indicator of z >= 0; nan stays nan
        return lambda z: jnp.where(z < 0, 0, jnp.where(z >= 0, jnp.full_like(z, scale), z))
    if power == 1:
        return _positive_part if scale == 1 else lambda z: scale * _positive_part(z)
    # where, not maximum: at 0 automatic differentiation then gives the stated slope. The power
    # is taken of what is left, since an overflow in a branch not taken spoils the gradient.
    return lambda z: scale * jnp.where(z < 0, 0, z) ** power


@jax.custom_jvp
def _positive_part(z: Array) -> Array:
    # Its slope is written out: at 0 it is 1, not one half, and no comparison is shared by values
    # and slopes, which XLA would write to memory; on a GPU a tenth of a step of wide networks.
    return jnp.maximum(z, 0)


@_positive_part.defjvp
def _positive_part_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (z,), (dz,) = primals, tangents
    return _positive_part(z), jnp.where(z < 0, 0, dz)


class _Sigmoid(Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        if k == 0:
            return jax.nn.sigmoid
        # d/dz p(s) = p'(s) s (1 - s) for s the sigmoid: a polynomial in s at every order. Taken at
        # -|z|, where s is small and no digits cancel, by the symmetry s(-z) = 1 - s(z).
        value, sign = _horner(_chain(k, inner_slope=Polynomial([0, 1, -1]))), (-1) ** (k + 1)
        return lambda z: jnp.where(z > 0, sign, 1) * value(jax.nn.sigmoid(jnp.where(z > 0, -z, z)))


class _Tanh(Family):
    @classmethod
    def derivative(cls, k, coefficients):
        if k == 0:
            return jnp.tanh
        sigmoid = _Sigmoid.derivative(k, coefficients)  # tanh(z) = 2 sigmoid(2z) - 1
        return lambda z: 2.0 ** (k + 1) * sigmoid(2 * z)


class _Softplus(Family):
    @classmethod
    def derivative(cls, k, coefficients):
        if k:
            return _Sigmoid.derivative(k - 1, coefficients)
        return _softplus


class _Erf(Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        if k == 0:
            return jax.scipy.special.erf
        # (2/sqrt(pi)) (-1)^(k-1) H_(k-1)(z) exp(-z^2), physicists' Hermite polynomials.
        sign = (-1) ** (k - 1) * 2 / math.sqrt(math.pi)
        factor = _horner(sign * herm2poly([0] * (k - 1) + [1]))
        return lambda z: factor(z) * jnp.exp(-(z**2))


class _Gelu(Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        if k == 0:
            return lambda z: z * gaussian.cdf(z)
        # Leibniz: (z Phi)^(k) = z Phi^(k) + k Phi^(k-1), Phi^(j) = (-1)^(j-1) He_(j-1) phi.
        return lambda z: z * _gaussian_cdf(k)(z) + k * _gaussian_cdf(k - 1)(z)


class _Exp(Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del k, coefficients
        return jnp.exp


class _Sin(Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        function, sign = [(jnp.sin, 1), (jnp.cos, 1), (jnp.sin, -1), (jnp.cos, -1)][k % 4]
        return lambda z: sign * function(z)


class _Cos(Family):
    @classmethod
    def derivative(cls, k, coefficients):
        return _Sin.derivative(k + 1, coefficients)


FAMILIES: dict[str, type[Family]] = {
    "identity": _Identity,
    "quadratic": _Quadratic,
    "relu": _Relu,
    "relu3": _Relu3,
    "abs": _Abs,
    "sign": _Sign,
    "leaky_relu": _Abrelu,
    "abrelu": _Abrelu,
    "rectified_power": _RectifiedPower,
    "sigmoid": _Sigmoid,
    "tanh": _Tanh,
    "erf": _Erf,
    "softplus": _Softplus,
    "gelu": _Gelu,
    "sin": _Sin,
    "cos": _Cos,
    "exp": _Exp,
    "polynomial": _Polynomial,
}


def _chain(k: int, *, inner_slope: Polynomial) -> np.ndarray:
    """Coefficients of the k-th derivative of s as a polynomial in s, where s' = inner_slope(s)."""
    value = Polynomial([0, 1])
    for _ in range(k):
        value = value.deriv() * inner_slope
    return value.coef


def _softplus(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    # Not jax.nn.softplus, whose custom rule Taylor-mode differentiation cannot enter, nor the usual
    # form with |z|, whose slope at exactly 0 would come out as 0. Each branch gets an argument that
    # is safe for it, since a where passes nan from the branch not taken to the gradient.
    above = z > 0
    high, low = jnp.where(above, z, 0), jnp.where(above, 0, z)
    return jnp.where(above, high + jnp.log1p(jnp.exp(-high)), jnp.log1p(jnp.exp(low)))


def _gaussian_cdf(k: int) -> Elementwise:
    if k == 0:
        return gaussian.cdf
    factor = _horner((-1) ** (k - 1) * herme2poly([0] * (k - 1) + [1]))
    return lambda z: factor(z) * gaussian.pdf(z)


def _horner(coefficients: np.ndarray) -> Elementwise:
    def value(z):
        result = jnp.full_like(z, float(coefficients[-1]))
        for coefficient in coefficients[-2::-1]:
            result = result * z + float(coefficient)
        return result

    return value
