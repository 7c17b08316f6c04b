# SPDX-License-Identifier: Apache-2.0
"""Lemmas 6.10, 6.12 and B.5, Proposition A.12, Corollary A.11: rates of Rademacher complexities."""

import inspect
import math
from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np

from unlazy.core.checks import as_number, check_count, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.papers.shared.conditions import check_delta

_COUNTS = ("n", "m", "d", "m1", "m2")

# The rates by the statement that gives them.
RATES: dict[str, Callable[..., float]] = {
    "A.12(a)": lambda n, B: B / sqrt(n),
    "A.12(b)": lambda n, B, d: B * sqrt(math.log(d) / n),
    "B.5": lambda n, m, tau, eps_a: eps_a * m * tau / sqrt(n),
    "6.10": lambda n, m1, m2, tau_w, tau_v: (
        (tau_w * m1 * sqrt(m2) + tau_v * m2) / sqrt(n)
        + tau_v * sqrt(m1 * m2 * tau_w * (m1**-0.5 + tau_w)) / n**0.25
    ),
    "6.12": lambda n, m1, m2, tau_w, tau_v: tau_w * tau_v * m1**0.25 * sqrt(m2 / n),
    "6.12 coupling": lambda m1, m2, tau_w, tau_v: (
        tau_w**1.6 * m1**0.9 + tau_w**3.2 * m1**1.8 * sqrt(m2) + tau_v * sqrt(m2 / m1)
    ),
}


@entry
def rademacher_rate(statement: str, **numbers: int | float) -> float:
    r"""The rate of a Rademacher complexity, by the number of the statement that gives it.

    "A.12(a)" and "A.12(b)" are about linear functions with weights in the $\ell_2$ ball, for
    $\|x\|_2 \le 1$, and in the $\ell_1$ ball, for $\|x\|_\infty \le 1$; "B.5" about two-layer
    learners with $\|W'\|_{2,\infty} \le \tau$; "6.10" and "6.12" about three-layer learners with
    $\|W'\|_{2,4} \le \tau_w$ and $\|V'\|_F \le \tau_v$, without and with random signs.

    $$\mathcal R_{A.12(a)} = \frac{B}{\sqrt n}, \qquad
    \mathcal R_{A.12(b)} = B \sqrt{\frac{\log d}{n}}, \qquad
    \mathcal R_{B.5} = \frac{\varepsilon_a\, m\, \tau}{\sqrt n}$$

    $$\mathcal R_{6.10} = \frac{\tau_w m_1 \sqrt{m_2} + \tau_v m_2}{\sqrt n} +
    \frac{\tau_v \sqrt{m_1 m_2 \tau_w (m_1^{-1/2} + \tau_w)}}{n^{1/4}}$$

    $$\mathcal R_{6.12} = \frac{\tau_w \tau_v m_1^{1/4} \sqrt{m_2}}{\sqrt n} + \Big[
    \tau_w^{8/5} m_1^{9/10} + \tau_w^{16/5} m_1^{9/5} \sqrt{m_2} + \tau_v \sqrt{m_2/m_1} \Big]$$

    "6.12" returns the first term of the last, for the pseudo networks; "6.12 coupling" returns the
    bracket, which couples the networks to them. These are orders, without constants and logarithms;
    `rademacher_pseudo_two_layer` and `rademacher_pseudo_three_layer` are exact.

    Source: LG-19, arXiv:1811.04918 Proposition A.12, Lemmas B.5, 6.10 and 6.12.

    Args:
        statement: "A.12(a)", "A.12(b)", "B.5", "6.10", "6.12" or "6.12 coupling".
        numbers: those in its formula, by their names: n, m, d, m1, m2, B, tau, tau_w, tau_v, eps_a.

    Example:
        >>> rademacher_rate("A.12(a)", n=100, B=2.0)
        0.2
        >>> rademacher_rate("B.5", n=100, m=50, tau=0.1, eps_a=0.2)
        0.1
        >>> print(round(rademacher_rate("6.12", n=100, m1=16, m2=25, tau_w=0.1, tau_v=1.0), 6))
        0.1
    """
    check_name(statement, RATES, "statement")
    wanted = tuple(inspect.signature(RATES[statement]).parameters)
    if set(numbers) != set(wanted):
        raise ValueError(
            f"`numbers` must be {', '.join(wanted)} for statement={statement!r}, "
            f"got {', '.join(numbers) or 'none'}."
        )
    for name, value in numbers.items():
        if name in _COUNTS:
            check_count(value, name, most=None)
        else:
            check_positive(value, name)
            numbers[name] = float(value)
    return float(RATES[statement](**numbers))


@entry
def rademacher_relu_layer(
    rates: Sequence[float],
    *,
    l1_norm: int | float | None = None,
    free: tuple[float, float, float] | None = None,
    n: int | None = None,
) -> float:
    r"""Bound the complexity of a ReLU layer over classes $\mathcal F_j$ of known complexity.

    $$\{\textstyle\sum_j w_j \sigma(f_j)\}: \quad 2 \|w\|_1 \max_j \mathcal R(\mathcal F_j), \qquad
    \{\|v\|_1 \le B, \|v\|_\infty \le D\}: \quad 2 D \sum_j \mathcal R(\mathcal F_j)
    + B R \sqrt{\frac{\log m}{n}}$$

    for fixed output weights, with `l1_norm` for $\|w\|_1$, and for free ones, with `free` for
    (B, D, R) and n samples. R bounds $|\sigma(f_j^0)|$ for a reference in each class. The second
    bound holds up to a constant in its last term.

    Source: LG-19 (e) and (f), arXiv:1811.04918 Proposition A.12.

    Example:
        >>> rademacher_relu_layer([0.1, 0.2], l1_norm=3.0)
        1.2000000000000002
    """
    if not len(rates):
        raise ValueError("`rates` must be at least one, got none.")
    if (l1_norm is None) == (free is None):
        raise ValueError(
            f"`l1_norm` must be given, or else `free`, got l1_norm={l1_norm} and free={free}."
        )
    sizes = [as_number(rate, "rates", least=0) for rate in rates]
    if free is None:
        return 2 * as_number(l1_norm, "l1_norm", least=0) * max(sizes)
    check_count(n, "n", most=None)
    if np.shape(free) != (3,):
        raise ValueError(f"`free` must be three numbers, (B, D, R), got free={free!r}.")
    B, D, R = (as_number(value, "free", least=0) for value in free)
    return 2 * D * sum(sizes) + B * R * sqrt(math.log(len(sizes)) / (n or 1))


@entry
def generalization_gap(
    rademacher: float, n: int, *, delta: float, bound: int | float = 1.0
) -> float:
    r"""Bound the generalisation gap of a whole class by its Rademacher complexity.

    $$\sup_{f} \big| \mathbb E L(f) - \hat L(f) \big| \le 2 \mathcal R +
    b \sqrt{\frac{\log(2/\delta)}{2n}}$$

    with probability $1 - \delta$, for losses in [0, `bound`] that are 1-Lipschitz; $\mathcal R$ is
    the expectation over samples, too. For k outputs $\mathcal R$ is the sum over outputs, and a
    factor $\sqrt 2$ of the vector contraction goes in front of it.

    Source: LG-19, arXiv:1811.04918 Corollary A.11; the constants are the usual ones.

    Example:
        >>> print(round(generalization_gap(0.1, 1000, delta=0.1), 4))
        0.2387
    """
    complexity = as_number(rademacher, "rademacher", least=0)
    check_count(n, "n", most=None)
    check_delta(delta)
    check_positive(bound, "bound")
    return 2 * complexity + float(bound) * sqrt(math.log(2 / delta) / (2 * n))
