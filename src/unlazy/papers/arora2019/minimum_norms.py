# SPDX-License-Identifier: Apache-2.0
"""The shortest movement of the hidden layer after which the linearised network fits the labels."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_labels
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.linalg import eigh
from unlazy.nets import TwoLayerParams
from unlazy.papers.shared import activation_patterns as patterns


class MinimumNorm(eqx.Module):
    """A movement of the hidden layer, and the kernel coefficients that it is made of."""

    dW: Float64[Array, "m d"]
    coefficients: Float64[np.ndarray, " n"]  # alpha = H(0)^-1 y
    energy: float  # y^T H(0)^-1 y, the squared norm of dW


@entry
def minimum_norm(
    params0: TwoLayerParams, x: patterns.Inputs, y: Float[Array | np.ndarray, " n"]
) -> MinimumNorm:
    r"""The movement of least norm that makes the linearised ReLU network interpolate.

    $$\Delta w_r = \frac{a_r}{\sqrt m} \sum_i \alpha_i 1\{w_r(0)^\top x_i \ge 0\}\, x_i, \qquad
    \alpha = H(0)^{-1} y, \qquad \|\Delta W\|_F^2 = y^\top H(0)^{-1} y$$

    where gradient descent on the linearised network ends, started at zero, for output weights
    $\pm 1$. The Jacobian is never formed. For a start whose outputs $u(0)$ are not zero pass
    $y - u(0)$ as labels. `dW` is in float64: with x64 off, JAX would round it in the next
    operation, so work under `with jax.enable_x64(True)`, or on `np.asarray(result.dW)`.

    Source: AR-70 and AR-13, arXiv:1901.08584 section 5.

    Raises:
        ValueError: the linearised network cannot interpolate the labels (duplicate rows that
            disagree, or too few neurons).

    Example:
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.ones(2))
        >>> lift = minimum_norm(params, jnp.eye(2), jnp.array([3.0, 4.0]))
        >>> print(lift.energy, np.asarray(lift.dW).ravel() * math.sqrt(2))
        25.0 [3. 4. 3. 4.]
    """
    patterns.check_network(params0.W, x)
    _check_signs(params0)
    check_labels(y, x.shape[0])
    with float64():
        A = patterns.pattern(patterns.preactivations(params0.W, x))
        labels = np.asarray(y, np.float64)
        alpha = _solve(patterns.pattern_gram(A, x), labels)
        dW = _lift(A, jnp.asarray(x, jnp.float64), jnp.asarray(params0.a, jnp.float64), alpha)
        return MinimumNorm(dW, alpha, float(alpha @ labels))


def _check_signs(params0: TwoLayerParams) -> None:
    """The kernel H leaves the output weights out: their squares must be 1."""
    sizes = np.abs(np.asarray(params0.a, np.float64))
    if not np.all(sizes == 1):
        worst = int(np.argmax(np.abs(sizes - 1)))
        raise ValueError(
            f"`params0.a` must have entries 1 and -1, got {float(params0.a[worst]):g} in row "
            f"{worst}. Move the scale of the outputs to the labels."
        )


@jax.jit
def _lift(A, x: Float64[Array, "n d"], a: Float64[Array, " m"], alpha) -> Float64[Array, "m d"]:
    weighted = jnp.where(A, jnp.asarray(alpha)[:, None], 0.0)
    sums = jnp.matmul(weighted.T, x, precision=jax.lax.Precision.HIGHEST)
    return (a / math.sqrt(A.shape[1]))[:, None] * sums


def _solve(H: Float64[Array, "n n"], y: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """Solve by eigenvalues: at finite width H may be singular and the labels still consistent."""
    eigen = eigh(H)
    keep = eigen.values > len(y) * float(np.finfo(np.float64).eps) * float(eigen.values[0])
    vectors = np.asarray(eigen.vectors)[:, keep]
    projections = vectors.T @ y
    outside = float(np.linalg.norm(y - vectors @ projections))
    if outside > 1e-6 * float(np.linalg.norm(y)):
        raise ValueError(
            "`y` must be within reach of the linearised network, got labels of which a share "
            f"{outside / float(np.linalg.norm(y)):.2g} is not. Widen the network, or drop rows "
            "that are duplicates with different labels."
        )
    return vectors @ (projections / eigen.values[keep])
