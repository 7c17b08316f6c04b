# SPDX-License-Identifier: Apache-2.0
"""Table 1: the parameters that the theorems on three-layer learners prescribe, and constraints."""

import math

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry
from unlazy.papers.shared.conditions import Condition, Prescription, check_epsilon

# The exponents of C0, epsilon, m1 and m2 in each parameter.
_EXPONENTS = {
    "tau_w_inf": (1, 0, -0.995, 0),
    "tau_v_inf": (0, 0, 0.495, -1),
    "target_w": (1, -1 / 4, -0.745, 0),
    "target_v": (0, -1 / 2, 0.495, -1 / 2),
    "tau_w": (0, 0, -0.73, 0),
    "tau_v": (0, 0, 0.499, -1 / 2),
    "sigma_w": (0, 0, -0.985, 0),
    "sigma_v": (0, 0, 0, -0.51),
}


class ThreeLayerTheory(Prescription):
    """The parameters of Table 1 and their constraints; `print` shows them."""

    tau_w_inf: float  # the longest row of W*
    tau_v_inf: float
    target_w: float  # tau'_w: where the penalty of W is 2, in the 2,4 norm
    target_v: float  # tau'_v: the same of V, in Frobenius norm
    lam_w: float
    lam_v: float
    tau_w: float  # how far W may move, in the 2,4 norm
    tau_v: float
    sigma_w: float  # of the noise
    sigma_v: float
    conditions: tuple[Condition, ...]


@entry
def three_layer_theory(
    widths: tuple[int, int],
    *,
    epsilon: float,
    C0: int | float = 1.0,
    tau_w: int | float | None = None,
    tau_v: int | float | None = None,
    sigma_w: int | float | None = None,
    sigma_v: int | float | None = None,
    polylog: int | float = 1.0,
) -> ThreeLayerTheory:
    r"""Movements, noise and penalties of the theorems on three-layer learners, and constraints.

    $$\tau_{w,\infty} = \frac{C_0}{m_1^{1-0.005}}, \quad
    \tau_{v,\infty} = \frac{m_1^{1/2-0.005}}{m_2}, \quad
    \tau'_w = \frac{C_0}{\varepsilon^{1/4} m_1^{3/4-0.005}}, \quad
    \tau'_v = \frac{m_1^{1/2-0.005}}{\varepsilon^{1/2} m_2^{1/2}}$$

    $$\lambda_w = \frac{2}{\tau_w'^4}, \quad \lambda_v = \frac{2}{\tau_v'^2}, \quad
    \tau_w = m_1^{-3/4+0.02}, \quad \tau_v = \frac{m_1^{1/2-0.001}}{m_2^{1/2}}, \quad
    \sigma_w = m_1^{-1+0.015}, \quad \sigma_v = m_2^{-1/2-0.01}$$

    Valid where $\sigma_w \in [m_1^{-3/2}, \tau_w m_1^{-1/4}]$, $\sigma_v \le m_2^{-1/2}$,
    $\tau_v \le 1$, $\tau_w \le m_1^{-9/16}$, the movements are larger than the targets by
    `polylog`, and $m_1 \tau_{w,\infty}^2/\sigma_w$, $m_2 \tau_{w,\infty}^2/\sigma_v$ and
    $(m_2/m_1) \tau_{v,\infty}^2/\sigma_v$ are smaller than $\varepsilon$ by it. The powers are so
    small that at $\varepsilon = 0.01$ and $C_0 = 1$ this takes a width of $10^{400}$: it says which
    constraints a practical setting fails, and by what factor. Hidden constants are set to 1.

    The widths may be beyond the range of floats. `epsilon` is the excess risk aimed at, `C0` comes
    from `three_layer_rates`, and `polylog` is the factor behind "much smaller". A movement or noise
    that is given stands in place of its formula.

    Source: LG-18, arXiv:1811.04918 Table 1; the slack of $\tau_w$ and $\sigma_w$ is a choice within
    the constraints, and $\varepsilon$ stands for the paper's $\varepsilon_0$ and $\varepsilon$.

    Example:
        >>> theory = three_layer_theory((1000, 1000), epsilon=0.1)
        >>> [condition.text for condition in theory.failed][:1]
        ['polylog m1 tau_w_inf^2/sigma_w <= epsilon']
        >>> three_layer_theory((10**450, 10**450), epsilon=0.01).valid
        True
    """
    for width in widths:
        check_count(width, "widths", most=None)
    check_epsilon(epsilon)
    given = {"tau_w": tau_w, "tau_v": tau_v, "sigma_w": sigma_w, "sigma_v": sigma_v}
    for name, value in ({"C0": C0, "polylog": polylog} | given).items():
        if value is not None:
            check_positive(value, name)
    # All in logarithms: powers of widths that no float holds cancel.
    bases = tuple(math.log(value) for value in (C0, epsilon, *widths))
    logs = {
        name: sum(power * base for power, base in zip(powers, bases, strict=True))
        for name, powers in _EXPONENTS.items()
    }
    logs |= {name: math.log(value) for name, value in given.items() if value is not None}
    logs["lam_w"] = math.log(2) - 4 * logs["target_w"]
    logs["lam_v"] = math.log(2) - 2 * logs["target_v"]
    conditions = _conditions(bases[2], bases[3], bases[1], math.log(polylog), logs)
    numbers = {name: _number(log) for name, log in logs.items()}
    return ThreeLayerTheory(**numbers, conditions=conditions)


def _conditions(
    m1: float, m2: float, eps: float, log: float, t: dict[str, float]
) -> tuple[Condition, ...]:
    """The constraints, by the logarithms of all quantities; `log` is that of `polylog`."""
    w, v = 2 * t["tau_w_inf"], 2 * t["tau_v_inf"]
    first = log + m1 + w - t["sigma_w"]
    second = log + m2 + w - t["sigma_v"]
    third = log + m2 - m1 + v - t["sigma_v"]
    return (
        _condition("m1^(-3/2) <= sigma_w", -1.5 * m1, t["sigma_w"]),
        _condition("sigma_w <= tau_w m1^(-1/4)", t["sigma_w"], t["tau_w"] - m1 / 4),
        _condition("sigma_v <= m2^(-1/2)", t["sigma_v"], -m2 / 2),
        _condition("tau_v <= 1", t["tau_v"], 0.0),
        _condition("tau_w <= m1^(-9/16)", t["tau_w"], -9 / 16 * m1),
        _condition("polylog m1 tau_w_inf^2/sigma_w <= epsilon", first, eps),
        _condition("polylog m2 tau_w_inf^2/sigma_v <= epsilon", second, eps),
        _condition("polylog (m2/m1) tau_v_inf^2/sigma_v <= epsilon", third, eps),
        _condition("polylog tau'_w <= tau_w", log + t["target_w"], t["tau_w"]),
        _condition("polylog tau'_v <= tau_v", log + t["target_v"], t["tau_v"]),
    )


def _condition(text: str, value: float, most: float) -> Condition:
    """Compare two numbers given by logarithms, through their ratio where a float overflows."""
    if max(abs(value), abs(most)) < 700:
        return Condition(text, math.exp(value), math.exp(most))
    return Condition(text, _number(value - most), 1.0)


def _number(log: float) -> float:
    """The exponential, infinite beyond the largest float."""
    return math.exp(log) if log < 709 else math.inf
