# SPDX-License-Identifier: Apache-2.0
r"""How the error along one eigenvector decays: by descent or in continuous time, with momentum.

Along an eigenvector of curvature $\kappa$ the error $e$ starts at 1, and nothing else enters:

- descent: $e_k = (1 - \eta\kappa)^k$;
- flow: $e(t) = \exp(-\kappa t)$;
- descent with momentum: $e_{k+1} = e_k + m (e_k - e_{k-1}) - \eta\kappa e_k$ with
  $e_{-1} = e_0$;
- flow with momentum: $\eta e'' + (1 - m) e' + \kappa e = 0$ with $e'(0) = 0$.

The last two are sums of two powers or exponentials. With the roots $z_1, z_2$ of
$z^2 - (1 + m - \eta\kappa) z + m$ and the roots $p_1, p_2$ of $\eta p^2 + (1 - m) p + \kappa$,
complex where the error oscillates,

$$e_k = z_1^k + z_2 (1 - z_1) \frac{z_1^k - z_2^k}{z_1 - z_2}, \qquad
e(t) = e^{p_1 t} - p_1 \frac{e^{p_1 t} - e^{p_2 t}}{p_1 - p_2}.$$

The quotients are finite where the roots meet. Each curve comes with $1 - e$ to full precision,
which is what has been learnt, however little that is.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Complex128, Float64

from unlazy.core.checks import check_real

Steps = int | float | np.number | np.ndarray | Sequence
"""One step number or time, or many; `math.inf` is the limit."""


class Share(NamedTuple):
    """The shares of the initial error that are left and that are gone: they add up to 1."""

    left: Float64[np.ndarray, "T r"]  # at each time (row), for each curvature (column)
    learnt: Float64[np.ndarray, "T r"]


def as_times(times: Steps, name: str) -> Float64[np.ndarray, " T"]:
    """Steps or times as a flat array; raise unless all of them are at least 0."""
    check_real(times, name)
    values = np.asarray(times, np.float64).reshape(-1)
    if np.any(values < 0) or np.any(np.isnan(values)):
        raise ValueError(f"`{name}` must be >= 0, got {name}={times}.")
    return values


def as_whole_steps(steps: Steps, name: str) -> Float64[np.ndarray, " T"]:
    """Step numbers as a flat array; raise unless they are integers or inf."""
    check_real(steps, name)
    values = np.asarray(steps, np.float64).reshape(-1)
    finite = np.where(np.isfinite(values), values, 0)
    if np.any(np.isnan(values)) or np.any(values < 0) or np.any(finite != np.floor(finite)):
        raise ValueError(f"`{name}` must be an integer >= 0 or inf, got {name}={steps}.")
    return values


class Rule(NamedTuple):
    """The learning rate and the momentum of a descent."""

    learning_rate: float
    momentum: float

    def by_steps(
        self, curvatures: Float64[np.ndarray, " r"], steps: Float64[np.ndarray, " T"]
    ) -> Share:
        """What is left and learnt after so many steps."""
        rates = self.learning_rate * curvatures
        found = _powers(rates, steps) if self.momentum == 0 else self._oscillating(rates, steps)
        return _with_limit(found, steps, rates, 2 * (1 + self.momentum))

    def by_times(
        self, curvatures: Float64[np.ndarray, " r"], times: Float64[np.ndarray, " T"]
    ) -> Share:
        """What is left and learnt at these times of the flow."""
        t = _finite(times)[:, None]
        if self.momentum == 0:
            exponents = -curvatures[None, :] * t
            found = Share(np.exp(exponents), -np.expm1(exponents))
        else:
            found = self._damped(curvatures, t)
        return _with_limit(found, times, curvatures, math.inf)

    def _oscillating(
        self, rates: Float64[np.ndarray, " r"], steps: Float64[np.ndarray, " T"]
    ) -> Share:
        """Powers of the two roots; `z1` is the one of larger modulus."""
        k, m = _finite(steps)[:, None], self.momentum
        root = math.sqrt(m)
        middle = 1 + m - rates
        signs = np.where(middle < 0, -1.0, 1.0)
        # In factors, which keep the digits where the roots meet.
        gap = np.sqrt(_complex((1 - root) ** 2 - rates) * ((1 + root) ** 2 - rates))
        z1 = (middle + signs * gap) / 2
        z2 = m / z1
        lacking = rates / (1 - z2)  # 1 - z1, whose digits the difference would lose
        # Of the roots turned to the right half plane: signs of powers are then exact.
        right = signs * z1
        log = np.where(signs > 0, np.log1p(-lacking), np.log(right))
        turned = np.where((signs[None, :] < 0) & (k % 2 == 1), -1.0, 1.0)
        power = np.exp(k * log)
        quotient = _quotient(power, k * _log_ratio(gap / right, m / z1**2), gap, k / right)
        second = z2 * lacking * signs * turned * quotient
        left = (turned * power + second).real
        gone = np.where(turned > 0, -np.expm1(k * log), 1 + power)
        return Share(left, (gone - second).real)

    def _damped(
        self, curvatures: Float64[np.ndarray, " r"], t: Float64[np.ndarray, "T 1"]
    ) -> Share:
        """Exponentials of the two roots; `p1` is the slower."""
        friction = (1 - self.momentum) / self.learning_rate
        half = np.sqrt(_complex(friction**2 / 4 - curvatures / self.learning_rate))
        p1 = curvatures / self.learning_rate / (-friction / 2 - half)
        power = np.exp(p1 * t)
        second = p1 * _quotient(power, -2 * half * t, 2 * half, t)
        return Share((power - second).real, (second - np.expm1(p1 * t)).real)


def _powers(rates: Float64[np.ndarray, " r"], steps: Float64[np.ndarray, " T"]) -> Share:
    r"""$(1 - \eta\lambda)^k$ with its sign, through logarithms."""
    k = _finite(steps)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        # log1p keeps the digits of small eta lambda; log(0) is -inf, a power of zero.
        log = np.where(rates < 0.5, np.log1p(-np.minimum(rates, 0.5)), np.log(np.abs(1 - rates)))
        exponents = k * log[None, :]
    exponents = np.where(np.isnan(exponents), 0.0, exponents)  # 0^0 = 1: nothing has moved
    size = np.exp(exponents)
    left = np.where((rates > 1)[None, :] & (k % 2 == 1), -size, size)
    return Share(left, np.where(left < 0, 1 - left, -np.expm1(exponents)))


def _log_ratio(
    relative_gap: Complex128[np.ndarray, " r"], ratio: Complex128[np.ndarray, " r"]
) -> Complex128[np.ndarray, " r"]:
    """The logarithm of z2 / z1, from their relative gap where they are close."""
    near = np.abs(relative_gap) < 0.5
    return np.where(near, np.log1p(-np.where(near, relative_gap, 0)), np.log(ratio))


def _quotient(
    power: Complex128[np.ndarray, "T r"],
    exponents: Complex128[np.ndarray, "T r"],
    gap: Complex128[np.ndarray, " r"],
    slope: Any,
) -> Complex128[np.ndarray, "T r"]:
    """The difference of two powers over the gap of their roots; `slope` times the power at none."""
    safe = np.where(gap == 0, 1, gap)
    return power * np.where(gap == 0, slope, -np.expm1(exponents) / safe)


def _with_limit(
    found: Share, times: Float64[np.ndarray, " T"], rates: Float64[np.ndarray, " r"], stable: float
) -> Share:
    """Put in infinite time: nothing left, all where the kernel vanishes, inf if it diverges."""
    with np.errstate(invalid="ignore"):
        limit = np.where(rates > stable, np.inf, np.where((rates == 0) | (rates == stable), 1.0, 0))
        ended = np.isinf(times)[:, None]
        # Where powers beyond float64 cancel, they are nan.
        lost = ended | (np.isnan(found.left) & (rates > stable)[None, :])
        left = np.where(lost, limit[None, :], found.left)
        return Share(left, np.where(lost, 1 - limit[None, :], found.learnt))


def _finite(times: Float64[np.ndarray, " T"]) -> Float64[np.ndarray, " T"]:
    return np.where(np.isinf(times), 0.0, times)


def _complex(values: Float64[np.ndarray, " r"]) -> Complex128[np.ndarray, " r"]:
    return np.asarray(values, np.complex128)


def first_step(reached: Callable[[int | float], bool]) -> int | float:
    """The first step at which a goal is reached, by bisection; infinity if it never is.

    What has been reached must stay so at all later steps.
    """
    if not reached(math.inf):
        return math.inf
    if reached(0):
        return 0
    high = 1
    while not reached(high):
        high *= 2
    low = high // 2  # not reached there
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
