# SPDX-License-Identifier: Apache-2.0
"""Mean and covariance of an ensemble of wide networks, at any step or time of their training."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import as_number
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.dynamics.decays import Share, Steps, as_times, as_whole_steps
from unlazy.dynamics.kernel_dynamics import KernelDynamics
from unlazy.dynamics.rules import check_complete
from unlazy.kernels.layouts import CrossGram, Gram, unflat
from unlazy.kernels.posteriors import Gaussian


class Ensemble(eqx.Module):
    """An ensemble of trained networks, as `ensemble` gives it; kernels are in the eigenbasis."""

    flow: KernelDynamics
    noise: float
    cross: Float64[Array, "q r"]  # tangent kernel of the new points with each eigenvector
    prior: Float64[Array, "r r"]
    prior_cross: Float64[Array, "q r"]
    prior_test: Float64[Array, "q q"]

    @entry
    def at_step(self, steps: Steps) -> Gaussian:
        """Mean and covariance after so many steps of descent; `math.inf` is the end of training.

        Several steps come along the first axes of `mean` and `covariance`.
        """
        rule, curvatures = self.flow.rule, self.flow.curvatures
        share = rule.by_steps(curvatures, as_whole_steps(steps, "steps"))
        return self._gaussian(share, np.shape(steps))

    @entry
    def at_time(self, times: Steps) -> Gaussian:
        """Mean and covariance at these times of gradient flow, as `KernelDynamics.at_time`."""
        share = self.flow.rule.by_times(self.flow.curvatures, as_times(times, "times"))
        return self._gaussian(share, np.shape(times))

    def _gaussian(self, share: Share, times: tuple[int, ...]) -> Gaussian:
        layout, tail = self.flow.layout, self.flow.tail
        points = len(self.cross) // (layout.outputs or 1)
        with float64():
            found = [self._moments(row) for row in self.flow.components.weights(share)]
        mean = np.array([mean for mean, _ in found]).reshape(*times, points, *tail)
        size = len(self.cross)
        covariance = np.array([spread for _, spread in found]).reshape(*times, size, size)
        return Gaussian(mean, unflat(covariance, layout), layout.outputs)

    def _moments(self, weights: Float64[np.ndarray, " r"]) -> tuple[Array, Array]:
        scaled = self.cross * jnp.asarray(weights)[None, :]
        overlap = scaled @ self.prior_cross.T
        spread = self.prior_test - overlap - overlap.T + scaled @ self.prior @ scaled.T
        return scaled @ jnp.asarray(self.flow.projections), spread + self.noise * scaled @ scaled.T


@entry
def ensemble(
    flow: KernelDynamics,
    cross_gram: CrossGram,
    *,
    prior: Gram,
    prior_cross: CrossGram,
    prior_test: Float[Array | np.ndarray, "t t *outputs"],
    noise: float = 0.0,
) -> Ensemble:
    r"""Networks of one architecture, each trained from its own random weights.

    Wide networks start as a Gaussian process with the covariance $K$ (`kernels.nngp`), and each
    trains as a linear model with the tangent kernel $H$ (`kernels.ntk`). With $A_t =
    (1 - e^{-(H + \rho I) t}) (H + \rho I)^{-1}$ and $B = H_{tn} A_t$ for the new points, their
    outputs are Gaussian at all times:

    $$\mu = B y, \qquad \Sigma = K_{tt} - B K_{nt} - K_{tn} B^\top + B (K_{nn} + \nu I) B^\top$$

    For steps of descent and with momentum, $A_t$ changes as in `KernelDynamics`. Networks of which
    only the last layer is trained have $H = K$; without ridge and noise they end at
    `kernels.posterior`. With `noise` equal to the ridge, they end at that posterior with that ridge
    as variance of the noise.

    Source: arXiv:1902.06720, Corollary 1 and eqs. (14) and (15); $\rho$ and $\nu$ are ours.

    Args:
        flow: dynamics of the tangent kernel, from `KernelDynamics.from_gram`, without `start`: the
            initial outputs are random, with mean zero.
        cross_gram: tangent kernel of the new points with the training samples.
        prior: covariance of the initial outputs at the training samples, in the form of the tangent
            kernel: (n, n), or (n, n, c, c).
        prior_cross: covariance between the new points and the training samples.
        prior_test: covariance at the new points.
        noise: variance $\nu$ of noise on the labels, drawn for each network.

    Returns:
        An object with `at_step(steps)` and `at_time(times)`, each of which gives `mean`,
        `covariance` and `variance`.

    Example:
        >>> flow = KernelDynamics.from_gram(np.eye(2), np.ones(2))
        >>> near = {"prior": np.eye(2), "prior_cross": np.ones((1, 2)) / 2, "prior_test": np.eye(1)}
        >>> end = ensemble(flow, np.ones((1, 2)) / 2, **near).at_time(np.inf)
        >>> print(end.mean, end.covariance)
        [1.] [[0.5]]
    """
    check_complete(flow.eigenvectors.shape, "flow")
    if flow.start is not None:
        raise ValueError(
            "`flow` must be without `start`, got initial outputs. The networks of an ensemble "
            "start at random outputs of mean zero."
        )
    cross = flow.layout.cross(cross_gram, "cross_gram")
    points, V = np.shape(cross_gram)[0], flow.eigenvectors
    K_nn = flow.layout.gram(prior, "prior")
    K_tn = flow.layout.cross(prior_cross, "prior_cross", points)
    K_tt = flow.layout._replace(n=points).gram(prior_test, "prior_test")
    with float64():
        rotated = cross @ V, V.T @ K_nn @ V, K_tn @ V
        return Ensemble(flow, as_number(noise, "noise", least=0), *rotated, K_tt)
