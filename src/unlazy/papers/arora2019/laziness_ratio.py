# SPDX-License-Identifier: Apache-2.0
"""How lazily a two-layer ReLU network will train, before training, and how lazily it has."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.labels.energies import energy as label_energy
from unlazy.papers.shared.patterns import Inputs, Weights, check_network, pattern, preactivations


@entry
def laziness(
    H: Float[Array | np.ndarray, "n n"],
    y: Float[Array | np.ndarray, "n *c"],
    *,
    width: int,
    init_scale: int | float,
) -> float:
    r"""The laziness index: how far a neuron moves, next to the size of its pre-activations.

    $$\rho = \frac{\sqrt{y^\top H^{-1} y}}{\kappa \sqrt m}$$

    the predicted root-mean-square movement of a neuron over the standard deviation of an initial
    pre-activation. The kernel's predictions need $\rho \ll 1$: below 0.25 a few per cent of the
    activations switch; above 1 the network leaves the lazy regime. Infinite when no function
    interpolates the labels.

    Source: AR-14, derived from arXiv:1901.08584 sections 4 and 5. Raises and warns as
    `labels.energy` does.

    Args:
        H: Gram matrix, H-infinity or that of the start.
        y: labels; for a start whose outputs $u(0)$ are not zero, $y - u(0)$.
        width: $m$.
        init_scale: $\kappa$.

    Example:
        >>> print(laziness(jnp.eye(4) / 4, jnp.ones(4), width=64, init_scale=1.0))
        0.5
    """
    check_count(width, "width", most=None)
    check_positive(init_scale, "init_scale")
    return math.sqrt(label_energy(H, y)) / (float(init_scale) * math.sqrt(width))


@entry
def predicted_flips(dW: Weights, x: Inputs, *, init_scale: int | float) -> float:
    r"""Fraction of activations that a movement of the neurons is expected to switch.

    $$\frac1{nm} \sum_{ir} \frac{|\Delta w_r^\top x_i|}{\kappa \|x_i\| \sqrt{2\pi}}$$

    for small $\rho$: a pre-activation of density $1/(\kappa\sqrt{2\pi})$ at zero, moved by
    $\Delta w_r^\top x_i$, crosses zero with that probability. The movement may be the real one or
    the predicted one, `papers.arora2019.minimum_norm`.

    Source: AR-14, derived from arXiv:1901.08584 Lemma C.2.

    Args:
        dW: movement of the neurons, $W - W(0)$.
        x: inputs.
        init_scale: $\kappa$.

    Raises:
        ValueError: `x` is not a finite (n, d) array that fits `dW`, or `init_scale` not positive.

    Example:
        >>> round(predicted_flips(0.1 * jnp.eye(2), jnp.eye(2), init_scale=1.0), 4)
        0.0199
    """
    check_network(dW, x, "dW")
    check_positive(init_scale, "init_scale")
    with float64():
        moved = jnp.abs(preactivations(dW, x))
        norms = jnp.linalg.norm(jnp.asarray(x, jnp.float64), axis=1)
        mean = float(jnp.mean(moved / norms[:, None]))
    return mean / (float(init_scale) * math.sqrt(2 * math.pi))


@entry
def flipped_fraction(W0: Weights, W: Weights, x: Inputs) -> float:
    r"""Fraction of activations, over samples and neurons, that differ between two sets of weights.

    $$\frac1{nm} \#\{(i, r): 1\{w_r(0)^\top x_i \ge 0\} \ne 1\{w_r^\top x_i \ge 0\}\}
    = \frac1n \|Z - Z(0)\|_F^2 \text{ on unit-norm inputs}$$

    Source: AR-14 and AR-20, arXiv:1901.08584 Lemma C.2.

    Raises:
        ValueError: `x` is not a finite (n, d) array that fits the weights, or these differ in
            shape.

    Example:
        >>> flipped_fraction(jnp.eye(2) - 0.5, jnp.eye(2) + 0.5, jnp.eye(2))
        0.5
    """
    check_network(W0, x, "W0")
    if np.shape(W0) != np.shape(W):
        raise ValueError(
            f"`W` must have the shape of `W0`, got W.shape={np.shape(W)} "
            f"and W0.shape={np.shape(W0)}."
        )
    with float64():
        flips = pattern(preactivations(W0, x)) != pattern(preactivations(W, x))
        return float(jnp.mean(flips.astype(jnp.float64)))
