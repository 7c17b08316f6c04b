# SPDX-License-Identifier: Apache-2.0
"""Activations with all their derivatives and Taylor coefficients, in closed form.

Every derivative is written out rather than differentiated automatically, so that the value at a
kink is stated (ReLU has slope 1 at 0, as in the papers; JAX's own has 0) and any order is cheap.
"""

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.stats.norm as gaussian
import numpy as np
from jaxtyping import Array, Float, Float64
from numpy.polynomial import Polynomial
from numpy.polynomial.hermite import herm2poly
from numpy.polynomial.hermite_e import herme2poly

from unlazy.checks import check_count, check_finite, check_name

Elementwise = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]


class Activation(eqx.Module):
    r"""A function of one variable, applied entry by entry, with exact derivatives.

    `sigma(z)` is $\sigma(z - \text{shift})$; `sigma.derivative(k)` is its k-th derivative as a
    function and `sigma.taylor(order)` its Taylor coefficients at 0. Made by `activation` and
    `polynomial`; hashable, so it can be a static field or argument.
    """

    name: str = eqx.field(static=True)
    shift: float = eqx.field(static=True, default=0.0)
    coefficients: tuple[float, ...] = eqx.field(static=True, default=())

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Evaluate at `z`."""
        return self.derivative(0)(z)

    def derivative(self, k: int) -> Elementwise:
        """The k-th derivative, as a function of an array.

        Raises:
            ValueError: `k` is negative, or the k-th derivative does not exist at a kink.
        """
        check_count(k, "k", least=0)
        family = _FAMILIES[self.name]
        if k > family.smooth_to:
            raise ValueError(
                f"`k` must be at most {family.smooth_to} for {self.name}, got k={k}. "
                "Derivatives beyond that do not exist at 0; use a smoother activation."
            )
        function = family.derivative(k, self.coefficients)

        def value(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
            if not jnp.issubdtype(jnp.result_type(z), jnp.inexact):  # integers would truncate
                z = jnp.asarray(z, float)
            return function(z - self.shift if self.shift else z)

        return value

    def taylor(self, order: int) -> Float64[np.ndarray, " {order}+1"]:
        r"""Taylor coefficients $\sigma^{(k)}(0)/k!$ for k = 0 to `order`.

        Raises:
            ValueError: there is no expansion, because 0 is a kink (ReLU).
        """
        check_count(order, "order", least=0)
        if _FAMILIES[self.name].smooth_to < math.inf and self.shift == 0:
            raise ValueError(
                f"`order` must be expanded around a smooth point, but {self.name} has a kink at 0, "
                f"got order={order}. Give it a shift, or use a smooth activation."
            )
        with jax.enable_x64(True):
            zero = jnp.zeros((), jnp.float64)
            # Away from its kink, what is beyond the smooth orders is zero.
            smooth = min(order, _FAMILIES[self.name].smooth_to)
            values = [float(self.derivative(k)(zero)) for k in range(int(smooth) + 1)]
            values += [0.0] * (order + 1 - len(values))
        return np.array([value / math.factorial(k) for k, value in enumerate(values)])


def activation(name: str | Activation, *, shift: float = 0.0) -> Activation:
    r"""The activation of that name, evaluated at `z - shift`.

    Names: identity, quadratic ($z^2/2$), relu ($\max(z, 0)$, slope 1 at 0), relu3
    ($\max(z, 0)^3/6$), sigmoid, tanh, erf, softplus, gelu (exact), sin, cos, exp. An `Activation`
    is returned as it is.

    Source: the shift is NB's b in $1/(1+e^{b-z})$, arXiv:2206.03688.

    Raises:
        UnknownNameError: no activation has that name; the nearest is suggested.

    Example:
        >>> print(activation("tanh").taylor(5))
        [ 0.          1.          0.         -0.33333333  0.          0.13333333]
    """
    if isinstance(name, Activation):
        if shift:
            raise ValueError(f"`shift` must be 0 for an activation made before, got shift={shift}.")
        return name
    check_name(name, [known for known in _FAMILIES if known != "polynomial"], "name")
    check_finite(shift, "shift")
    return Activation(name, float(shift))


def polynomial(coefficients: Sequence[int | float] | Float[np.ndarray, " k"]) -> Activation:
    r"""The activation $\sum_k c_k z^k$ from its coefficients, lowest degree first.

    Example:
        >>> print(polynomial([1, 0, 3]).derivative(1)(jnp.array(2.0)))
        12.0
    """
    values = np.asarray(coefficients, np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"`coefficients` must be a non-empty sequence of numbers, got shape {values.shape}."
        )
    check_finite(values, "coefficients")
    return Activation("polynomial", coefficients=tuple(values.tolist()))


class _Family:
    """The k-th derivatives of one activation; `smooth_to` is the last that exists everywhere."""

    smooth_to: ClassVar[float] = math.inf

    @classmethod
    def derivative(cls, k: int, coefficients: tuple[float, ...]) -> Elementwise:
        raise AssertionError(f"{cls.__name__} defines no derivative of order {k}, {coefficients}")


class _Polynomial(_Family):
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


class _Relu(_Family):
    smooth_to = 1
    power: ClassVar[int] = 1

    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        power = cls.power - k
        if power == 0:  # the indicator of z >= 0; nan stays nan
            return lambda z: jnp.where(z < 0, 0, jnp.where(z >= 0, jnp.ones_like(z), z))
        if power == 1:
            return _positive_part
        scale = 1 / math.factorial(power)
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


class _Relu3(_Relu):
    smooth_to = 3
    power = 3


class _Sigmoid(_Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        if k == 0:
            return jax.nn.sigmoid
        # d/dz p(s) = p'(s) s (1 - s) for s the sigmoid: a polynomial in s at every order. Taken at
        # -|z|, where s is small and no digits cancel, by the symmetry s(-z) = 1 - s(z).
        value, sign = _horner(_chain(k, inner_slope=Polynomial([0, 1, -1]))), (-1) ** (k + 1)
        return lambda z: jnp.where(z > 0, sign, 1) * value(jax.nn.sigmoid(jnp.where(z > 0, -z, z)))


class _Tanh(_Family):
    @classmethod
    def derivative(cls, k, coefficients):
        if k == 0:
            return jnp.tanh
        sigmoid = _Sigmoid.derivative(k, coefficients)  # tanh(z) = 2 sigmoid(2z) - 1
        return lambda z: 2.0 ** (k + 1) * sigmoid(2 * z)


class _Softplus(_Family):
    @classmethod
    def derivative(cls, k, coefficients):
        if k:
            return _Sigmoid.derivative(k - 1, coefficients)
        return _softplus


class _Erf(_Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        if k == 0:
            return jax.scipy.special.erf
        # (2/sqrt(pi)) (-1)^(k-1) H_(k-1)(z) exp(-z^2), physicists' Hermite polynomials.
        sign = (-1) ** (k - 1) * 2 / math.sqrt(math.pi)
        factor = _horner(sign * herm2poly([0] * (k - 1) + [1]))
        return lambda z: factor(z) * jnp.exp(-(z**2))


class _Gelu(_Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        if k == 0:
            return lambda z: z * gaussian.cdf(z)
        # Leibniz: (z Phi)^(k) = z Phi^(k) + k Phi^(k-1), Phi^(j) = (-1)^(j-1) He_(j-1) phi.
        return lambda z: z * _gaussian_cdf(k)(z) + k * _gaussian_cdf(k - 1)(z)


class _Exp(_Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del k, coefficients
        return jnp.exp


class _Sin(_Family):
    @classmethod
    def derivative(cls, k, coefficients):
        del coefficients
        function, sign = [(jnp.sin, 1), (jnp.cos, 1), (jnp.sin, -1), (jnp.cos, -1)][k % 4]
        return lambda z: sign * function(z)


class _Cos(_Family):
    @classmethod
    def derivative(cls, k, coefficients):
        return _Sin.derivative(k + 1, coefficients)


_FAMILIES: dict[str, type[_Family]] = {
    "identity": _Identity,
    "quadratic": _Quadratic,
    "relu": _Relu,
    "relu3": _Relu3,
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
