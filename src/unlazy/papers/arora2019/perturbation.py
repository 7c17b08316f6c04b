# SPDX-License-Identifier: Apache-2.0
"""How far a network of finite width strays from its limit: what theory predicts and bounds."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_inputs, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.papers.shared.conditions import check_delta
from unlazy.papers.shared.patterns import Inputs
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

    The last two are expectations, on the event that the first holds, divided by delta (Markov's
    inequality). They are loose, by factors of ten to a thousand, and of the right order: the
    features drift like $m^{-1/4}$, the rest like $m^{-1/2}$.

    Source: AR-20, arXiv:1901.08584 Lemmas C.1, C.2 and C.3; C.3 with the $\log(2n^2/\delta)$ of its
    proof, where the statement prints $\log(2/\delta)$.

    Args:
        n: number of samples, of unit norm.
        m: number of neurons.
        residual: $\|y - u(0)\|$, a Euclidean norm.
        smallest_eigenvalue: $\lambda_0$ of H-infinity.
        init_scale: $\kappa$.
        delta: failure probability, of each bound.

    Raises:
        ValueError: a number is not positive, or `delta` not in (0, 1).

    Example:
        >>> bounds = perturbation_bounds(
        ...     20, 256, residual=20**0.5, smallest_eigenvalue=0.14, init_scale=1.0, delta=0.1)
        >>> print(round(bounds.neuron_movement, 1), round(bounds.initial_gram, 2))
        35.7 2.65
    """
    check_count(n, "n", most=None)
    check_count(m, "m", most=None)
    for name, value in [("residual", residual), ("smallest_eigenvalue", smallest_eigenvalue)]:
        check_positive(value, name)
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


@entry
def initial_gram_deviation(x: Inputs, m: int, *, antisymmetric: bool = False) -> float:
    r"""Root mean square of $\|H(0) - H\|_F$ over the start: exact, where Lemma C.3 bounds it.

    $$\mathbb E \|H(0) - H\|_F^2 = \frac1m \sum_{ij} K_{ij}^2\, p_{ij} (1 - p_{ij}), \qquad
    p_{ij} = \frac{\pi - \arccos c_{ij}}{2\pi}$$

    with $c_{ij}$ the cosine between the rows, $K_{ij}$ their product.

    Source: AR-20, derived; beside arXiv:1901.08584 Lemma C.3.

    Args:
        x: inputs, of any norm but zero.
        m: number of neurons.
        antisymmetric: whether the second half of the neurons copies the first, so that only m/2
            are independent.

    Raises:
        ValueError: `x` is not a finite (n, d) array without zero rows, or `m` is below one.

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


class TheoryWidths(eqx.Module):
    """Orders of magnitude only: the theorems give no constants, and these stand for them by 1."""

    convergence: float  # width of Theorem 3.1
    prediction: float  # width of Theorem 4.1
    prediction_init_scale: float  # initial scale of Theorem 4.1
    generalization_init_scale: float  # initial scale of Theorem 5.1


@entry
def theory_widths(
    n: int,
    *,
    smallest_eigenvalue: int | float,
    init_scale: int | float,
    delta: float,
    eps: int | float,
) -> TheoryWidths:
    r"""Order only: widths and scales at which the paper's theorems apply, with all constants 1.

    $$m_{3.1} = \frac{n^6}{\lambda_0^4 \kappa^2 \delta^3}, \qquad
    m_{4.1} = \frac{n^7}{\lambda_0^4 \kappa^2 \delta^4 \epsilon^2}, \qquad
    \kappa_{4.1} = \frac{\epsilon \delta}{\sqrt n}, \qquad
    \kappa_{5.1} = \frac{\lambda_0 \delta}{n}$$

    No network has ever been that wide: read them for their exponents. The width of Theorem 5.1 is
    $\kappa^{-2}$ times a polynomial that the paper does not state.

    Source: AR-20, arXiv:1901.08584 Theorems 3.1, 4.1 and 5.1.

    Args:
        n: number of samples.
        smallest_eigenvalue: $\lambda_0$ of H-infinity.
        init_scale: $\kappa$.
        delta: failure probability.
        eps: error of the predicted residual that Theorem 4.1 allows.

    Raises:
        ValueError: a number is not positive, or `delta` not in (0, 1).

    Example:
        >>> widths = theory_widths(
        ...     100, smallest_eigenvalue=0.1, init_scale=1.0, delta=0.1, eps=0.1)
        >>> print(f"{widths.convergence:.0e}")
        1e+19
    """
    check_count(n, "n", most=None)
    check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    check_positive(init_scale, "init_scale")
    check_delta(delta)
    check_positive(eps, "eps")
    base = float(n) ** 6 / (smallest_eigenvalue**4 * init_scale**2 * delta**3)
    return TheoryWidths(
        convergence=base,
        prediction=base * n / (delta * eps**2),
        prediction_init_scale=eps * delta / math.sqrt(n),
        generalization_init_scale=smallest_eigenvalue * delta / n,
    )
