# SPDX-License-Identifier: Apache-2.0
"""Theorem 1: what it prescribes for residual learners, and which conditions a setting fails."""

import math
import sys
from dataclasses import dataclass

import equinox as eqx

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry
from unlazy.papers.shared.conditions import Condition, Prescription


@dataclass(frozen=True)
class ResNetConstants:
    """The constants that the theorem hides, and its polylogarithms."""

    tau_w: int | float = 1.0
    tau_v: int | float = 1.0
    delta: int | float = 1.0
    steps: int | float = 1.0
    polylog: int | float = 1.0  # log(m), say

    @entry
    def __post_init__(self):
        for name in ("tau_w", "tau_v", "delta", "steps", "polylog"):
            check_positive(getattr(self, name), name)


class ResNetTheory(Prescription):
    """What the theorem prescribes, and its conditions; `print` shows them as a table."""

    tau_w: float  # how far W moves, at most, in Frobenius norm
    tau_v: float
    delta: float  # the risk promised, on average over the steps
    steps: float  # T, one fresh sample per step: a sample size, too
    rate_w: float
    rate_v: float
    conditions: tuple[Condition, ...]


@entry
def resnet_theory(
    m: int,
    k: int,
    *,
    alpha: int | float,
    c_s_F: int | float,
    c_s_G: int | float,
    p_F: int = 1,
    p_G: int = 1,
    B_F: int | float | None = None,
    opt: int | float = 0.0,
    delta: int | float | None = None,
    sigma_w: int | float | None = None,
    sigma_v: int | float = 1.0,
    constants: ResNetConstants | None = None,
) -> ResNetTheory:
    r"""Movements, risk, steps and rates of the theorem for $F + \alpha G(F)$, and its conditions.

    $$\tau_w = \max(1, k p_F C_s(F)), \quad \tau_v = \alpha k p_G C_s(G), \quad
    \delta \ge \mathrm{OPT} + \alpha^4 (k p_G C_s(G))^4 (1 + B_F)^2, \quad
    T = \frac{\tau_w^2}{\min(1, \delta^2)}$$

    $$\eta_w = \min(0.1, \delta), \qquad \eta_v = \eta_w (\tau_v / \tau_w)^2$$

    Valid where $\tau_w \in [m^{1/8+0.001} \sigma_w, m^{1/8-0.001} \sigma_w^{1/4}]$,
    $\tau_v \in [\sigma_v (k/m)^{3/8}, \sigma_v/\mathrm{polylog}]$ and at most 1/polylog,
    $\sigma_v \ge \tau_v^{-2}$, $\alpha \le 1/(k p_G C_s(G))$ and the start is in its ranges. At
    practical widths several fail: this says which, and by what factor. Rates with hidden constants
    set to 1, never a certified bound. `ResidualConcept.theory` takes a concept and a network.

    Source: RN-28, RN-5 and RN-14, arXiv:1905.10337 Theorem 1 and appendix C, where
    $\sigma_v \ge \tau_v^{-2}$ is used without being stated.

    Args:
        m: width.
        k: outputs.
        alpha: the size of the composite signal.
        c_s_F: the complexity $C_s$ of the base signal's functions, from `function_complexity`.
        c_s_G: that of the composite's.
        p_F: terms per output of F.
        p_G: terms per output of G.
        B_F: bound on $\|F(x)\|$; None for $\sqrt k p_F C_s(F)$, and 1 for unit-norm F.
        opt: the half risk of the target itself.
        delta: the risk to be promised; None for the least one. A smaller one than that is a
            condition that fails.
        sigma_w: $\sigma_w$ of the initialisation; None for $m^{-1/4}$.
        sigma_v: $\sigma_v$.
        constants: the hidden ones; None for 1.

    Raises:
        ValueError: a number is not positive, or a count other than `m` is beyond the range of
            floats; `opt` may be zero.

    Example:
        >>> theory = resnet_theory(1000, 1, alpha=0.1, c_s_F=2.0, c_s_G=2.0, B_F=1.0)
        >>> [condition.text for condition in theory.failed][:2]
        ['tau_v^-2 <= sigma_v', 'tau_w <= m^(1/8-.001) sigma_w^(1/4)']
    """
    c = ResNetConstants() if constants is None else constants
    for name, count in (("m", m), ("k", k), ("p_F", p_F), ("p_G", p_G)):
        check_count(count, name, most=None)
        if name != "m" and count > sys.float_info.max:
            raise ValueError(
                f"`{name}` must be in the range of floats, got a number above "
                f"{sys.float_info.max:.3g}."
            )
    spread = _root(m, -0.25) if sigma_w is None else float(sigma_w)
    reach = math.sqrt(k) * p_F * float(c_s_F) if B_F is None else float(B_F)
    positive = {"alpha": alpha, "c_s_F": c_s_F, "c_s_G": c_s_G, "B_F": reach}
    for name, value in (positive | {"sigma_w": spread, "sigma_v": sigma_v}).items():
        check_positive(value, name)
    if delta is not None:
        check_positive(delta, "delta")
    if not (math.isfinite(opt) and opt >= 0):
        raise ValueError(f"`opt` must be finite and at least 0, got opt={opt}.")
    size_G = k * p_G * float(c_s_G)
    tau_w = max(1.0, c.tau_w * k * p_F * float(c_s_F))
    tau_v = c.tau_v * float(alpha) * size_G
    root = _power(float(alpha) * size_G, 2) * (1 + reach)
    least = float(opt) + c.delta * _power(root, 2)
    promised = least if delta is None else float(delta)
    rate_w = min(0.1, promised)
    return ResNetTheory(
        tau_w=tau_w,
        tau_v=tau_v,
        delta=promised,
        steps=c.steps * _power(min(1.0, promised) / tau_w, -2),
        rate_w=rate_w,
        rate_v=rate_w * _power(tau_v / tau_w, 2),
        conditions=(
            Condition("alpha <= 1/(k p_G C_s(G))", float(alpha), 1 / size_G),
            Condition("OPT + (alpha k p_G C_s(G))^4 (1 + B_F)^2 <= delta", least, promised),
            *_conditions(m, k, tau_w, tau_v, spread, float(sigma_v), c.polylog),
        ),
    )


def _power(base: float, exponent: int) -> float:
    """A power that is infinite where Python's raises."""
    try:
        return base**exponent
    except (OverflowError, ZeroDivisionError):
        return math.inf


def _root(count: int, exponent: float) -> float:
    """A small power of a count, which itself may be beyond the range of floats."""
    try:
        return float(count) ** exponent
    except OverflowError:
        log = exponent * math.log(count)
        return math.exp(log) if log < 709 else math.inf


def _conditions(m, k, tau_w, tau_v, sigma_w, sigma_v, polylog) -> tuple[Condition, ...]:
    widest = _root(m, 0.124) * sigma_w**0.25
    return (
        Condition("m^(1/8+.001) sigma_w <= tau_w", _root(m, 0.126) * sigma_w, tau_w),
        Condition("tau_w <= m^(1/8-.001) sigma_w^(1/4)", tau_w, widest),
        Condition("sigma_v (k/m)^(3/8) <= tau_v", sigma_v * (k / m) ** 0.375, tau_v),
        Condition("tau_v <= sigma_v/polylog", tau_v, sigma_v / polylog),
        Condition("tau_v <= 1/polylog", tau_v, 1 / polylog),
        Condition("tau_v^-2 <= sigma_v", _power(tau_v, -2), sigma_v),
        Condition("m^(-1/2+.01) <= sigma_w", _root(m, -0.49), sigma_w),
        Condition("sigma_w <= m^-.01", sigma_w, _root(m, -0.01)),
        Condition("polylog <= sigma_v", polylog, sigma_v),
        Condition("sigma_v <= m^(3/8-.01)", sigma_v, _root(m, 0.365)),
    )


class ResNetSampleSizes(eqx.Module):
    """Sample sizes for the hard class, up to constants, as decimal logarithms."""

    log10_resnet: float  # enough for SGD on the residual network
    log10_kernel: float  # not enough for any kernel method


@entry
def resnet_sample_sizes(
    d: int, k: int, *, alpha: int | float, free: int | None = None
) -> ResNetSampleSizes:
    r"""Samples for $x_{i_r} + \alpha \chi_S(x)$, $|S| = k$: residual network against kernels.

    $$N_{\mathrm{res}} \sim \frac{k^2 d}{\alpha^8}, \qquad
    N_{\mathrm{ker}} \ge \frac{1}{1000} \binom{d_1}{k}$$

    $N_{\mathrm{res}}$ samples reach a risk of order $\alpha^4 2^{O(k)}$; with $N_{\mathrm{ker}}$, a
    kernel method leaves $\alpha^2/16$ in 99% of the targets. With $\alpha = d^{-0.1}$ these are
    $d^{1.8}$ and $d^k$. S is taken from $d_1$ of the d inputs: `free`, by default all.

    Source: RN-29, arXiv:1905.10337 Corollary 7.1 and Theorem 2. The first is an order only.

    Raises:
        ValueError: `k` exceeds the number of inputs, or `alpha` is not positive.

    Example:
        >>> sizes = resnet_sample_sizes(10**6, 4, alpha=0.5)
        >>> print(round(sizes.log10_resnet, 1), round(sizes.log10_kernel, 1))
        9.6 19.6
    """
    check_count(d, "d", most=None)
    check_count(k, "k", most=None)
    check_positive(alpha, "alpha")
    free = d if free is None else free
    check_count(free, "free", most=None)
    if not k <= free <= d:
        raise ValueError(
            f"`free` must lie between k={k} and d={d}, inputs to take S from, got free={free}."
        )
    resnet = 2 * math.log10(k) + math.log10(d) - 8 * math.log10(alpha)
    return ResNetSampleSizes(resnet, math.log10(math.comb(free, k)) - 3)
