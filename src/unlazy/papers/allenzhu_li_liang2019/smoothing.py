# SPDX-License-Identifier: Apache-2.0
"""Section 6, smoothing: the ReLU averaged over Gaussian noise in its argument."""

import jax.numpy as jnp
import jax.scipy.stats.norm as gaussian
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_positive
from unlazy.core.entries import entry


@entry
def smoothed_relu(
    z: Float[Array | np.ndarray, "*shape"], std: int | float, *, derivative: int = 0
) -> Float[Array, "*shape"]:
    r"""The ReLU averaged over Gaussian noise of standard deviation `std`, or a derivative of that.

    $$E_{\rho \sim N(0, s^2)}\, \sigma(z + \rho) = z\, \Phi(z/s) + s\, \varphi(z/s)$$

    with the first derivative $\Phi(z/s)$ and the second $\varphi(z/s)/s$; in the dtype of `z`.

    Source: LG-15, arXiv:1811.04918 section 6. The paper's curvature "about 1" is at most
    $1/\sqrt{2\pi}$ at s = 1.

    Example:
        >>> print(smoothed_relu(jnp.zeros(()), 1.0).round(4))
        0.3989
    """
    check_positive(std, "std")
    z = jnp.asarray(z)
    u = z / std
    if derivative == 0:
        return z * gaussian.cdf(u) + std * gaussian.pdf(u)
    if derivative == 1:
        return gaussian.cdf(u)
    if derivative == 2:
        return gaussian.pdf(u) / std
    raise ValueError(f"`derivative` must be 0, 1 or 2, got derivative={derivative}.")
