# SPDX-License-Identifier: Apache-2.0
"""Activations with all their derivatives and Taylor coefficients, in closed form.

Every derivative is written out rather than differentiated automatically, so that the value at a
kink is stated (ReLU has slope 1 at 0, as in the papers; JAX's own has 0) and any order is cheap.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.stats.norm as gaussian
import numpy as np
from jaxtyping import Array, Float, Float64
from numpy.polynomial import Polynomial
from numpy.polynomial.hermite import herm2poly
from numpy.polynomial.hermite_e import herme2poly

from unlazy.core.checks import (
    MOST_FACTORIAL,
    as_array,
    as_number,
    check_count,
    check_finite,
    check_name,
)
from unlazy.core.entries import entry
from unlazy.core.float64 import float64

__all__ = ["Activation", "activation", "polynomial"]


def __dir__() -> list[str]:
    return __all__


Elementwise = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]
Coefficients = tuple[float, ...]  # the options of an activation


class Activation(eqx.Module):
    r"""A function of one variable, applied entry by entry, with exact derivatives.

    `sigma(z)` is $\sigma(z - \text{shift})$; `sigma.derivative(k)` is its k-th derivative as a
    function and `sigma.taylor(order)` its Taylor coefficients at 0. Made by `activation` and
    `polynomial`; hashable, so it can be a static field or argument.
    """

    name: str = eqx.field(static=True)
    shift: float = eqx.field(static=True, default=0.0)
    coefficients: tuple[float, ...] = eqx.field(static=True, default=())

    @entry
    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Evaluate at `z`."""
        return self.derivative(0)(z)

    @entry
    def derivative(self, k: int) -> Elementwise:
        """The k-th derivative as a function of an array; raise if it does not exist at a kink."""
        check_count(k, "k", least=0, most=MOST_FACTORIAL)
        if k > self._smooth_to:
            raise ValueError(
                f"`k` must be at most {self._smooth_to} for {self.name}, got k={k}. "
                "Derivatives beyond that do not exist at 0; use a smoother activation."
            )
        function = FAMILIES[self.name].derivative(k, self.coefficients)

        def value(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
            if not jnp.issubdtype(jnp.result_type(z), jnp.inexact):  # integers would truncate
                z = jnp.asarray(z, float)
            return function(z - self.shift if self.shift else z)

        return value

    @entry
    def taylor(self, order: int) -> Float64[np.ndarray, " {order}+1"]:
        r"""Taylor coefficients $\sigma^{(k)}(0)/k!$ for k = 0 to `order`; 0 must not be a kink."""
        check_count(order, "order", least=0, most=MOST_FACTORIAL)
        if not self.is_smooth and self.shift == 0:
            raise ValueError(
                f"`order` must be expanded around a smooth point, but {self.name} has a kink at 0, "
                f"got order={order}. Give it a shift, or use a smooth activation."
            )
        with float64():
            zero = jnp.zeros((), jnp.float64)
            # Away from the kink, coefficients beyond the smooth orders are zero.
            smooth = min(order, self._smooth_to)
            values = [float(self.derivative(k)(zero)) for k in range(int(smooth) + 1)]
            values += [0.0] * (order + 1 - len(values))
        return np.array([value / math.factorial(k) for k, value in enumerate(values)])

    @property
    def is_smooth(self) -> bool:
        """Whether every derivative exists everywhere: no kink and no jump at the shift."""
        return self._smooth_to == math.inf

    @property
    def _smooth_to(self) -> int | float:
        return FAMILIES[self.name].smooth_to(self.coefficients)


@entry
def activation(
    name: str | Activation,
    *,
    shift: int | float = 0.0,
    slope: int | float | None = None,
    slopes: tuple[int | float, int | float] | None = None,
    power: int | None = None,
) -> Activation:
    r"""The activation of that name, evaluated at `z - shift`.

    Names: identity, quadratic ($z^2/2$), relu ($\max(z, 0)$, slope 1 at 0), relu3
    ($\max(z, 0)^3/6$), sigmoid, tanh, erf, softplus, gelu (exact), sin, cos, exp; abs, sign (0 at
    0), leaky_relu (`slope` below 0), abrelu (`slopes` $(a, b)$: $a \min(z, 0) + b \max(z, 0)$),
    rectified_power (`power` k: $\max(z, 0)^k$, for k = 0 the step $1\{z \ge 0\}$). Slopes at a kink
    are those from the right. An `Activation` is returned as it is.

    Source: the shift is NB's b in $1/(1+e^{b-z})$, arXiv:2206.03688.

    Args:
        name: of the activation.
        shift: where its 0 is put.
        slope: of leaky_relu below 0; 0.01 unless given.
        slopes: of abrelu below and above 0, not both zero.
        power: of rectified_power, from 0 to 64.

    Example:
        >>> print(activation("tanh").taylor(5))
        [ 0.          1.          0.         -0.33333333  0.          0.13333333]
        >>> print(activation("leaky_relu", slope=0.5)(jnp.array([-2.0, 2.0])))
        [-1.  2.]
    """
    given = {"slope": slope, "slopes": slopes, "power": power}
    if isinstance(name, Activation):
        if shift:
            raise ValueError(f"`shift` must be 0 for an activation made before, got shift={shift}.")
        _check_left_out(given, "an activation made before")
        return name
    check_name(name, activation_names(), "name")
    check_finite(shift, "shift")
    return Activation(name, float(shift), _coefficients(name, given))


def activation_names() -> list[str]:
    """The names that `activation` knows."""
    return [name for name in FAMILIES if name != "polynomial"]


def _coefficients(name: str, given: dict[str, Any]) -> tuple[float, ...]:
    """The options of an activation as its coefficients; raise unless they are its own."""
    own = {"leaky_relu": "slope", "abrelu": "slopes", "rectified_power": "power"}.get(name)
    _check_left_out({o: value for o, value in given.items() if o != own}, name)
    if own == "slope":
        slope = given["slope"]
        return (0.01 if slope is None else as_number(slope, "slope"), 1.0)
    if own == "slopes":
        slopes = given["slopes"]
        if np.shape(slopes) != (2,) or not any(slopes):
            raise ValueError(
                f"`slopes` must be two numbers for abrelu, not both zero, got slopes={slopes}."
            )
        return tuple(as_number(slope, "slopes") for slope in slopes)
    if own == "power":
        check_count(given["power"], "power", least=0)
        if given["power"] > 64:  # its mean square, (2k - 1)!!/2, leaves the range of float64 later
            raise ValueError(f"`power` must be at most 64, got power={given['power']}.")
        return (float(given["power"]),)
    return ()


def _check_left_out(options: dict[str, Any], activation: str) -> None:
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"`{option}` must be left out for {activation}, got {option}={value}.")


@entry
def polynomial(coefficients: Sequence[int | float] | Float[np.ndarray, " k"]) -> Activation:
    r"""The activation $\sum_k c_k z^k$ from its coefficients, lowest degree first.

    Example:
        >>> print(polynomial([1, 0, 3]).derivative(1)(jnp.array(2.0)))
        12.0
    """
    values = np.asarray(as_array(coefficients, "coefficients"), np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"`coefficients` must be a non-empty sequence of numbers, got shape {values.shape}."
        )
    check_finite(values, "coefficients")
    return Activation("polynomial", coefficients=tuple(values.tolist()))


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
