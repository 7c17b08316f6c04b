# SPDX-License-Identifier: Apache-2.0
"""How far a network of finite width strays from its limit: bounds, predictions, measurements."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_inputs, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.labels.energies import energy as label_energy
from unlazy.papers.shared.activation_patterns import (
    Inputs,
    Weights,
    check_network,
    pattern,
    preactivations,
)
from unlazy.papers.shared.conditions import check_delta
from unlazy.special import orthant_probability


class PerturbationBounds(eqx.Module):
    """Bounds on what moves in training; all but the first hold with probability 1 - delta."""

    neuron_movement: float  # R, on |w_r(k) - w_r(0)| for every r and k
    initial_gram: float  # on |H(0) - H|_F
    gram_drift: float  # on |H(k) - H(0)|_F for every k
    feature_drift: float  # on |Z(k) - Z(0)|_F for every k


@entry
def perturbation_bounds(
    n: int,
    m: int,
    *,
    residual: int | float,
    smallest_eigenvalue: int | float,
    init_scale: int | float,
    delta: float,
) -> PerturbationBounds:
    r"""The paper's bounds on how far neurons, features and kernel move, with its constants.

    $$\|w_r(k) - w_r(0)\| \le R = \frac{4 \sqrt n \|y - u(0)\|}{\sqrt m \lambda_0}, \qquad
    \|H(0) - H\|_F \le n \sqrt{\frac{\log(2n^2/\delta)}{2m}}$$

    $$\|H(k) - H(0)\|_F \le \frac{4 n^2 R}{\sqrt{2\pi} \kappa\, \delta}, \qquad
    \|Z(k) - Z(0)\|_F^2 \le \frac{2 n R}{\sqrt{2\pi} \kappa\, \delta}$$

    for n samples of unit norm, m neurons, `residual` $\|y - u(0)\|$, `smallest_eigenvalue`
    $\lambda_0$ of H-infinity and `init_scale` $\kappa$; `delta` is the failure probability of each
    bound. The last two are expectations, on the event that the first holds, divided by delta
    (Markov's inequality). They are loose, by factors of ten to a thousand, and of the right order:
    the features drift like $m^{-1/4}$, the rest like $m^{-1/2}$.

    Source: AR-20, arXiv:1901.08584 Lemmas C.1, C.2 and C.3; C.3 with the $\log(2n^2/\delta)$ of its
    proof, where the statement prints $\log(2/\delta)$.

    Example:
        >>> bounds = perturbation_bounds(
        ...     20, 256, residual=20**0.5, smallest_eigenvalue=0.14, init_scale=1.0, delta=0.1)
        >>> print(round(bounds.neuron_movement, 1), round(bounds.initial_gram, 2))
        35.7 2.65
    """
    check_count(n, "n", most=None)
    check_count(m, "m", most=None)
    check_positive(residual, "residual")
    check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    check_positive(init_scale, "init_scale")
    check_delta(delta)
    R = 4 * math.sqrt(n) * residual / (math.sqrt(m) * smallest_eigenvalue)
    band = R / (math.sqrt(2 * math.pi) * init_scale * delta)
    return PerturbationBounds(
        neuron_movement=float(R),
        initial_gram=n * math.sqrt(math.log(2 * n**2 / delta) / (2 * m)),
        gram_drift=float(4 * n**2 * band),
        feature_drift=math.sqrt(2 * n * band),
    )


class TheoryWidths(eqx.Module):
    """Orders of magnitude only: the theorems give no constants, and these stand for them by 1."""

    convergence: float  # width of Theorem 3.1
    prediction: float  # width of Theorem 4.1
    prediction_init_scale: float  # initial scale of Theorem 4.1
    generalization_init_scale: float  # initial scale of Theorem 5.1
    learning_rate: float  # the largest of all three theorems
    generalization_steps: float  # the fewest of Theorem 5.1, at its learning rate or the given one


@entry
def theory_widths(
    n: int,
    *,
    smallest_eigenvalue: int | float,
    init_scale: int | float,
    delta: float,
    eps: int | float,
    learning_rate: int | float | None = None,
) -> TheoryWidths:
    r"""Order only: widths, scales, rates and steps of the paper's theorems, with all constants 1.

    $$m_{3.1} = \frac{n^6}{\lambda_0^4 \kappa^2 \delta^3}, \qquad
    m_{4.1} = \frac{n^7}{\lambda_0^4 \kappa^2 \delta^4 \epsilon^2}, \qquad
    \kappa_{4.1} = \frac{\epsilon \delta}{\sqrt n}, \qquad
    \kappa_{5.1} = \frac{\lambda_0 \delta}{n}$$

    $$\eta = \frac{\lambda_0}{n^2}, \qquad
    k_{5.1} = \frac{\log(n/\delta)}{\eta \lambda_0}$$

    for n samples, `smallest_eigenvalue` $\lambda_0$ of H-infinity, `init_scale` $\kappa$, failure
    probability `delta`, and `eps` the error of the predicted residual that Theorem 4.1 allows. The
    `learning_rate` $\eta$ of the step count is that of the theorems unless you give another: they
    ask for one about n times smaller than $1/\lambda_{\max}$. No network has ever been that wide:
    read them for their exponents. The width of Theorem 5.1 is $\kappa^{-2}$ times a polynomial that
    the paper does not state; `chain_width` finds it from the proof.

    Source: AR-20, arXiv:1901.08584 Theorems 3.1, 4.1 and 5.1.

    Example:
        >>> widths = theory_widths(
        ...     100, smallest_eigenvalue=0.1, init_scale=1.0, delta=0.1, eps=0.1)
        >>> print(f"{widths.convergence:.0e} {widths.learning_rate:.0e}")
        1e+19 1e-05
    """
    check_count(n, "n", most=None)
    check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    check_positive(init_scale, "init_scale")
    check_delta(delta)
    check_positive(eps, "eps")
    if learning_rate is not None:
        check_positive(learning_rate, "learning_rate")
    largest_rate = smallest_eigenvalue / float(n) ** 2
    rate = largest_rate if learning_rate is None else float(learning_rate)
    base = float(n) ** 6 / (smallest_eigenvalue**4 * init_scale**2 * delta**3)
    return TheoryWidths(
        convergence=base,
        prediction=base * n / (delta * eps**2),
        prediction_init_scale=eps * delta / math.sqrt(n),
        generalization_init_scale=smallest_eigenvalue * delta / n,
        learning_rate=largest_rate,
        generalization_steps=math.log(n / delta) / (rate * smallest_eigenvalue),
    )


@entry
def initial_gram_deviation(x: Inputs, m: int, *, antisymmetric: bool = False) -> float:
    r"""Root mean square of $\|H(0) - H\|_F$ over the start: exact, where Lemma C.3 bounds it.

    $$\mathbb E \|H(0) - H\|_F^2 = \frac1m \sum_{ij} K_{ij}^2\, p_{ij} (1 - p_{ij}), \qquad
    p_{ij} = \frac{\pi - \arccos c_{ij}}{2\pi}$$

    with $c_{ij}$ the cosine between the rows of `x`, which may have any norm but zero, $K_{ij}$
    their product, and m the number of neurons. In an `antisymmetric` start the second half of the
    neurons copies the first, so that only m/2 are independent.

    Source: AR-20, derived; beside arXiv:1901.08584 Lemma C.3.

    Example:
        >>> print(initial_gram_deviation(jnp.eye(4), 100))  # the diagonal alone: p = 1/2
        0.1
    """
    check_inputs(x)
    check_count(m, "m", most=None)
    with float64():
        total = float(_summed_variance(jnp.asarray(x, jnp.float64)))
    return math.sqrt(total / (m / 2 if antisymmetric else m))


@jax.jit
def _summed_variance(x: Float[Array, "n d"]) -> Float[Array, ""]:
    norms = jnp.linalg.norm(x, axis=1)
    K = jnp.matmul(x, x.T, precision=jax.lax.Precision.HIGHEST)
    p = orthant_probability(K / (norms[:, None] * norms[None, :]))
    return jnp.sum(K**2 * p * (1 - p))


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
    interpolates the labels. `H` is H-infinity or the Gram matrix of the start, `width` is m and
    `init_scale` $\kappa$. For a start whose outputs $u(0)$ are not zero pass $y - u(0)$ as labels.

    Source: AR-14, derived from arXiv:1901.08584 sections 4 and 5. Raises and warns as
    `labels.energy` does.

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
    $\Delta w_r^\top x_i$, crosses zero with that probability. The movement `dW` may be the real
    one or the predicted one, `papers.arora2019.minimum_norm`; $\kappa$ is the `init_scale`.

    Source: AR-14, derived from arXiv:1901.08584 Lemma C.2.

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
