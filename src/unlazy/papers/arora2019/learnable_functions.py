# SPDX-License-Identifier: Apache-2.0
"""Theorem 6.1: functions that wide networks learn, by bounds on the label energy for every n."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import check_count, check_inputs, check_unit_rows
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.kernels import relu_gram
from unlazy.labels.energies import energy as label_energy
from unlazy.papers.arora2019.target_functions import Power, Powers, TargetFunction, row_norms
from unlazy.papers.shared.activation_patterns import Inputs

_LARGEST = math.log(np.finfo(np.float64).max)
_TOO_LARGE = "the bound is above 1.8e308, the largest number of float64: the function is too steep"


@entry
def ntk_series_coefficients(degree: int) -> Float64[np.ndarray, " q"]:
    r"""Coefficients of the power series of H-infinity, from degree 0 to `degree`.

    $$H = \sum_p c_p K^{\circ p}, \qquad c_1 = \frac14, \qquad
    c_{2l} = \frac{1}{2\pi} \frac{(2l-3)!!}{(2l-2)!!} \frac{1}{2l-1}$$

    with $K$ the Gram matrix of unit-norm inputs and $\circ$ the entrywise power. None is negative;
    $c_0$ and all odd ones from $c_3$ on vanish: the kernel does not see those degrees. They sum to
    1/2, but slowly, like $p^{-1/2}$: to evaluate the kernel use `relu_gram`.

    Source: AR-7, arXiv:1901.08584 proof of Theorem 6.1.

    Example:
        >>> print(ntk_series_coefficients(4) * 12 * np.pi)
        [0.         9.42477796 6.         0.         1.        ]
    """
    check_count(degree, "degree", least=0, most=10**6)
    c = np.zeros(degree + 1)
    if degree >= 1:
        c[1] = 0.25
    ratio = 1.0  # (2l-3)!!/(2l-2)!!, by its recurrence: the factorials themselves overflow
    for l in range(1, degree // 2 + 1):
        c[2 * l] = ratio / (2 * math.pi * (2 * l - 1))
        ratio *= (2 * l - 1) / (2 * l)
    return c


class LearnableBound(eqx.Module):
    r"""Bounds on $\sqrt{y^\top H^{-1} y}$, loosest first, for labels that a function gives.

    All are `inf` when the kernel does not see a degree of the function; a single one is `inf` when
    it is above the largest number of float64. `reason` says which.
    """

    paper: float
    proof: float
    sharp: float
    tensor: float
    reason: str | None  # why a bound is infinite; None when all are finite


@entry
def learnable(*functions: TargetFunction) -> LearnableBound:
    r"""Bounds on the label energy of a sum of powers of linear forms, for any number of samples.

    For $y_i = \sum_j \alpha_j (\beta_j^\top x_i)^{p_j}$ with unit-norm $x_i$ and $p_j$ equal to 1
    or even,

    $$\sqrt{y^\top H^{-1} y} \;\le\; \sum_j k_{p_j} |\alpha_j| \|\beta_j\|^{p_j}$$

    with the factors

    - `paper`: $k_p = 3p$;
    - `proof`: $k_1 = 2$ and $k_p = \sqrt{2\pi} (p-1)$, what the paper's proof gives;
    - `sharp`: $k_p = c_p^{-1/2}$ with $c_p$ of `ntk_series_coefficients`, which grows like
      $p^{3/4}$: 2, 2.507, 6.140, 9.153 for p = 1, 2, 4, 6;

    and, never above them, the `tensor` form, in which degrees add in squares and terms of one
    degree may cancel:

    $$y^\top H^{-1} y \le \sum_p \frac1{c_p} \sum_{j,k:\, p_j = p_k = p}
    \alpha_j \alpha_k (\beta_j^\top \beta_k)^p$$

    It gives $\sqrt{2\pi} \|A\|_F$ for a quadratic form (the paper: $6 \|A\|_*$) and $\sqrt{2\pi d}$
    for the constant 1. An odd $p \ge 3$ has no bound: the kernel does not see that degree, and the
    energy grows with n. The result is then `inf`, with the reason. Squared, a bound is the $M_g$ of
    `sample_size`. Several functions, `Power`, `QuadraticForm`, `Cosine`, `Arctan`, `Constant` or
    any other `TargetFunction`, are bounded as their sum.

    Source: AR-19, arXiv:1901.08584 Theorem 6.1 and Corollary 6.2; `sharp` and `tensor` are derived.
    The paper's examples give these as bounds on the energy itself, where they should be squared.

    Example:
        >>> e1 = np.array([1.0, 0.0, 0.0])
        >>> bound = learnable(Power(1.0, e1, 2))
        >>> print(bound.paper, round(bound.sharp, 4))
        6.0 2.5066
        >>> print(learnable(Power(1.0, e1, 3)).reason)
        degree 3 is odd: the kernel does not see it, and the label energy grows with n
    """
    terms = _collect([function.powers() for function in functions])
    norms = row_norms(terms.beta)
    present = (terms.alpha != 0) & (norms > 0)
    hidden = sorted({int(p) for p in terms.p[present] if p % 2 == 1 and p >= 3})
    if hidden:
        named = ", ".join(str(p) for p in hidden)
        is_odd = "degree {} is odd" if len(hidden) == 1 else "degrees {} are odd"
        it = "it" if len(hidden) == 1 else "them"
        reason = f"{is_odd.format(named)}: the kernel does not see {it}, and the label energy grows"
        return LearnableBound(math.inf, math.inf, math.inf, math.inf, reason + " with n")
    if np.any(np.isinf(terms.alpha)):
        return LearnableBound(math.inf, math.inf, math.inf, math.inf, _TOO_LARGE)
    terms = Powers(terms.alpha[present], terms.beta[present], terms.p[present])
    c = ntk_series_coefficients(int(max(terms.p, default=0)))[terms.p]
    scaled = _scaled(terms)
    proof = np.where(terms.p == 1, 2.0, math.sqrt(2 * math.pi) * (terms.p - 1))
    sums = [np.sum(k * scaled.sizes) for k in (3 * terms.p, proof, 1 / np.sqrt(c))]
    bounds = [_unscaled(one, scaled) for one in (*sums, _tensor_bound(terms, scaled, c))]
    huge = None if all(map(math.isfinite, bounds)) else _TOO_LARGE
    return LearnableBound(*bounds, reason=huge)


class LearnableChain(eqx.Module):
    r"""The three members of the proof's chain, each at most the next."""

    energy: float  # y^T H^-1 y
    degree_energy: float  # (1/c_p) y^T (K^{o p})^+ y
    bound: float  # alpha^2 |beta|^{2p} / c_p


@entry
def learnable_chain(x: Inputs, power: Power) -> LearnableChain:
    r"""The chain of inequalities behind `learnable`, evaluated on a sample.

    $$y^\top H^{-1} y \;\le\; \frac1{c_p} y^\top (K^{\circ p})^+ y \;\le\;
    \frac{\alpha^2 \|\beta\|^{2p}}{c_p}$$

    for $y_i = \alpha (\beta^\top x_i)^p$ with p equal to 1 or even and unit-norm $x_i$: first
    $H \succeq c_p K^{\circ p}$, then $y$ is linear in features, the p-fold tensor products of the
    inputs, whose Gram matrix is $K^{\circ p}$.

    Source: AR-72, arXiv:1901.08584 proof of Theorem 6.1.

    Example:
        >>> chain = learnable_chain(np.eye(2), Power(1.0, np.array([1.0, 0.0]), 1))
        >>> print(round(chain.energy, 9), chain.degree_energy, chain.bound)
        2.0 4.0 4.0
    """
    check_inputs(x)
    check_unit_rows(x)
    c_p = float(ntk_series_coefficients(power.p)[power.p])
    if c_p == 0:
        raise ValueError(
            f"`power` must have a degree of 1 or an even one, got power.p={power.p}. "
            "The kernel does not see odd degrees from 3 on."
        )
    y = power(x)
    with float64():
        rows = jnp.asarray(x, jnp.float64)
        K = np.asarray(jnp.matmul(rows, rows.T, precision=jax.lax.Precision.HIGHEST))
    size = learnable(power).sharp  # |alpha| |beta|^p / sqrt(c_p)
    return LearnableChain(
        energy=label_energy(relu_gram(x), y),
        degree_energy=label_energy((K + K.T) ** power.p / 2**power.p, y) / c_p,
        bound=size * size,
    )


def _collect(parts: list[Powers]) -> Powers:
    if not parts:
        raise ValueError("`functions` must hold at least one function, got none.")
    dimensions = {part.beta.shape[1] for part in parts}
    if len(dimensions) > 1:
        raise ValueError(
            f"`functions` must be of one input dimension, got dimensions {sorted(dimensions)}."
        )
    alpha, beta, p = (np.concatenate(fields) for fields in zip(*parts, strict=True))
    return Powers(alpha, beta, p)


class _Scaled(NamedTuple):
    """The sizes of the terms over the largest, which itself may be outside of float64."""

    sizes: Float64[np.ndarray, " q"]
    log_largest: float


def _scaled(terms: Powers) -> _Scaled:
    logs = np.log(np.abs(terms.alpha)) + terms.p * np.log(row_norms(terms.beta))
    if not len(logs):
        return _Scaled(logs, 0.0)
    largest = float(np.max(logs))
    return _Scaled(np.exp(logs - largest), largest)


def _unscaled(total: float, scaled: _Scaled) -> float:
    log = math.log(total) + scaled.log_largest if total > 0 else -math.inf
    if log >= _LARGEST:
        return math.inf
    # The product where its factors are in range: the exponential of the sum has fewer digits.
    if abs(scaled.log_largest) < 700:
        return float(total) * math.exp(scaled.log_largest)
    return math.exp(log)


def _tensor_bound(terms: Powers, scaled: _Scaled, c: Float64[np.ndarray, " q"]) -> float:
    units = terms.beta / row_norms(terms.beta)[:, None]
    signed = np.sign(terms.alpha) * scaled.sizes
    total = 0.0
    for p in np.unique(terms.p):
        same = terms.p == p
        alpha, u = signed[same], units[same]
        # Rounding may take the squared norm of tensors that cancel below zero.
        total += max(float(alpha @ (u @ u.T) ** int(p) @ alpha), 0.0) / float(c[same][0])
    return math.sqrt(total)
