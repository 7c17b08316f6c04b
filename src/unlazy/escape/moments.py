# SPDX-License-Identifier: Apache-2.0
"""Pairs of random multipliers whose moments agree below an order and differ by 1 at that order."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_key, check_name
from unlazy.core.entries import entry

Nodes = str | Sequence[int | float | Fraction] | np.ndarray
_FAMILIES = ("chebyshev", "equispaced")
_TOLERANCE = 1e-9  # largest error of a moment that rounded support points may cause


class Discrete(eqx.Module):
    """A random variable with finitely many values.

    `exact` holds the unscaled values with their probabilities where both are rational, else None.
    """

    support: Float64[np.ndarray, " k"]
    weights: Float64[np.ndarray, " k"]
    exact: tuple[tuple[Fraction, Fraction], ...] | None = eqx.field(static=True, default=None)

    @entry
    def moment(self, j: int) -> float:
        """The mean of the j-th power."""
        check_count(j, "j", least=0)
        return math.fsum(self.weights * self.support**j)

    @entry
    def sample(self, shape: tuple[int, ...], *, key: PRNGKeyArray) -> Float[Array, "..."]:
        """Independent draws, in JAX's default floating-point type."""
        check_key(key)
        values, weights = (jnp.asarray(v, float) for v in (self.support, self.weights))
        return jr.choice(key, values, shape, p=weights)

    @entry
    def stratified(self, count: int, *, key: PRNGKeyArray) -> Float[Array, " {count}"]:
        """Draws that take each value as often as its weight says, in random order.

        Each draw has this distribution, but they are not independent: a value of weight w comes up
        `count * w` times, to within 1.
        """
        check_count(count, "count")
        check_key(key)
        key_shift, key_order = jr.split(key)
        # One random shift for all (systematic sampling), then a random order.
        levels = jnp.asarray(np.cumsum(self.weights)[:-1] * count, float)
        position = jnp.arange(count, dtype=float) + jr.uniform(key_shift, dtype=float)
        chosen = jnp.searchsorted(levels, position, side="right")
        return jr.permutation(key_order, jnp.asarray(self.support, float)[chosen])


class MatchedMoments(NamedTuple):
    """Two multipliers with $E z_+^j = E z_-^j$ for j < k and $E z_+^k = E z_-^k + 1$."""

    plus: Discrete
    minus: Discrete


@entry
def matched_moments(order: int, nodes: Nodes = "chebyshev") -> MatchedMoments:
    r"""Two multipliers whose moments agree below `order` and differ by 1 at `order`.

    $$E z_+^j = E z_-^j \quad (j < k), \qquad E z_+^k = E z_-^k + 1$$

    For any distinct nodes $t_0, \dots, t_k$ take the weights of the divided difference,
    $\omega_i = 1/\prod_{j \ne i}(t_i - t_j)$: they annihilate every power below k. With $M$ the sum
    of the positive ones and $c = M^{1/k}$, $z_+$ is $c\,t_i$ with probability $\omega_i/M$ where
    $\omega_i > 0$, and $z_-$ is $c\,t_i$ with probability $|\omega_i|/M$ where $\omega_i < 0$.

    `order` is k, at least 1, and `nodes` are k + 1 distinct numbers or the name of a family:

    - "chebyshev": $t_i = \cos(i\pi/k)$, the smallest support there is; $c = 2^{1-2/k}$.
    - "equispaced": $t_i = i - k/2$; $c = (2^{k-1}/k!)^{1/k}$. At order 2 it is the paper's sign
      trick, $z_+ = \pm 1$ against $z_- = 0$ (and "chebyshev" is the same).

    The weights are computed in rational arithmetic, and the moments of the result are verified.

    Source: BL-40, BL-41 and BL-42, arXiv:1910.01619 section 6.

    Raises:
        ValueError: float64 cannot hold such moments (beyond order 25 or so, or for nodes that
            nearly coincide).

    Example:
        >>> z_plus, z_minus = matched_moments(3, nodes="equispaced")
        >>> print(z_plus.weights, round(z_plus.moment(3) - z_minus.moment(3), 12))
        [0.75 0.25] 1.0
    """
    check_count(order, "order", most=100)
    if not isinstance(nodes, str):
        pair = _divided_difference(_rational(nodes, order))
    else:
        check_name(nodes, _FAMILIES, "nodes")
        equispaced = [Fraction(2 * i - order, 2) for i in range(order + 1)]
        pair = _chebyshev(order) if nodes == "chebyshev" else _divided_difference(equispaced)
    _verify(pair, order)
    return pair


def _rational(nodes: Sequence[int | float | Fraction] | np.ndarray, order: int) -> list[Fraction]:
    check_finite(np.array([float(node) for node in nodes]), "nodes")
    # A float is a rational number, so nothing is rounded here.
    values = sorted(
        Fraction(n) if isinstance(n, Fraction | int) else Fraction(float(n)) for n in nodes
    )
    if len(values) != order + 1 or len(set(values)) != order + 1:
        raise ValueError(
            f"`nodes` must be {order + 1} distinct numbers for order={order}, got nodes={nodes!r}."
        )
    return values


def _divided_difference(nodes: list[Fraction]) -> MatchedMoments:
    omega = [1 / math.prod((t - u for u in nodes if u != t), start=Fraction(1)) for t in nodes]
    mass = sum((w for w in omega if w > 0), Fraction(0))
    # Not float(mass) ** (1/k), which under- or overflows for nodes far from 1.
    log_mass = math.log(mass.numerator) - math.log(mass.denominator)
    c = math.exp(log_mass / (len(nodes) - 1))

    def law(sign: int) -> Discrete:
        atoms = [(t, sign * w / mass) for t, w in zip(nodes, omega, strict=True) if sign * w > 0]
        support = np.array([c * float(t) for t, _ in atoms])
        return Discrete(support, np.array([float(p) for _, p in atoms]), tuple(atoms))

    return MatchedMoments(law(1), law(-1))


def _chebyshev(order: int) -> MatchedMoments:
    i = np.arange(order + 1)
    # cos(i pi/k), written so that the nodes are symmetric to the last digit.
    nodes = np.sin(np.pi * (order - 2 * i) / (2 * order))
    weights = np.where((i == 0) | (i == order), 1.0, 2.0) / order
    support = 2.0 ** (1 - 2 / order) * nodes
    return MatchedMoments(*(Discrete(support[s::2], weights[s::2]) for s in (0, 1)))


def _verify(pair: MatchedMoments, order: int) -> None:
    gaps = [pair.plus.moment(j) - pair.minus.moment(j) for j in range(order + 1)]
    error = max(abs(gap - (j == order)) for j, gap in enumerate(gaps))
    if not error <= _TOLERANCE:
        raise ValueError(
            f"`order` must be such that float64 can match the moments, got order={order} with an "
            f"error of {error:.2g} in a moment. Lower the order, or spread the nodes."
        )
