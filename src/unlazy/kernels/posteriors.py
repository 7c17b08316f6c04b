# SPDX-License-Identifier: Apache-2.0
"""The posterior of a Gaussian process, with its covariance."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.kernels.layouts import CrossGram, Gram, layout_of, total_ridge, unflat
from unlazy.linalg.eigen import eigh, gram_eigenvalues


class Gaussian(eqx.Module):
    """A Gaussian distribution of outputs at `t` points, at one time or along leading axes of times.

    With kernels of shape (n, n) the outputs are independent, and `covariance` is that of each.
    """

    mean: Float64[np.ndarray, "..."]  # (*times, t, *c)
    covariance: Float64[np.ndarray, "..."]  # (*times, t, t), or (*times, t, t, c, c)
    outputs: int | None = eqx.field(static=True, default=None)  # c of the second form

    @property
    def variance(self) -> Float64[np.ndarray, "..."]:
        """The variance of each output: (*times, t), or (*times, t, c). Rounding below 0 is cut."""
        if self.outputs is None:
            found = np.diagonal(self.covariance, axis1=-2, axis2=-1)
        else:
            found = np.einsum("...iiaa->...ia", self.covariance)
        return np.maximum(found, 0.0)


@entry
def posterior(
    H: Gram,
    y: Float[Array | np.ndarray, "n *c"],
    cross_gram: CrossGram,
    test_gram: Float[Array | np.ndarray, "t t *outputs"],
    *,
    ridge: float = 0.0,
    relative_ridge: float = 0.0,
) -> Gaussian:
    r"""Mean and covariance of a Gaussian process, given noisy labels.

    $$\mu = K_{tn} (H + \rho I)^{-1} y, \qquad
    \Sigma = K_{tt} - K_{tn} (H + \rho I)^{-1} K_{nt}$$

    With the kernel `nngp` this is an infinitely wide Bayesian network, and also an ensemble of wide
    networks of which only the last layer is trained. With `ntk`, it is the process whose covariance
    is the tangent kernel. For an ensemble of networks trained in all layers, see
    `dynamics.ensemble`. Where `H` is singular and there is no ridge, the directions in which it
    vanishes tell nothing, as for a pseudo-inverse.

    Source: Rasmussen and Williams 2006, eqs. (2.23) and (2.24); for networks arXiv:1711.00165.

    Args:
        H: kernel of the training samples, (n, n), or (n, n, c, c) with coupled outputs.
        y: their labels.
        cross_gram: kernel of the new points with the training samples, (t, n) or (t, n, c, c).
        test_gram: kernel of the new points, (t, t) or (t, t, c, c).
        ridge: variance of the noise, $\rho$.
        relative_ridge: added to it, in units of the mean of the diagonal of `H`.

    Returns:
        `mean` of shape (t, *c), `covariance` of the shape of `test_gram`, and `variance`, its
        diagonal.

    Example:
        >>> found = posterior(np.eye(2), np.ones(2), np.array([[0.5, 0.0]]), np.eye(1), ridge=1.0)
        >>> print(found.mean, found.covariance)
        [0.25] [[0.875]]
    """
    layout = layout_of(H)
    matrix = layout.gram(H, "H")
    layout.check_outputs(y, "y")
    cross = layout.cross(cross_gram, "cross_gram")
    points = np.shape(cross_gram)[0]
    K_tt = layout._replace(n=points).gram(test_gram, "test_gram")
    with float64():
        noise = total_ridge(ridge, relative_ridge, float(jnp.mean(jnp.diagonal(matrix))))
        eigen = eigh(matrix)
        weights = _inverse_roots(gram_eigenvalues(eigen.values), noise)
        features = cross @ eigen.vectors * weights[None, :]
        labels = eigen.vectors.T @ jnp.asarray(layout.flat_outputs(np.asarray(y, np.float64)))
        scaled = labels * weights.reshape(-1, *[1] * (labels.ndim - 1))
        mean = np.asarray(features @ scaled).reshape(points, *np.shape(y)[1:])
        covariance = np.asarray(K_tt - features @ features.T)
    return Gaussian(mean, unflat(covariance, layout), layout.outputs)


def _inverse_roots(values: Float64[np.ndarray, " m"], noise: float) -> Float64[Array, " m"]:
    """One over the root of each eigenvalue plus noise; zero where both vanish."""
    total = values + noise
    return jnp.asarray(np.where(total > 0, 1 / np.sqrt(np.where(total > 0, total, 1)), 0))
