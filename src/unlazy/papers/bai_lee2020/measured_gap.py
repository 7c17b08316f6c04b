# SPDX-License-Identifier: Apache-2.0
"""The generalisation gap of the sign-randomised network on held-out data, beside Theorem 6."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_inputs, check_key, check_labels
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape.norms import norm_2p
from unlazy.escape.predictors import as_movement
from unlazy.losses import PointwiseLoss, check_targets, pointwise
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.bai_lee2020.assumption_a import Constants
from unlazy.papers.bai_lee2020.generalization import QuadraticGap, quadratic_gap

_BYTES = 2**27  # of pre-activations at once
Data = tuple[Any, Any]


class RandomizedGap(eqx.Module):
    """The randomised risk on a sample and on held-out data, and the bound on their difference."""

    sample: float
    held_out: float
    standard_error: float  # of the gap, from the held-out data and the draws of the signs
    norm: float  # the 2,4 norm of the ball that the bound is for
    bound: QuadraticGap

    @property
    def gap(self) -> float:
        """How much larger the risk is on the held-out data."""
        return self.held_out - self.sample

    @property
    def holds(self) -> bool:
        """Whether the gap is within the bound, up to four standard errors."""
        return self.gap <= self.bound.sum() + 4 * self.standard_error


@entry
def randomized_gap(
    net: TwoLayer,
    params0: TwoLayerParams,
    delta: Any,
    sample: Data,
    held_out: Data,
    *,
    loss: str | PointwiseLoss = "logistic",
    norm: int | float | None = None,
    constants: Constants | None = None,
    draws: int = 32,
    key: PRNGKeyArray,
) -> RandomizedGap:
    r"""Theorem 6 beside a measurement: the risk on held-out data against that on the sample.

    $$L_P(W) - L(W), \qquad L(W) = \frac1n \sum_i \mathbb E_s\, \ell(f_{W_0 + sW}(x_i), y_i)$$

    with $L_P$ estimated on the `held_out` data, and the mean over signs by as many antithetic pairs
    as there are `draws`, the same for both. Beside it is `quadratic_gap` of the sample.

    Source: BL-21, arXiv:1910.01619 Theorem 6.

    Args:
        net: with the activation of the bound.
        params0: its symmetric start.
        delta: the movement W, trained on the sample or not.
        sample: inputs and labels.
        held_out: inputs and labels of the same distribution, independent of the sample.
        loss: 1-Lipschitz, with second derivative at most 1, and at most 1 at output zero.
        norm: of the ball; $\|W\|_{2,4}$ unless given. The theorem fixes it before it sees the
            sample.
        constants: those of Assumption A, see `quadratic_gap`.
        draws: of pairs of signs.
        key: for them.

    Raises:
        ValueError: the loss is outside the theorem, or the movement is longer than `norm`.

    Example:
        >>> net = TwoLayer(2, 4, "relu3", init="symmetric")
        >>> params, data = net.init(key=jr.key(0)), (np.eye(2), np.array([1.0, -1.0]))
        >>> found = randomized_gap(net, params, 0.1 * params.W, data, data, key=jr.key(1))
        >>> print(found.gap, found.holds)
        0.0 True
    """
    loss = pointwise(loss)
    if loss.lipschitz > 1 or loss.curvature > 1:
        raise ValueError(
            "`loss` must have slope and curvature of at most 1 for Theorem 6, "
            f"got loss={loss.name!r}. Use 'logistic' for labels +-1, 'pseudo-huber' for real ones."
        )
    for name, (x, y) in (("sample", sample), ("held_out", held_out)):
        check_inputs(x, name)
        check_labels(y, len(x), name, single=True)
        check_targets(loss, y, name)
        _check_start(loss, y)
    check_count(draws, "draws", least=2)
    check_key(key)
    with float64():
        W = jnp.asarray(as_movement(net, delta), jnp.float64)
        check_finite(W, "delta")
        length = float(norm_2p(W, 4))
    if norm is None and length == 0:
        raise ValueError("`delta` must move a neuron where `norm` is not given, got delta=0.")
    radius = length if norm is None else float(norm)
    if length > radius * (1 + 1e-6):
        raise ValueError(
            f"`norm` must be at least that of the movement, {length:.6g}, got norm={norm}."
        )
    bound = quadratic_gap(
        params0, sample[0], norm=radius, activation=net.activation, constants=constants
    )
    with float64():
        signs = jr.rademacher(key, (draws, net.width), jnp.float64)
        seen, unseen = (
            np.asarray(_losses(net, (params0, W, *map(jnp.asarray, part)), loss, signs))
            for part in (sample, held_out)
        )
    by_draw, by_point = unseen.mean(axis=1) - seen.mean(axis=1), unseen.mean(axis=0)
    errors = (v.std(ddof=1) / math.sqrt(len(v)) for v in (by_draw, by_point) if len(v) > 1)
    return RandomizedGap(
        float(seen.mean()), float(unseen.mean()), math.hypot(*errors), radius, bound
    )


def _check_start(loss: PointwiseLoss, y: Any) -> None:
    with float64():
        labels = jnp.asarray(y, jnp.float64)
        worst = float(jnp.max(loss(jnp.zeros_like(labels), labels)))
    if worst > 1 + 1e-12:
        raise ValueError(
            f"`loss` must be at most 1 at output zero for Theorem 6, got {worst:.4g} with "
            f"loss={loss.name!r}. Use 'logistic', or scale the labels down."
        )


@eqx.filter_jit
def _losses(
    net: TwoLayer, problem: Any, loss: PointwiseLoss, signs: Float[Array, "t m"]
) -> Float[Array, "t n"]:
    """The loss of each input, averaged over each antithetic pair."""
    params, W, x, y = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), problem)
    Z0, Z = (jnp.matmul(x, V.T, precision=jax.lax.Precision.HIGHEST) for V in (params.W, W))

    def one(s: Float[Array, " m"]) -> Float[Array, " n"]:
        return loss(net.readout(params, Z0 + s[None, :] * Z), y)

    batch = max(1, min(len(signs), _BYTES // (16 * net.width * len(x))))
    return jax.lax.map(lambda s: (one(s) + one(-s)) / 2, signs, batch_size=batch)
