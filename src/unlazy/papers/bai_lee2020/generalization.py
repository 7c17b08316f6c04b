# SPDX-License-Identifier: Apache-2.0
"""Theorem 6: the gap between population and sample risk of the sign-randomised network."""

import math

import equinox as eqx
import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import check_positive
from unlazy.core.entries import entry
from unlazy.nets import TwoLayerParams
from unlazy.papers.bai_lee2020.second_moments import second_moment_norm
from unlazy.papers.shared.patterns import Inputs, check_network, preactivations


class QuadraticGap(eqx.Module):
    """The terms of Theorem 6, each with the theorem's own constants."""

    main: float  # of the quadratic class
    offset: float  # 2 / sqrt(n)
    coupling: float  # of replacing the network by its quadratic term, twice

    def sum(self) -> float:
        """The bound itself."""
        return self.main + self.offset + self.coupling


@entry
def quadratic_gap(params0: TwoLayerParams, x: Inputs, *, norm: int | float) -> QuadraticGap:
    r"""A bound on the generalisation gap of the sign-randomised network, in expectation.

    $$L_P - L \le 16 B_x^2 B_w^2 M_{x,\mathrm{op}} \Big(\frac{\log(2dm)}{n}\,
    \mathbb E \max_{r,i} \sigma''(w_{0,r}^\top x_i)^2\Big)^{1/2} + \frac{2}{\sqrt n}
    + 2\, (\text{coupling})$$

    over all movements of 2,4 norm at most $B_w$, for $\sigma(z) = \max(z, 0)^3/6$ and a loss that
    is 1-Lipschitz and at most 1 at output zero. Where the paper takes expectations over samples,
    the value on this sample stands for them. The coupling is the mean over the sample of

    $$\delta + \delta^2 + \tfrac14 \mu^4 \|x\|^2 B_w^2 m^{-1/2}, \qquad
    \delta = \tfrac16 \|x\|^3 B_w^3 m^{-1/4}, \qquad \mu = \max_r |w_{0,r}^\top x|$$

    which bounds it for every movement at once; `papers.bai_lee2020.coupling_bound` does for a
    given one. `rademacher_quadratic` is far sharper than the main term.

    Source: BL-21 and BL-26, arXiv:1910.01619 Theorem 6 and Lemma 12.

    Args:
        params0: a symmetric start, with output weights $\pm 1$.
        x: inputs; $B_x$ is their largest norm.
        norm: $B_w$.

    Raises:
        ValueError: shapes do not fit, an entry is not finite, `norm` is not positive, or the start
            is not symmetric.

    Example:
        >>> import jax.numpy as jnp
        >>> params = TwoLayerParams(W=jnp.ones((2, 2)), a=jnp.array([1.0, -1.0]))
        >>> gap = quadratic_gap(params, jnp.eye(2), norm=1.0)
        >>> print(round(gap.main, 4), round(gap.offset, 4), round(gap.coupling, 4))
        11.5362 1.4142 0.6731
    """
    check_positive(norm, "norm")
    check_network(params0.W, x)
    _check_symmetric_start(params0)
    (n, d), m = np.shape(x), len(params0.W)
    Z0 = np.asarray(preactivations(params0.W, x))
    length = np.linalg.norm(np.asarray(x, np.float64), axis=1)
    curvature = max(float(Z0.max()), 0.0)  # sigma'' is ReLU
    main = 16 * float(length.max()) ** 2 * float(norm) ** 2 * second_moment_norm(x)
    return QuadraticGap(
        main=main * curvature * math.sqrt(math.log(2 * d * m) / n),
        offset=2 / math.sqrt(n),
        coupling=2 * float(np.mean(_coupling(np.abs(Z0).max(axis=1), length, float(norm), m))),
    )


def _check_symmetric_start(params0: TwoLayerParams) -> None:
    W, a = np.asarray(params0.W), np.asarray(params0.a)
    half = len(W) // 2
    twins = len(W) % 2 == 0 and np.array_equal(W[:half], W[half:])
    if not twins or not np.array_equal(np.abs(a), np.ones_like(a)) or np.any(a[:half] + a[half:]):
        raise ValueError(
            "`params0` must be a symmetric start: the second half of the neurons copies the first, "
            "with output weights +1 or -1 of the other sign. nets.TwoLayer makes one with "
            "init='symmetric'."
        )


def _coupling(
    reach: Float64[np.ndarray, " n"], length: Float64[np.ndarray, " n"], w: float, m: int
) -> Float64[np.ndarray, " n"]:
    """On the change of the loss at each sample, for every movement of 2,4 norm at most w."""
    remainder = length**3 * w**3 * m**-0.25 / 6
    linear_square = reach**4 * length**2 * w**2 / (4 * math.sqrt(m))
    return remainder + remainder**2 + linear_square
