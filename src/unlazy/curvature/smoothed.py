# SPDX-License-Identifier: Apache-2.0
r"""The loss averaged over Gaussian noise in its parameters: its gradient and its curvature.

$$L_\sigma(\theta) = E_\rho L(\theta + \sigma\rho), \qquad \nabla^2 L_\sigma(\theta) =
E\, \frac{\nabla L(\theta + \sigma\rho) - \nabla L(\theta - \sigma\rho)}{2\sigma}\, \rho^\top$$

The second is Stein's identity, in which nothing is differentiated twice: it sees the curvature that
sits in kinks. With the Hessian $H_0$ at the point taken out, $\nabla^2 L_\sigma = H_0 + E\, \sigma
^{-1} u \rho^\top$ for $u = (\nabla L(\theta + \sigma\rho) - \nabla L(\theta - \sigma\rho))/2 -
\sigma H_0 \rho$, it is exact for quadratic losses.

It can happen that no draw meets a kink several standard deviations away, however strong the kink
is. Then the spread of the draws does not show it. An event of the probability $3/n$ escapes $n$
draws once in 20 times. A jump of the gradient by $J$ across a plane that the pairs cross with that
probability, $2 \Phi(-k) = 3/n$, adds at most $\Phi(-k) |J|$ to the gradient and $\phi(k) |J|^2 /
|\sigma J|$ to the curvature. So the errors include these for the jumps that random lines meet.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_positive
from unlazy.core.convolutions import looped
from unlazy.curvature.kinks import jumps, may_kink
from unlazy.curvature.objective import Objective
from unlazy.linalg.extremes import lanczos_ends

Smoothing = Any
"""The standard deviation of the noise: one number, or a tree of them that begins as `params` do."""

_FLIPS = 20  # of the signs of the draws; the largest error among them has a level of 95%
_FLIP_STEPS = 40  # of Lanczos for the size of an error
_LINES = 8  # on which jumps that the draws may have missed are looked for
_REACH = 6.0  # of these lines on each side, in standard deviations of the noise
_MISSED = 3.0  # expected draws of an event that no draw shows once in 20 times
_MET = 30.0  # expected draws of an event whose size the spread of the draws tells
_SIGMAS = 3.0  # standard errors of a curvature that counts as proved


class Smoothed(NamedTuple):
    """Loss, norm of the gradient with its error, and Hessian of the loss under noise."""

    loss: float
    gradient_norm: float
    gradient_error: float
    hessian: "SampledHessian"


class SampledHessian(eqx.Module):
    """A weighted sum over the draws, a symmetric matrix by its products with vectors."""

    objective: Objective | None  # whose Hessian at the point is added
    U: Float[Array, "n p"]
    R: Float[Array, "n p"]  # the noise over its standard deviations
    weights: Float[Array, " n"]
    unseen: Float[Array, ""]  # curvature of kinks that the draws may have missed

    def __call__(self, v: Float[Array, " p"]) -> Float[Array, " p"]:
        """The product."""
        one, other = (
            A.T @ (self.weights * (B @ v)) for A, B in ((self.U, self.R), (self.R, self.U))
        )
        sampled = (one + other) / 2
        return sampled if self.objective is None else sampled + self.objective.hessian_product(v)

    def weighted(self, weights: Float[Array, " n"], *, centred: bool) -> "SampledHessian":
        """The same draws with other weights; `centred` without the Hessian at the point."""
        objective = None if centred else self.objective
        return SampledHessian(objective, self.U, self.R, weights, self.unseen)

    def error(self, *, key: PRNGKeyArray) -> float:
        r"""The size of the error in the spectral norm, at a level of about 95%.

        The largest norm of $\frac1n \sum_i \epsilon_i (X_i - \bar X)$ over 20 draws of signs
        $\epsilon$, which vary as $\bar X$ does around its mean, plus the curvature of the kinks on
        random lines that the draws may have missed. It does not count a kink that neither the draws
        nor the lines meet.
        """
        n, p = self.U.shape
        largest = 0.0
        for key_flip in jr.split(key, _FLIPS):
            key_signs, key_start = jr.split(key_flip)
            signs = jr.rademacher(key_signs, (n,), jnp.float64)
            noise = self.weighted((signs - jnp.mean(signs)) / n, centred=True)
            start = jr.normal(key_start, (p,), jnp.float64)
            ends = lanczos_ends(noise, start, steps=min(p, _FLIP_STEPS))
            largest = max(largest, *(abs(value) for value in ends.values))
        return float(largest) + float(self.unseen)

    def proved_curvature(self, *, steps: int, key: PRNGKeyArray) -> float:
        """An upper bound, by three standard errors, on the curvature along some direction.

        Half of the draws choose the direction, and the other half measure the curvature along it.
        """
        n, p = self.U.shape
        first = jnp.arange(n) < n // 2
        chosen = self.weighted(first / jnp.sum(first), centred=False)
        start = jr.normal(key, (p,), jnp.float64)
        v = lanczos_ends(chosen, start, steps=min(p, steps)).vectors[0]
        at_point, forms = _along(self, v)
        rest = np.asarray(forms)[n // 2 :]
        error = float(np.std(rest, ddof=1)) / math.sqrt(len(rest))
        return float(at_point) + float(np.mean(rest)) + _SIGMAS * error + float(self.unseen)


@eqx.filter_jit
def _along(hessian: SampledHessian, v: Float[Array, " p"]) -> tuple[Array, Float[Array, " n"]]:
    assert hessian.objective is not None
    return v @ hessian.objective.hessian_product(v), (hessian.U @ v) * (hessian.R @ v)


def smoothed(
    objective: Objective, smoothing: Smoothing, draws: int, *, key: PRNGKeyArray
) -> Smoothed:
    """Loss, gradient and Hessian of a float64 objective under noise, by antithetic pairs."""
    s = _deviations(objective, smoothing)
    losses, total, squares, U, R = _pairs(objective, s, jr.split(key, draws))
    mean = np.asarray(total) / draws
    variance = np.maximum(np.asarray(squares) / draws - mean**2, 0) / (draws - 1)
    of_gradient, of_curvature = _unseen(objective, s, draws, key=jr.fold_in(key, draws))
    hessian = SampledHessian(objective, U, R, jnp.full(draws, 1 / draws), jnp.asarray(of_curvature))
    error = 2 * math.sqrt(float(np.sum(variance))) + of_gradient
    return Smoothed(float(jnp.mean(losses)), float(np.linalg.norm(mean)), error, hessian)


def _unseen(
    objective: Objective, s: Float[Array, " p"], draws: int, *, key: PRNGKeyArray
) -> tuple[float, float]:
    """Gradient and curvature that kinks may add although no draw meets them."""
    if not may_kink(objective):
        return 0.0, 0.0
    tail = _MISSED / draws / 2  # on one side: the draws are pairs
    density = NormalDist().pdf(NormalDist().inv_cdf(tail))
    length = _REACH * math.sqrt(s.size)  # in standard deviations: no plane on it is further away
    met = -NormalDist().inv_cdf(min(_MET / draws, 1.0) / 2) / length
    found = []
    for key_line in jr.split(key, _LINES):
        v = jr.normal(key_line, s.shape, s.dtype)
        sides = jumps(objective, length * s * v / jnp.linalg.norm(v))
        found.append(_jump_sizes(s, *(side[int(met * len(side)) :] for side in sides)))
    of_gradient, of_curvature = np.max(np.asarray(found), axis=0)
    return tail * float(of_gradient), density * float(of_curvature)


@jax.jit
def _jump_sizes(
    s: Float[Array, " p"], plus: Float[Array, "k p"], minus: Float[Array, "k p"]
) -> Float[Array, " 2"]:
    """The sums of |J| and of |J|^2 / |s J|, of the jumps as antithetic pairs add them up."""
    even, odd = plus - minus, plus + minus
    squares, scaled = jnp.sum(even**2, 1), jnp.linalg.norm(even * s[None], axis=1)
    curvatures = jnp.where(scaled > 0, squares / jnp.where(scaled > 0, scaled, 1), 0)
    return jnp.stack([jnp.sum(jnp.linalg.norm(odd, axis=1)), jnp.sum(curvatures)])


@eqx.filter_jit
def _pairs(objective: Objective, s: Float[Array, " p"], keys: Array):
    """The losses, the sum of the gradients and of their squares, and what gives the Hessian."""
    flat, unravel = ravel_pytree(objective.trained)

    def at(point: Float[Array, " p"]) -> tuple[Array, Float[Array, " p"]]:
        value, gradient = jax.value_and_grad(objective)(unravel(point))
        return value.astype(flat.dtype), ravel_pytree(gradient)[0]

    def pair(sums: tuple[Array, Array], key: PRNGKeyArray):
        r = jr.normal(key, flat.shape, flat.dtype)
        (v1, g1), (v2, g2) = at(flat + s * r), at(flat - s * r)
        mean = (g1 + g2) / 2
        u = (g1 - g2) / 2 - objective.hessian_product(s * r)
        return (sums[0] + mean, sums[1] + mean**2), ((v1 + v2) / 2, u, r / s)

    zero = jnp.zeros_like(flat)
    sums, (losses, U, R) = jax.lax.scan(looped(pair), (zero, zero), keys)
    return losses, *sums, U, R


def _deviations(objective: Objective, smoothing: Smoothing) -> Float[Array, " p"]:
    """The standard deviation of each entry of the trained parameters."""
    for value in jax.tree.leaves(smoothing):
        check_positive(value, "smoothing")

    def spread(value: Any, part: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.full(leaf.shape, float(value)), part)

    try:
        return ravel_pytree(jax.tree.map(spread, smoothing, objective.trained))[0]
    except ValueError as error:
        raise ValueError(
            "`smoothing` must be a number, or a tree of numbers that is a prefix of `params`, got "
            f"smoothing={smoothing!r}: {error}"
        ) from error
