# SPDX-License-Identifier: Apache-2.0
"""How evenly inputs are spread: the operator norm that the quadratic bound hangs on."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from unlazy.core.checks import check_count, check_inputs
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.papers.shared.patterns import Inputs


@entry
def second_moment_norm(x: Inputs) -> float:
    r"""The size of the inputs' second moment, relative to their norm: between $1/\sqrt d$ and 1.

    $$M_{x,\mathrm{op}} = \Big(B_x^{-2} \big\|\tfrac1n X^\top X\big\|_{\mathrm{op}}\Big)^{1/2}$$

    The smaller, the fewer samples the quadratic model needs against the NTK. Isotropic inputs have
    about `isotropic_second_moment_norm`; inputs along one line, or with a mean of the size of their
    norm, have about 1: centre them first. The paper's value is the mean over samples of what is
    computed here from one.

    Source: BL-17, arXiv:1910.01619 Theorem 6, which it enters.

    Args:
        x: inputs, one a row. $B_x$ is their common norm; where the norms differ, the largest, for
            which the bounds remain true.

    Raises:
        ValueError: `x` is not a finite (n, d) array, or has a row of zeros.

    Example:
        >>> print(second_moment_norm(jnp.eye(4)))  # each direction once
        0.5
    """
    check_inputs(x)
    with float64():
        largest, radius = _largest(jnp.asarray(x, jnp.float64))
        return float(np.sqrt(np.asarray(largest))) / float(radius)


@entry
def isotropic_second_moment_norm(n: int, d: int) -> float:
    r"""What `second_moment_norm` is about for isotropic inputs.

    $$M_{x,\mathrm{op}} \approx \frac{1 + \sqrt{d/n}}{\sqrt d}$$

    Not above 1, which no inputs exceed.

    Source: BL-17, arXiv:1910.01619 after Theorem 6 (Bai and Yin's edge of the spectrum).

    Args:
        n: number of samples.
        d: their dimension.

    Example:
        >>> print(isotropic_second_moment_norm(400, 100))
        0.15
    """
    check_count(n, "n", most=None)
    check_count(d, "d", most=None)
    return min((1 + math.sqrt(d / n)) / math.sqrt(d), 1.0)


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
