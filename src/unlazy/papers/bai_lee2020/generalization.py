# SPDX-License-Identifier: Apache-2.0
"""Theorem 6: the gap between population and sample risk of the sign-randomised network."""

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from unlazy.activations import Activation
from unlazy.activations import activation as as_activation
from unlazy.core.checks import check_count, check_inputs, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import TwoLayerParams
from unlazy.papers.bai_lee2020.assumption_a import Constants, supplied_smoothness
from unlazy.papers.shared.activation_patterns import Inputs, check_network, preactivations


@entry
def second_moment_norm(x: Inputs) -> float:
    r"""The size of the inputs' second moment, relative to their norm: between $1/\sqrt d$ and 1.

    $$M_{x,\mathrm{op}} = \Big(B_x^{-2} \big\|\tfrac1n X^\top X\big\|_{\mathrm{op}}\Big)^{1/2}$$

    The smaller it is, the fewer samples the quadratic model needs against the NTK. Isotropic inputs
    have about `isotropic_second_moment_norm`; inputs along one line, or with a mean of the size of
    their norm, have about 1: centre them first. The paper's value is the mean over samples of what
    is computed here from one. Where the norms of the rows differ, $B_x$ is the largest, for which
    the bounds remain true.

    Source: BL-17, arXiv:1910.01619 Theorem 6, which it enters.

    Example:
        >>> print(second_moment_norm(jnp.eye(4)))  # each direction once
        0.5
    """
    check_inputs(x)
    with float64():
        largest, radius = _largest(jnp.asarray(x, jnp.float64))
        return float(np.sqrt(np.asarray(largest))) / float(radius)


@jax.jit
def _largest(x: Float64[Array, "n d"]) -> tuple[Array, Array]:
    """The largest eigenvalue of the second moment, and the largest norm, without overflow."""
    n, d = x.shape
    radius = jnp.max(jnp.abs(x)) * jnp.max(jnp.linalg.norm(x / jnp.max(jnp.abs(x)), axis=1))
    unit = x / radius
    # The smaller of the two Gram matrices; their nonzero eigenvalues are the same.
    unit = unit if n >= d else unit.T
    moment = jnp.matmul(unit.T, unit, precision=jax.lax.Precision.HIGHEST)
    return jnp.linalg.eigvalsh(moment / n)[-1] * radius**2, radius


@entry
def isotropic_second_moment_norm(n: int, d: int) -> float:
    r"""About the value of `second_moment_norm` for n isotropic inputs of dimension d.

    $$M_{x,\mathrm{op}} \approx \min\Big(\frac{1 + \sqrt{d/n}}{\sqrt d}, 1\Big)$$

    Source: BL-17, arXiv:1910.01619 after Theorem 6 (Bai and Yin's edge of the spectrum).

    Example:
        >>> print(isotropic_second_moment_norm(400, 100))
        0.15
    """
    check_count(n, "n", most=None)
    check_count(d, "d", most=None)
    return min((1 + math.sqrt(d / n)) / math.sqrt(d), 1.0)


@entry
def conditioned_second_moment_norm(
    d: int, condition: int | float, *, form: Literal["sharp", "paper"] = "sharp"
) -> float:
    r"""The largest `second_moment_norm` of inputs whose second moment has a condition number.

    $$M_{x,\mathrm{op}} \le \sqrt{\frac{\kappa}{\kappa + d - 1}} \le \sqrt{\frac{\kappa}{d}}
    \le \frac{\kappa}{\sqrt d}$$

    for inputs of dimension d and equal norms, with $\kappa$ the largest over the smallest
    eigenvalue of their second moment, the `condition`. The first is the default and is attained,
    by one large eigenvalue beside d - 1 equal ones; form="paper" gives the last. Give the result
    to `quadratic_gap` as its `second_moment` for the bound in terms of $\kappa$.

    Source: BL-17, arXiv:1910.01619 after Theorem 6; the eigenvalues sum to $B_x^2$, hence the
    first.

    Example:
        >>> print(conditioned_second_moment_norm(4, 1.0), conditioned_second_moment_norm(13, 4.0))
        0.5 0.5
    """
    check_count(d, "d", most=None)
    check_positive(condition, "condition")
    if condition < 1:
        raise ValueError(f"`condition` must be at least 1, got condition={condition}.")
    check_name(form, ("sharp", "paper"), "form")
    kappa = float(condition)
    return kappa / math.sqrt(d) if form == "paper" else math.sqrt(kappa / (kappa + d - 1))


class QuadraticGap(eqx.Module):
    """The terms of Theorem 6, each with the theorem's own constants."""

    main: float  # of the quadratic class
    offset: float  # 2 / sqrt(n)
    coupling: float  # of replacing the network by its quadratic term, twice

    def sum(self) -> float:
        """The bound itself."""
        return self.main + self.offset + self.coupling


@entry
def quadratic_gap(
    params0: TwoLayerParams,
    x: Inputs,
    *,
    norm: int | float,
    activation: str | Activation = "relu3",
    constants: Constants | None = None,
    second_moment: int | float | None = None,
) -> QuadraticGap:
    r"""A bound on the generalisation gap of the sign-randomised network, in expectation.

    $$L_P - L \le 16 B_x^2 B_w^2 M_{x,\mathrm{op}} \Big(\frac{\log(2dm)}{n}\,
    \mathbb E \max_{r,i} \sigma''(w_{0,r}^\top x_i)^2\Big)^{1/2} + \frac{2}{\sqrt n}
    + 2\, (\text{coupling})$$

    over all movements of 2,4 `norm` at most $B_w$ from a symmetric start with output weights
    $\pm 1$, for inputs of norm at most $B_x$, and a loss that is 1-Lipschitz and at most 1 at
    output zero. Where the paper takes expectations over samples, the value on this sample stands
    for them. The coupling is the mean over the sample of

    $$\delta + \delta^2 + C_1^2 \mu^4 \|x\|^2 B_w^2 m^{-1/2}, \qquad
    \delta = \tfrac{C_3}6 \|x\|^3 B_w^3 m^{-1/4}, \qquad \mu = \max_r |w_{0,r}^\top x|$$

    which bounds it for every movement at once; `coupling_bound` does for a given one.
    `rademacher_quadratic` is far sharper than the main term, and `randomized_gap` measures the gap.

    Source: BL-21 and BL-26, arXiv:1910.01619 Theorem 6 and Lemma 12.

    Args:
        params0: the start.
        x: the sample.
        norm: $B_w$.
        activation: one that `smoothness` knows, or any other with its `constants`.
        constants: $C_1, C_2, C_3$ of Assumption A, see `term_bounds`.
        second_moment: $M_{x,\mathrm{op}}$; that of the sample, `second_moment_norm`, unless given.
            `conditioned_second_moment_norm` gives it by a condition number.

    Example:
        >>> params = TwoLayerParams(W=jnp.ones((2, 2)), a=jnp.array([1.0, -1.0]))
        >>> gap = quadratic_gap(params, jnp.eye(2), norm=1.0)
        >>> print(round(gap.main, 4), round(gap.offset, 4), round(gap.coupling, 4))
        11.5362 1.4142 0.6731
    """
    check_positive(norm, "norm")
    check_network(params0.W, x)
    _check_symmetric_start(params0)
    moment = second_moment_norm(x) if second_moment is None else second_moment
    check_positive(moment, "second_moment")
    (n, d), m, w, sigma = np.shape(x), len(params0.W), float(norm), as_activation(activation)
    length = np.linalg.norm(np.asarray(x, np.float64), axis=1)
    Z0 = preactivations(params0.W, x)
    # A neuron moves by at most the norm of the whole movement.
    C1, _, C3 = supplied_smoothness(sigma, constants, Z0, w * length[:, None])
    with float64():
        curvature = float(jnp.max(jnp.abs(sigma.derivative(2)(Z0))))
    main = 16 * float(length.max()) ** 2 * w**2 * float(moment)
    remainder = C3 * length**3 * w**3 * m**-0.25 / 6
    largest = np.abs(np.asarray(Z0)).max(axis=1)
    linear_square = C1**2 * largest**4 * length**2 * w**2 / math.sqrt(m)
    return QuadraticGap(
        main=main * curvature * math.sqrt(math.log(2 * d * m) / n),
        offset=2 / math.sqrt(n),
        coupling=2 * float(np.mean(remainder + remainder**2 + linear_square)),
    )


def _check_symmetric_start(params0: TwoLayerParams) -> None:
    W, a, half = np.asarray(params0.W), np.asarray(params0.a), len(params0.W) // 2
    twins = len(W) % 2 == 0 and np.array_equal(W[:half], W[half:])
    if not twins or not np.array_equal(np.abs(a), np.ones_like(a)) or np.any(a[:half] + a[half:]):
        raise ValueError(
            "`params0` must be a symmetric start: the second half of the neurons copies the first, "
            "with output weights +1 or -1 of the other sign. nets.TwoLayer makes one with "
            "init='symmetric'."
        )
