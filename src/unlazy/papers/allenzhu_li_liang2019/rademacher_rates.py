# SPDX-License-Identifier: Apache-2.0
"""Rademacher rates of the networks near their start, and the calculus that gives them."""

import math
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import numpy as np

from unlazy.core.checks import as_number, check_count, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.papers.shared.conditions import check_delta


class NetworkRate(eqx.Module):
    """A Rademacher rate of a class of networks: what the pseudo class has, and the coupling to it.

    Constants and logarithms are left out; for comparison only.
    """

    pseudo: float
    coupling: float

    @property
    def total(self) -> float:
        """The sum of both."""
        return self.pseudo + self.coupling


@entry
def rademacher_linear_rate(
    n: int, *, norm: int | float, ball: Literal["l2", "l1"] = "l2", dimension: int | None = None
) -> float:
    r"""Linear functions with weights in a ball.

    $$\frac{B}{\sqrt n} \ (\ell_2 \text{ ball}, \|x\|_2 \le 1), \qquad
    B \sqrt{\frac{\log m}{n}} \ (\ell_1 \text{ ball}, \|x\|_\infty \le 1)$$

    Source: LG-19 (a) and (b), arXiv:1811.04918 Proposition A.12. Order only.

    Args:
        n: number of samples.
        norm: B, the radius.
        ball: "l2" or "l1".
        dimension: m, for the l1 ball.

    Raises:
        ValueError: a number is not positive, or `dimension` is missing.

    Example:
        >>> rademacher_linear_rate(100, norm=2.0)
        0.2
    """
    check_count(n, "n", most=None)
    check_positive(norm, "norm")
    check_name(ball, ["l2", "l1"], "ball")
    if ball == "l2":
        return float(norm) / math.sqrt(n)
    check_count(dimension, "dimension", most=None)
    return float(norm) * math.sqrt(math.log(dimension or 1) / n)


@entry
def rademacher_relu_layer(
    rates: Sequence[float],
    *,
    l1_norm: int | float | None = None,
    free: tuple[float, float, float] | None = None,
    n: int | None = None,
) -> float:
    r"""A ReLU layer over classes of known complexity, with output weights fixed or free.

    $$\{\textstyle\sum_j w_j \sigma(f_j)\}: \quad 2 \|w\|_1 \max_j \mathcal R(\mathcal F_j), \qquad
    \{\|v\|_1 \le B, \|v\|_\infty \le D\}: \quad 2 D \sum_j \mathcal R(\mathcal F_j)
    + B R \sqrt{\frac{\log m}{n}}$$

    where R bounds $|\sigma(f_j^0)|$ for a reference in each class. The second holds up to a
    constant in its last term.

    Source: LG-19 (e) and (f), arXiv:1811.04918 Proposition A.12.

    Args:
        rates: the complexities of the classes $\mathcal F_j$.
        l1_norm: $\|w\|_1$ of fixed weights.
        free: (B, D, R), for free weights.
        n: number of samples, for free weights.

    Raises:
        ValueError: not exactly one of `l1_norm` and `free` is given, `n` is missing, or a number is
            negative or not finite.

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
    return 2 * D * sum(sizes) + B * R * math.sqrt(math.log(len(sizes)) / (n or 1))


@entry
def rademacher_two_layer_rate(
    n: int, m: int, *, tau: int | float, output_scale: int | float = 1.0
) -> NetworkRate:
    r"""Two-layer learners whose rows move by at most $\tau$.

    $$\frac{\varepsilon_a\, m\, \tau}{\sqrt n}$$

    Source: LG-19, arXiv:1811.04918 Lemma B.5. Order only; `rademacher_pseudo_two_layer` is exact.

    Args:
        n: number of samples.
        m: width.
        tau: $\|W'\|_{2,\infty}$ at most.
        output_scale: $\varepsilon_a$.

    Example:
        >>> rademacher_two_layer_rate(100, 50, tau=0.1, output_scale=0.2).total
        0.1
    """
    check_count(n, "n", most=None)
    check_count(m, "m", most=None)
    check_positive(tau, "tau")
    check_positive(output_scale, "output_scale")
    return NetworkRate(float(output_scale) * m * float(tau) / math.sqrt(n), 0.0)


@entry
def rademacher_three_layer_rate(
    n: int,
    widths: tuple[int, int],
    *,
    tau_w: int | float,
    tau_v: int | float,
    variant: Literal[1, 2] = 2,
) -> NetworkRate:
    r"""Three-layer learners near their start, without (1) and with (2) random signs.

    $$\mathcal R_1 = \frac{\tau_w m_1 \sqrt{m_2} + \tau_v m_2}{\sqrt n} +
    \frac{\tau_v \sqrt{m_1 m_2 \tau_w (m_1^{-1/2} + \tau_w)}}{n^{1/4}}$$

    $$\mathcal R_2 = \frac{\tau_w \tau_v m_1^{1/4} \sqrt{m_2}}{\sqrt n} + \Big[
    \tau_w^{8/5} m_1^{9/10} + \tau_w^{16/5} m_1^{9/5} \sqrt{m_2} + \tau_v \sqrt{m_2/m_1} \Big]$$

    for $\|W'\|_{2,4} \le \tau_w$ and $\|V'\|_F \le \tau_v$; the bracket couples the network to its
    pseudo network.

    Source: LG-19, arXiv:1811.04918 Lemmas 6.10 and 6.12. Order only;
    `rademacher_pseudo_three_layer` is exact for the first term of the second.

    Args:
        n: number of samples.
        widths: $(m_1, m_2)$.
        tau_w: bound on the movement of W.
        tau_v: bound on the movement of V.
        variant: 1 or 2.

    Raises:
        ValueError: a number is not positive, `widths` are not two, or `variant` is not 1 or 2.

    Example:
        >>> rate = rademacher_three_layer_rate(100, (16, 25), tau_w=0.1, tau_v=1.0)
        >>> print(round(rate.pseudo, 6))
        0.1
    """
    check_count(n, "n", most=None)
    if np.shape(widths) != (2,):
        raise ValueError(f"`widths` must be two numbers, (m1, m2), got widths={widths!r}.")
    for width in widths:
        check_count(width, "widths", most=None)
    check_positive(tau_w, "tau_w")
    check_positive(tau_v, "tau_v")
    if variant not in (1, 2):
        raise ValueError(f"`variant` must be 1 or 2, got variant={variant}.")
    (m1, m2), w, v = widths, float(tau_w), float(tau_v)
    if variant == 1:
        first = (w * m1 * math.sqrt(m2) + v * m2) / math.sqrt(n)
        return NetworkRate(first + v * math.sqrt(m1 * m2 * w * (m1**-0.5 + w)) / n**0.25, 0.0)
    bracket = w**1.6 * m1**0.9 + w**3.2 * m1**1.8 * math.sqrt(m2) + v * math.sqrt(m2 / m1)
    return NetworkRate(w * v * m1**0.25 * math.sqrt(m2 / n), bracket)


@entry
def generalization_gap(
    rademacher: float, n: int, *, delta: float, bound: int | float = 1.0
) -> float:
    r"""From a Rademacher complexity to a gap that holds for the whole class.

    $$\sup_{f} \big| \mathbb E L(f) - \hat L(f) \big| \le 2 \mathcal R +
    b \sqrt{\frac{\log(2/\delta)}{2n}}$$

    for losses in [0, b] that are 1-Lipschitz, with probability 1 - delta; $\mathcal R$ the
    expectation over samples, too. For k outputs $\mathcal R$ is the sum over outputs, and a factor
    $\sqrt 2$ of the vector contraction goes in front of it.

    Source: LG-19, arXiv:1811.04918 Corollary A.11; the constants are the usual ones.

    Args:
        rademacher: $\mathcal R$.
        n: number of samples.
        delta: failure probability.
        bound: b.

    Raises:
        ValueError: `rademacher` is negative or not finite, another number not positive, or `delta`
            not in (0, 1).

    Example:
        >>> print(round(generalization_gap(0.1, 1000, delta=0.1), 4))
        0.2387
    """
    complexity = as_number(rademacher, "rademacher", least=0)
    check_count(n, "n", most=None)
    check_delta(delta)
    check_positive(bound, "bound")
    return 2 * complexity + float(bound) * math.sqrt(math.log(2 / delta) / (2 * n))
