# SPDX-License-Identifier: Apache-2.0
"""Rademacher complexity of networks near their start: the linearised class, and Lemma 5.4."""

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import (
    as_array,
    check_count,
    check_gram,
    check_key,
    check_name,
    check_positive,
)
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.papers.shared.conditions import check_delta

_AT_ONCE = 256  # sign vectors in one product


class RademacherEstimate(eqx.Module):
    """A mean over random sign vectors, with the standard error of that mean."""

    value: float
    standard_error: float


@entry
def rademacher_linear(
    H: Float[Array | np.ndarray, "n n"],
    *,
    distance: int | float,
    draws: int = 1000,
    key: PRNGKeyArray,
) -> RademacherEstimate:
    r"""Rademacher complexity of the linearised networks within `distance` of the start.

    $$\mathcal R_S = \frac Bn \mathbb E_\varepsilon \|Z(0)^\top \varepsilon\|_2
    = \frac Bn \mathbb E_\varepsilon \sqrt{\varepsilon^\top H \varepsilon}$$

    exact up to the sampling of the signs, for the Gram matrix H of the tangent features at the
    start, or its limit, and `distance` B, the largest $\|W - W(0)\|_F$. `rademacher_linear_bound`
    lies above it, by Jensen's inequality.

    Source: AR-15a and AR-36, arXiv:1901.08584 proof of Lemma 5.4.

    Example:
        >>> estimate = rademacher_linear(jnp.eye(4) / 2, distance=1.0, key=jr.key(0))
        >>> abs(estimate.value - math.sqrt(2) / 4) < 1e-6  # the same for all signs
        True
    """
    H = as_array(H, "H")
    check_gram(H)
    check_positive(distance, "distance")
    check_count(draws, "draws", least=2)
    check_key(key)
    n = H.shape[0]
    signs = np.asarray(jr.rademacher(key, (draws, n), dtype=jnp.int8))
    with float64():
        matrix = jnp.asarray(H, jnp.float64)
        squares = np.concatenate(
            [np.asarray(_forms(matrix, signs[k : k + _AT_ONCE])) for k in range(0, draws, _AT_ONCE)]
        )
    return estimate(distance / n * np.sqrt(np.maximum(squares, 0)))


@entry
def rademacher_linear_bound(H: Float[Array | np.ndarray, "n n"], *, distance: int | float) -> float:
    r"""Jensen's bound on `rademacher_linear`, which needs no sampling and is little above it.

    $$\mathcal R_S \le \frac Bn \sqrt{\operatorname{tr} H} = \frac Bn \|Z(0)\|_F$$

    For H-infinity on unit-norm inputs it is $B / \sqrt{2n}$.

    Source: AR-15a, arXiv:1901.08584 proof of Lemma 5.4.

    Example:
        >>> print(rademacher_linear_bound(jnp.eye(8) / 2, distance=3.0))
        0.75
    """
    H = as_array(H, "H")
    check_gram(H)
    check_positive(distance, "distance")
    with float64():
        trace = float(jnp.sum(jnp.diagonal(jnp.asarray(H, jnp.float64))))
    return float(distance) / H.shape[0] * math.sqrt(max(trace, 0.0))


@entry
def rademacher_probable(
    n: int,
    m: int,
    *,
    distance: int | float,
    neuron_distance: int | float,
    init_scale: int | float,
    delta: float,
    constant: Literal["paper", "proof", "exact"] = "paper",
) -> float:
    r"""Lemma 5.4: a bound by the sizes alone, with probability 1 - delta over the start.

    $$\mathcal R_S \le \frac{B}{\sqrt{2n}}
    \Big(1 + \Big(\frac{2\log\frac2\delta}{m}\Big)^{1/4}\Big)
    + \frac{2 R^2 \sqrt m}{\kappa} + R\sqrt{2 \log\tfrac2\delta}$$

    for all movements of at most $B$, the `distance`, with at most $R$ per neuron, the
    `neuron_distance`; for Gaussian $w_r(0)$ of scale $\kappa$, the `init_scale`, and inputs of unit
    norm. The `constant` of the middle term is the 2 above ("paper"), the $2\sqrt{2/\pi} = 1.596$
    that the proof gives ("proof"), or "exact", which replaces $\sqrt{2/\pi} R/\kappa$ by the
    probability $\operatorname{erf}(R/(\kappa\sqrt2))$ that it bounds, and which never exceeds 1.

    Source: AR-15d, arXiv:1901.08584 Lemma 5.4.

    Example:
        >>> sizes = dict(distance=1.0, neuron_distance=0.1, init_scale=1.0, delta=0.1)
        >>> [round(rademacher_probable(50, 400, constant=c, **sizes), 3)
        ...  for c in ("paper", "proof", "exact")]
        [0.78, 0.699, 0.698]
    """
    check_count(n, "n", most=None)
    check_count(m, "m", most=None)
    check_positive(distance, "distance")
    check_positive(neuron_distance, "neuron_distance")
    check_positive(init_scale, "init_scale")
    check_delta(delta)
    check_name(constant, ["paper", "proof", "exact"], "constant")
    R, log = float(neuron_distance), math.log(2 / delta)
    crossing = {  # twice the probability that a pre-activation starts within R of zero
        "paper": 2 * R / init_scale,
        "proof": 2 * math.sqrt(2 / math.pi) * R / init_scale,
        "exact": 2 * math.erf(R / (init_scale * math.sqrt(2))),
    }[constant]
    linear = distance / math.sqrt(2 * n) * (1 + (2 * log / m) ** 0.25)
    return linear + R * math.sqrt(m) * crossing + R * math.sqrt(2 * log)


@jax.jit
def _forms(H: Float[Array, "n n"], signs) -> Float[Array, " s"]:
    eps = jnp.asarray(signs).astype(H.dtype)
    return jnp.sum(eps * jnp.matmul(eps, H, precision=jax.lax.Precision.HIGHEST), axis=1)


def estimate(values: np.ndarray) -> RademacherEstimate:
    """The mean of `values`, one per sign vector, and its standard error."""
    return RademacherEstimate(
        float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))
    )
