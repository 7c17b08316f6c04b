# SPDX-License-Identifier: Apache-2.0
"""Rademacher bounds for two-layer ReLU networks that hold for the very start at hand."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.core.checks import check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import TwoLayerParams
from unlazy.papers.shared.patterns import Inputs, check_network, pattern, preactivations


class LinearAndResidual(eqx.Module):
    """The two terms of a Rademacher bound: the linearised class, and what it leaves out."""

    linear: float
    residual: float

    def sum(self) -> float:
        """The bound itself."""
        return self.linear + self.residual


@entry
def rademacher_counted(
    params0: TwoLayerParams,
    x: Inputs,
    *,
    distance: int | float,
    neuron_distance: int | float,
) -> float:
    r"""The paper's bound for the networks themselves, given their start and the inputs.

    $$\mathcal R_S \le \frac Bn \|Z(0)\|_F
    + \frac{2R}{n\sqrt m} \#\{(i, r): |w_r(0)^\top x_i| \le R\}$$

    over all $W$ with $\|W - W(0)\|_F \le B$ and $\|w_r - w_r(0)\| \le R$ for every neuron: a neuron
    whose pre-activation starts within $R$ of zero may switch. Nothing here is random.
    `rademacher_sharp` is never above it.

    Source: AR-15b, arXiv:1901.08584 proof of Lemma 5.4; for rows of any norm $R$ stands for
    $R \|x_i\|$.

    Args:
        params0: the start $W(0)$; the output weights are taken to be $\pm 1$.
        x: inputs.
        distance: $B$.
        neuron_distance: $R$.

    Raises:
        ValueError: `x` is not a finite (n, d) array that fits the weights, or a distance is not
            positive.

    Example:
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.ones(2))
        >>> one = dict(distance=1.0, neuron_distance=0.5)
        >>> round(rademacher_counted(params, jnp.eye(2), **one), 6)  # 1/sqrt(2) + 1/sqrt(2)
        1.414214
    """
    check_network(params0.W, x)
    check_positive(distance, "distance")
    check_positive(neuron_distance, "neuron_distance")
    with float64():
        P, reach = _start(params0, x, neuron_distance)
        residual = float(jnp.sum(jnp.where(jnp.abs(P) <= reach, 2 * reach, 0.0)))
        return _linear_part(P, x, distance) + residual / _scale(P)


@entry
def rademacher_sharp(
    params0: TwoLayerParams,
    x: Inputs,
    *,
    distance: int | float,
    neuron_distance: int | float,
) -> float:
    r"""A sharper form of `rademacher_counted`: about a fourth of its residual.

    $$\mathcal R_S \le \frac Bn \|Z(0)\|_F
    + \frac{1}{n\sqrt m} \sum_{ir} \max(R - |w_r(0)^\top x_i|, 0)$$

    because a ReLU differs from its linearisation at $z_0$ by at most $\max(R - |z_0|, 0)$ while
    $|z - z_0| \le R$.

    Source: AR-15c, derived from arXiv:1901.08584 Lemma 5.4; for rows of any norm $R$ stands for
    $R \|x_i\|$. Arguments and errors are those of `rademacher_counted`.

    Example:
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.ones(2))
        >>> one = dict(distance=1.0, neuron_distance=0.5)
        >>> round(rademacher_sharp(params, jnp.eye(2), **one), 6)  # 1/sqrt(2) + 1/(2 sqrt(2))
        1.06066
    """
    return linear_and_residual(params0, x, distance, neuron_distance).sum()


def linear_and_residual(params0: TwoLayerParams, x: Inputs, distance, neuron_distance):
    """The terms of `rademacher_sharp`, which the a-posteriori bound reports one by one."""
    check_network(params0.W, x)
    check_positive(distance, "distance")
    check_positive(neuron_distance, "neuron_distance")
    with float64():
        P, reach = _start(params0, x, neuron_distance)
        residual = float(jnp.sum(jnp.maximum(reach - jnp.abs(P), 0.0)))
        return LinearAndResidual(_linear_part(P, x, distance), residual / _scale(P))


def _start(params0: TwoLayerParams, x: Inputs, neuron_distance: int | float):
    P = preactivations(params0.W, x)
    norms = jnp.linalg.norm(jnp.asarray(x, jnp.float64), axis=1)
    return P, float(neuron_distance) * norms[:, None]


def _linear_part(P: Float[Array, "n m"], x: Inputs, distance: int | float) -> float:
    n = P.shape[0]
    squares = jnp.sum(jnp.asarray(x, jnp.float64) ** 2, axis=1)
    active = jnp.mean(pattern(P).astype(jnp.float64), axis=1)
    frobenius = float(jnp.sum(squares * active))
    return float(distance) / n * math.sqrt(frobenius)


def _scale(P: Float[Array, "n m"]) -> float:
    n, m = P.shape
    return n * math.sqrt(m)
