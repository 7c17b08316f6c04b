# SPDX-License-Identifier: Apache-2.0
"""Parities on the corners of a cube, and parities of parities: a base signal and a composite."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_finite, check_positive
from unlazy.core.entries import entry
from unlazy.data.polynomials import Inputs, rows_of

Outputs = Float[Array | np.ndarray, "n k"]


class ComposedParities(eqx.Module):
    r"""Several parities of signs, and a small parity of them.

    $$y_r = \beta F_r(x) + \alpha\, s_r \prod_{q \in Q} F_q(x), \qquad
    F_r(x) = \prod_{j \in S_r} x_j / c$$

    for inputs on the corners of $[-c, c]^d$. The composite is one parity of degree $|S|$, the same
    in all outputs up to its sign.

    Source: RN-60, RN-66 and RN-15, arXiv:1905.10337 sections 7.1 and 8.

    Args:
        groups: $S_r$, the distinct coordinates of each base parity, one group per output.
        outer: Q, the numbers of the base parities that are multiplied.
        signs: $s_r$, each 1 or -1; None means all 1.
        alpha: the size of the composite.
        beta: the size of the base signal.
        scale: c, the absolute value of the inputs' entries.

    Example:
        >>> f = ComposedParities([(0, 1), (2, 3)], outer=(0, 1), alpha=0.5)
        >>> print(f(np.array([[1.0, -1.0, 1.0, 1.0]])), f.parity)
        [[-1.5  0.5]] (0, 1, 2, 3)
    """

    # Tuples, not arrays: hashable, so that the function itself can be given to jax.jit.
    groups: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    outer: tuple[int, ...] = eqx.field(static=True)
    signs: tuple[int, ...] = eqx.field(static=True)
    alpha: float = eqx.field(static=True)
    beta: float = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    @entry
    def __init__(
        self,
        groups: Sequence[Sequence[int]],
        outer: Sequence[int],
        signs: Sequence[int] | None = None,
        *,
        alpha: int | float = 0.3,
        beta: int | float = 1.0,
        scale: int | float = 1.0,
    ) -> None:
        self.groups = tuple(_distinct(group, "groups") for group in groups)
        self.outer = _distinct(outer, "outer")
        if not self.outer or max(self.outer) >= len(self.groups):
            raise ValueError(
                f"`outer` must name at least one of the {len(self.groups)} groups by its number, "
                f"got outer={self.outer}."
            )
        self.signs = tuple(signs) if signs is not None else (1,) * len(self.groups)
        if len(self.signs) != len(self.groups) or not set(self.signs) <= {1, -1}:
            raise ValueError(
                f"`signs` must be {len(self.groups)} numbers 1 or -1, one a group, "
                f"got signs={self.signs}."
            )
        check_finite(alpha, "alpha")
        check_finite(beta, "beta")
        check_positive(scale, "scale")
        self.alpha, self.beta, self.scale = float(alpha), float(beta), float(scale)

    @entry
    def __call__(self, x: Inputs) -> Outputs:
        """Its values at the rows of `x`, in their dtype."""
        F = self.base(x)
        return self.beta * F + self.alpha * self._composed(F)

    @entry
    def base(self, x: Inputs) -> Outputs:
        """The base signal F, without its factor."""
        xp, x = rows_of(x, least=self.inputs)
        return xp.stack([_product(x, group, self.scale) for group in self.groups], axis=1)

    @entry
    def composite(self, x: Inputs) -> Outputs:
        """The composite signal G(F(x)), without its factor."""
        return self._composed(self.base(x))

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return len(self.groups)

    @property
    def parity(self) -> tuple[int, ...]:
        """The set S of coordinates whose product is the composite, up to its sign."""
        left: set[int] = set()  # in an odd number of groups: squares of signs are 1
        for q in self.outer:
            left ^= set(self.groups[q])
        return tuple(sorted(left))

    @property
    def base_risk(self) -> float:
        r"""The risk of a perfect fit to the base signal: the mean of $\|\alpha G(F(x))\|^2$."""
        return self.outputs * self.alpha**2

    @property
    def zero_risk(self) -> float:
        r"""The risk of predicting zero: the mean of $\|y\|^2$ on the cube."""
        S = self.parity
        pairs = zip(self.groups, self.signs, strict=True)
        same = [2 * self.alpha * self.beta * s for group, s in pairs if tuple(sorted(group)) == S]
        return self.outputs * (self.alpha**2 + self.beta**2) + sum(same)

    @property
    def inputs(self) -> int:
        """The smallest possible number of inputs."""
        return 1 + max(j for group in self.groups for j in group)

    def _composed(self, F: Array | np.ndarray) -> Array | np.ndarray:
        xp = jnp if isinstance(F, jax.Array) else np
        signs = xp.asarray(self.signs, dtype=F.dtype)
        return _product(F, self.outer, 1.0)[:, None] * signs[None, :]


def parities_of_parities(
    inputs: int = 30,
    alpha: int | float = 0.3,
    beta: int | float = 1.0,
    size: int = 2,
    factors: int = 4,
) -> ComposedParities:
    r"""The benchmark of residual networks: products of pairs, and a product of four of those."""
    for name, value in (("inputs", inputs), ("size", size), ("factors", factors)):
        check_count(value, name)
    k = inputs // size
    if inputs % size or factors > k:
        raise ValueError(
            f"`inputs` must be a multiple of size={size}, at least factors={factors} times it, "
            f"got inputs={inputs}."
        )
    groups = [tuple(range(size * r, size * (r + 1))) for r in range(k)]
    signs = [-1 if r % 2 == 0 else 1 for r in range(k)]  # (-1)^i, i from 1
    return ComposedParities(groups, range(factors), signs, alpha=alpha, beta=beta)


def hard_parities(
    coordinates: Sequence[int], alpha: int | float = 0.3, scale: int | float = 1.0
) -> ComposedParities:
    r"""A member of the class that is hard for kernels: $y_r = x_{i_r} + \alpha \chi_S(x)$."""
    groups = [(int(j),) for j in coordinates]
    return ComposedParities(groups, range(len(groups)), alpha=alpha, scale=scale)


def parity_coefficient(coordinates: Sequence[int], scale: int | float) -> float:
    """The factor that makes a product of entries of size `scale` a sign."""
    check_positive(scale, "scale")
    return math.pow(scale, -len(_distinct(coordinates, "coordinates")))


def _product(x: Array | np.ndarray, group: Sequence[int], scale: float) -> Array | np.ndarray:
    value = x[:, group[0]] / scale
    for j in group[1:]:
        value = value * (x[:, j] / scale)
    return value


def _distinct(coordinates: Sequence[int], name: str) -> tuple[int, ...]:
    for j in coordinates:
        check_count(j, name, least=0)
    found = tuple(int(j) for j in coordinates)
    if len(set(found)) != len(found) or not found:
        raise ValueError(f"`{name}` must be distinct coordinates, at least one, got {found}.")
    return found
