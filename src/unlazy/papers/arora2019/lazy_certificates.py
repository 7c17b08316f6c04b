# SPDX-License-Identifier: Apache-2.0
"""A proof, for one start and one data set, that training stays close to the kernel's prediction."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_count, check_labels, check_positive, check_unit_rows
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.dynamics.decays import Steps
from unlazy.kernels import relu_gram
from unlazy.linalg import Eigen, eigh
from unlazy.nets import TwoLayerParams
from unlazy.papers.arora2019.movement_bounds import MovementBound, movement_terms
from unlazy.papers.shared import activation_patterns as patterns

# Rounding of eigenvalues, per row and relative to the largest.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


class LazyCertificate(eqx.Module):
    """The outcome of `lazy_certificate`: whether its condition holds, and what follows if so.

    When `holds` is False, `rate` is where the condition came nearest to holding, and all bounds
    are infinite.
    """

    holds: bool
    rate: float  # mu: the residual contracts by 1 - learning_rate * mu a step
    deviation: float  # Delta(R), on |H(k) - H| for all k
    slack: float  # lambda_0 - mu - Delta, not negative when the certificate holds
    neuron_distance: float  # R: no neuron moves farther
    smallest_eigenvalue: float  # lambda_0 of H-infinity, rounded down
    learning_rate: float
    initial_residual: float  # |y - u(0)|
    initial_output: float  # |u(0)|
    movement: MovementBound  # on |W(k) - W(0)|_F for all k

    @entry
    def residual_bound(self, steps: Steps) -> Float64[np.ndarray, "*shape"]:
        r"""Bound on $\|u(k) - y\|$: $(1 - \eta\mu)^k \|u(0) - y\|$."""
        k = np.asarray(steps, np.float64)
        if not self.holds:
            return np.full(k.shape, np.inf)
        return np.asarray(_power(1 - self.learning_rate * self.rate, k) * self.initial_residual)

    @entry
    def deviation_bound(self, steps: Steps) -> Float64[np.ndarray, "*shape"]:
        r"""Bound on how far $\|u(k) - y\|$ lies from the prediction $\|(I - \eta H)^k y\|$.

        $$(1-\eta\lambda_0)^k \|u(0)\| + k (1-\eta\mu)^{k-1} \eta \Delta \|u(0) - y\|$$

        Source: AR-21, derived from arXiv:1901.08584 proof of Theorem 4.1.
        """
        k = np.asarray(steps, np.float64)
        if not self.holds:
            return np.full(k.shape, np.inf)
        lr = self.learning_rate
        start = _power(1 - lr * self.smallest_eigenvalue, k) * self.initial_output
        drift = k * _power(1 - lr * self.rate, np.maximum(k - 1, 0)) * lr * self.deviation
        return np.asarray(start + drift * self.initial_residual)


@entry
def lazy_certificate(
    params0: TwoLayerParams,
    x: patterns.Inputs,
    y: Float[Array | np.ndarray, " n"],
    *,
    learning_rate: int | float | None = None,
    rates: int = 50,
) -> LazyCertificate:
    r"""Try to prove that descent from `params0` follows the kernel, whatever the number of steps.

    With $s_i(R)$ the fraction of neurons with $|w_r(0)^\top x_i| \le R$, suppose that for some
    $\mu \in (0, \lambda_0)$

    $$\Delta := \|H(0) - H\|_2 + 4\sqrt n \|s(R)\|_2 \le \lambda_0 - \mu, \qquad
    R := \frac{\sqrt n \|y - u(0)\|}{\sqrt m\, \mu}, \qquad \eta \le \frac1{\lambda_{\max}}.$$

    Then, for full-batch descent with learning rate $\eta$ on half the sum of squares, the hidden
    layer alone being trained, for every k: $\|u(k) - y\| \le (1-\eta\mu)^k \|u(0) - y\|$, no neuron
    moves farther than $R$, the residual stays within `deviation_bound` of the prediction, and the
    hidden layer within `movement.value` of its start, the bound of `movement_bound` for this start.
    Nothing is random and no constant is hidden, but the condition asks for about
    $\sqrt m \kappa \ge 12.8\, n^{3/2} \|y\| / \lambda_0^2$: it holds only for tiny n or small
    labels. The start is that of a ReLU network with output weights $\pm 1$; the inputs have unit
    norm. A `learning_rate` of None means $1/\lambda_{\max}$ of H-infinity; of the `rates` values of
    $\mu$ that are tried the largest that passes is kept, which gives the best of every bound.

    Source: AR-21, derived from arXiv:1901.08584 proofs of Theorem 4.1 and Lemma 5.3.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> net = TwoLayer(2, 100_000, init="antisymmetric")
        >>> params = net.init(key=jax.random.key(0))
        >>> lazy_certificate(params, jnp.eye(2), jnp.array([0.1, -0.1])).holds
        True
    """
    patterns.check_network(params0.W, x)
    check_unit_rows(x)
    check_labels(y, x.shape[0])
    check_count(rates, "rates")
    H = relu_gram(x)
    eigen = eigh(H)
    values = eigen.values
    # Less what rounding may have added, here and in the distance of the kernels: a proof.
    lam0 = float(values[-1]) - _ROUNDING * len(values) * float(values[0])
    lr = _checked_rate(learning_rate, float(values[0]))
    with float64():
        P = patterns.preactivations(params0.W, x)
        u0 = np.asarray(jax.nn.relu(P) @ jnp.asarray(params0.a, jnp.float64))
        H0 = patterns.pattern_gram(patterns.pattern(P), x)
        gram_gap = float(np.max(np.abs(eigh(H0 - H).values)))
        sizes = np.sort(np.abs(np.asarray(P)), axis=1)
    u0 = u0 / math.sqrt(params0.W.shape[0])
    labels = np.asarray(y, np.float64)
    residual = float(np.linalg.norm(labels - u0))
    best = _search(sizes, gram_gap, residual, lam0, rates)
    return LazyCertificate(
        holds=best.slack >= 0,
        rate=best.rate,
        deviation=best.deviation,
        slack=best.slack,
        neuron_distance=best.neuron_distance,
        smallest_eigenvalue=lam0,
        learning_rate=lr,
        initial_residual=residual,
        initial_output=float(np.linalg.norm(u0)),
        movement=_movement(best, eigen, labels, u0, gram_gap, lam0),
    )


def _movement(
    best: "_Tried",
    eigen: Eigen,
    y: Float64[np.ndarray, " n"],
    u0: Float64[np.ndarray, " n"],
    gram_gap: float,
    lam0: float,
) -> MovementBound:
    return movement_terms(
        energy=_energy(eigen, y, lam0),
        n=len(y),
        label_norm=float(np.linalg.norm(y)),
        smallest_eigenvalue=lam0,
        rate=best.rate,
        initial_gram=gram_gap,
        deviation=best.deviation,
        band=best.band,
        initial_output=float(np.linalg.norm(u0)),
        residual=float(np.linalg.norm(y - u0)),
        neuron_movement=best.neuron_distance,
    )


def _energy(eigen: Eigen, y: Float64[np.ndarray, " n"], lam0: float) -> float:
    if lam0 <= 0:  # no certificate will hold, and none of its bounds is read
        return math.inf
    return float(np.sum((np.asarray(eigen.vectors).T @ y) ** 2 / eigen.values))


class _Tried(NamedTuple):
    rate: float
    deviation: float
    slack: float
    neuron_distance: float
    band: float  # the sum of s_i


def _search(
    sizes: Float64[np.ndarray, "n m"], gram_gap: float, residual: float, lam0: float, rates: int
) -> _Tried:
    """The largest rate that passes, or else the one that comes nearest."""
    n, m = sizes.shape
    if lam0 <= 0:  # duplicate or opposite rows: no rate contracts, and neurons may go anywhere
        deviation = gram_gap + 4 * n
        return _Tried(0.0, deviation, lam0 - deviation, math.inf, float(n))
    tried = []
    for mu in lam0 * np.arange(rates, 0, -1) / (rates + 1):
        R = math.sqrt(n) * residual / (math.sqrt(m) * float(mu))
        s = np.array([np.searchsorted(row, R, side="right") for row in sizes]) / m
        deviation = gram_gap + 4 * math.sqrt(n) * float(np.linalg.norm(s))
        slack = lam0 - float(mu) - deviation
        tried.append(_Tried(float(mu), deviation, slack, R, float(np.sum(s))))
        if tried[-1].slack >= 0:
            return tried[-1]
    return max(tried, key=lambda one: one.slack)


def _checked_rate(learning_rate: int | float | None, largest: float) -> float:
    if learning_rate is None:
        return 1 / largest
    check_positive(learning_rate, "learning_rate")
    if learning_rate * largest > 1 + 1e-9:
        raise ValueError(
            f"`learning_rate` must be at most 1/lambda_max={1 / largest:.6g}, "
            f"got learning_rate={learning_rate}. The proof needs it; None takes that value."
        )
    return float(learning_rate)


def _power(base: float, k: np.ndarray) -> np.ndarray:
    return np.power(max(base, 0.0), k)  # rounding may take 1 - eta lambda below zero
