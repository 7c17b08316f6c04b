# SPDX-License-Identifier: Apache-2.0
"""The posterior of a Gaussian process, with its covariance."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_finite
from unlazy.core.drawing import LINES, Axes, hues
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.panels import panel
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
    def plot(
        self, ax: Axes | None = None, *, x: Float[Array | np.ndarray, " t"] | None = None
    ) -> Axes:
        """Draw the mean at every point, in a band of two standard deviations to either side.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            x: where each point lies on the horizontal axis; None for the numbers of the points.

        Raises:
            ValueError: there are several times; draw each by itself, on the same `ax`.

        Example:
            >>> near = np.array([[0.5, 0.0], [0.0, 0.5]])
            >>> ax = posterior(np.eye(2), np.ones(2), near, np.eye(2)).plot(x=np.array([0.0, 1.0]))
            >>> print(ax.get_lines()[0].get_ydata())
            [0.5 0.5]
        """
        means = self._columns()
        places = np.arange(len(means), dtype=float) if x is None else _places(x, len(means))
        order = np.argsort(places, kind="stable")
        spread = 2 * np.sqrt(self.variance.reshape(len(means), -1))
        spread = np.broadcast_to(spread, means.shape)
        with panel(ax) as ax:
            for k, color in enumerate(hues(means.shape[1])):
                mean, width = means[order, k], spread[order, k]
                name = "mean" if means.shape[1] == 1 else f"mean of output {k}"
                ax.plot(places[order], mean, color=color, ls=LINES[k % len(LINES)], label=name)
                look = {"color": color, "alpha": 0.15, "lw": 0}
                band = "2 standard deviations" if k == 0 else None
                ax.fill_between(places[order], mean - width, mean + width, label=band, **look)
            ax.set(xlabel="number of the point" if x is None else "x", ylabel="output")
            ax.legend()
        return ax

    def _columns(self) -> Float64[np.ndarray, "t c"]:
        """The means, a column per output."""
        times = self.covariance.shape[: -2 if self.outputs is None else -4]
        if times:
            raise ValueError(
                f"`mean` must be that of one time to be drawn, got times of shape {times}. "
                "Take at_step or at_time of one number, and draw each on the same `ax`."
            )
        return self.mean.reshape(len(self.mean), -1)


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


def _places(x: Float[Array | np.ndarray, " t"], count: int) -> Float64[np.ndarray, " t"]:
    check_finite(x, "x")
    if np.shape(x) != (count,):
        raise ValueError(
            f"`x` must have one number for each of {count} points, got x.shape={np.shape(x)}."
        )
    return np.asarray(x, np.float64)


def _inverse_roots(values: Float64[np.ndarray, " m"], noise: float) -> Float64[Array, " m"]:
    """One over the root of each eigenvalue plus noise; zero where both vanish."""
    total = values + noise
    return jnp.asarray(np.where(total > 0, 1 / np.sqrt(np.where(total > 0, total, 1)), 0))
