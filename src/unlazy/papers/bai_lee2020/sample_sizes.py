# SPDX-License-Identifier: Apache-2.0
"""Theorem 7's norm, and the sample sizes it gives: quadratic model against NTK."""

import math

import equinox as eqx

from unlazy.core.checks import MOST_TERMS, check_count, check_finite, check_positive
from unlazy.core.entries import entry


class SampleSizes(eqx.Module):
    """Sample sizes up to constants and logarithms: for comparison only."""

    quadratic: float
    ntk: float

    @property
    def ratio(self) -> float:
        """Of the quadratic model to the NTK: how many fewer samples it needs."""
        return self.quadratic / self.ntk


def check_ridge_power(power: int, name: str = "power") -> None:
    """Raise unless Theorem 7 covers the power: 2, 3, or even."""
    check_count(power, name, least=0, most=MOST_TERMS)
    if power < 2 or (power % 2 and power != 3):
        raise ValueError(
            f"`{name}` must be 2, 3, or an even number from 4 on, got {name}={power}. "
            "ReLU features do not see the odd powers from 3 on, and the quadratic term adds two: "
            "use a sum of admissible powers, or power_extraction with another activation."
        )


@entry
def ridge_norm_bound(
    power: int,
    *,
    alpha: int | float = 1.0,
    beta_norm: int | float = 1.0,
    radius: int | float = 1.0,
    delta: int | float = 1.0,
) -> float:
    r"""Theorem 7: how large a 2,4 norm suffices for the quadratic term to be a power.

    $$\|W^*\|_{2,4}^4 \le \frac{32\pi}{\delta} \max((p-2)^3, 1)\, \alpha^2 B_x^{2(p-2)}
    \|\beta\|^{2p}, \qquad f^Q_{W^*} \approx \alpha (\beta^\top x)^p$$

    with probability at least 1 - delta over the start.

    Source: BL-48, arXiv:1910.01619 Theorem 7.

    Args:
        power: p: 2, 3, or an even number from 4 on.
        alpha: the factor.
        beta_norm: $\|\beta\|$.
        radius: $B_x$.
        delta: failure probability; with 1 the bound is four times, or more, that of the mean.

    Returns:
        The bound on the norm itself, its fourth root.

    Raises:
        ValueError: the power is not admissible, or a number is not positive.

    Example:
        >>> print(round(ridge_norm_bound(4) ** 4, 1))  # 256 pi
        804.2
    """
    check_ridge_power(power)
    check_finite(alpha, "alpha")
    check_positive(beta_norm, "beta_norm")
    check_positive(radius, "radius")
    if not 0 < delta <= 1:
        raise ValueError(f"`delta` must be a probability in (0, 1], got delta={delta}.")
    growth = max((power - 2) ** 3, 1) * float(radius) ** (2 * power - 4)
    fourth = 32 * math.pi / delta * growth * float(alpha) ** 2 * float(beta_norm) ** (2 * power)
    return fourth**0.25


@entry
def quadratic_sample_size(
    *,
    norm: int | float,
    second_moment: int | float,
    radius: int | float = 1.0,
    epsilon: int | float,
) -> float:
    r"""Samples that the quadratic model needs to generalise, up to constants and logarithms.

    $$n_Q \sim \frac{B_x^4 B_w^4 M_{x,\mathrm{op}}^2}{\varepsilon^2}$$

    Source: BL-48, arXiv:1910.01619 after Theorem 6. Order only.

    Args:
        norm: $B_w$, the 2,4 norm of the movement that fits the target.
        second_moment: $M_{x,\mathrm{op}}$, from `second_moment_norm`.
        radius: $B_x$.
        epsilon: the gap aimed at.

    Raises:
        ValueError: a number is not positive.

    Example:
        >>> quadratic_sample_size(norm=2.0, second_moment=0.5, epsilon=0.5)
        16.0
    """
    for name, value in [("norm", norm), ("second_moment", second_moment), ("radius", radius)]:
        check_positive(value, name)
    check_positive(epsilon, "epsilon")
    size = float(radius) ** 4 * float(norm) ** 4 * float(second_moment) ** 2
    return size / float(epsilon) ** 2


@entry
def ridge_sample_sizes(
    d: int,
    power: int,
    *,
    epsilon: int | float,
    alpha: int | float = 1.0,
    beta_norm: int | float = 1.0,
) -> SampleSizes:
    r"""Sample sizes for $\alpha(\beta^\top x)^p$ on isotropic unit-norm inputs.

    $$n_Q \sim \frac{p^3 \alpha^2 \|\beta\|^{2p}}{d\, \varepsilon^2}, \qquad
    n_L \sim \frac{p^2 \alpha^2 \|\beta\|^{2p}}{\varepsilon^2}, \qquad
    \frac{n_Q}{n_L} \sim \frac pd$$

    Both are upper bounds, without their constants and logarithms; their ratio compares bounds.

    Source: BL-48, arXiv:1910.01619 section 5. Order only.

    Args:
        d: dimension.
        power: p: 2, 3, or an even number from 4 on.
        epsilon: the gap aimed at.
        alpha: the factor.
        beta_norm: $\|\beta\|$.

    Raises:
        ValueError: the power is not admissible, or a number is not positive.

    Example:
        >>> ridge_sample_sizes(100, 4, epsilon=0.1).ratio
        0.04
    """
    check_count(d, "d", most=None)
    check_ridge_power(power)
    check_finite(alpha, "alpha")
    check_positive(beta_norm, "beta_norm")
    check_positive(epsilon, "epsilon")
    scale = (float(alpha) / float(epsilon)) ** 2 * float(beta_norm) ** (2 * power)
    return SampleSizes(quadratic=power**3 * scale / d, ntk=power**2 * scale)


@entry
def xor_sample_sizes(d: int, *, epsilon: int | float) -> SampleSizes:
    r"""Sample sizes for $x_1 x_2$ on inputs of norm $\sqrt d$.

    $$n_Q \sim \frac{d}{\varepsilon^2}, \qquad n_L \gtrsim \frac{d^2}{\varepsilon^2}$$

    the second a lower bound for the NTK, cited by the paper.

    Source: BL-48, arXiv:1910.01619 section 5. Order only.

    Args:
        d: dimension.
        epsilon: the gap aimed at.

    Example:
        >>> xor_sample_sizes(20, epsilon=0.5)
        SampleSizes(quadratic=80.0, ntk=1600.0)
    """
    check_count(d, "d", most=None)
    check_positive(epsilon, "epsilon")
    return SampleSizes(quadratic=d / float(epsilon) ** 2, ntk=d**2 / float(epsilon) ** 2)
