# SPDX-License-Identifier: Apache-2.0
"""Polynomials as target functions: sums of monomials, and sums of powers of linear forms."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import as_array, check_count, check_finite

Inputs = Float[Array | np.ndarray, "n d"]
Values = Float[Array | np.ndarray, " n"]


class Monomials(eqx.Module):
    r"""A polynomial given by its monomials.

    $$f(x) = \sum_q c_q \prod_j x_{i_{qj}}$$

    Source: BL-38 and BL-E3, arXiv:1910.01619.
    """

    coefficients: tuple[float, ...] = eqx.field(static=True)
    monomials: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(
        self, coefficients: Sequence[int | float], monomials: Sequence[Sequence[int]]
    ) -> None:
        if len(coefficients) != len(monomials) or not len(monomials):
            raise ValueError(
                "`coefficients` and `monomials` must be as many, at least one, got "
                f"{len(coefficients)} and {len(monomials)}."
            )
        for coordinates in monomials:
            for i in coordinates:
                check_count(i, "coordinates", least=0)
        check_finite(as_array(coefficients, "coefficients"), "coefficients")
        self.coefficients = tuple(float(c) for c in coefficients)
        self.monomials = tuple(tuple(int(i) for i in coordinates) for coordinates in monomials)

    def __call__(self, x: Inputs) -> Values:
        """Its values at the rows of `x`, in their dtype."""
        needed = 1 + max((i for monomial in self.monomials for i in monomial), default=-1)
        xp, x = rows_of(x, least=needed)
        total = xp.zeros_like(x[:, 0])
        for c, monomial in zip(self.coefficients, self.monomials, strict=True):
            term = xp.full_like(x[:, 0], c)
            for i in monomial:
                term = term * x[:, i]
            total = total + term
        return total


class RidgePowers(eqx.Module):
    r"""A sum of powers of linear forms.

    $$f(x) = \sum_q \alpha_q (\beta_q^\top x)^{p_q}$$

    Source: BL-37 and BL-39, arXiv:1910.01619 Theorem 7.
    """

    # Tuples, not arrays: hashable, so that the function itself can be given to jax.jit.
    alphas: tuple[float, ...] = eqx.field(static=True)
    betas: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    powers: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        alphas: Sequence[int | float] | Float[Array | np.ndarray, " q"],
        betas: Float[Array | np.ndarray, "q d"],
        powers: Sequence[int],
    ) -> None:
        factors, rows = as_float64(alphas, "alphas"), as_float64(betas, "betas")
        if rows.ndim != 2 or not len(factors) == len(rows) == len(powers) > 0:
            raise ValueError(
                "`alphas`, `betas` and `powers` must be as many, at least one, each beta a row, "
                f"got {len(factors)}, betas.shape={rows.shape} and {len(powers)}."
            )
        for power in powers:
            check_count(power, "powers", least=0)
        self.alphas = tuple(factors.tolist())
        self.betas = tuple(tuple(row) for row in rows.tolist())
        self.powers = tuple(int(power) for power in powers)

    def __call__(self, x: Inputs) -> Values:
        """Its values at the rows of `x`, in their dtype."""
        xp, x = rows_of(x)
        betas = np.asarray(self.betas)
        if x.shape[1] != betas.shape[1]:
            raise ValueError(
                f"`x` must have {betas.shape[1]} columns, one for each of beta, "
                f"got x.shape={x.shape}."
            )
        forms = product(x, betas.T)
        total = xp.zeros_like(x[:, 0])
        for q, (alpha, power) in enumerate(zip(self.alphas, self.powers, strict=True)):
            total = total + alpha * forms[:, q] ** power
        return total


def as_float64(value: Any, name: str) -> np.ndarray:
    """A finite array in float64."""
    array = np.asarray(as_array(value, name), np.float64)
    check_finite(array, name)
    return array


def rows_of(x: Inputs, least: int = 0) -> tuple[Any, Any]:
    """The module to compute with, and the rows, with at least so many columns."""
    x = as_array(x)
    if x.ndim != 2:
        raise ValueError(f"`x` must have shape (n, d), got x.shape={x.shape}.")
    if x.shape[1] < least:
        raise ValueError(f"`x` must have at least {least} columns, got x.shape={x.shape}.")
    return (jnp if isinstance(x, jax.Array) else np), x


def product(x: Any, matrix: Float[np.ndarray, "d q"]) -> Any:
    """The rows times a matrix, in the dtype of the rows, at full precision."""
    if isinstance(x, jax.Array):
        return jnp.matmul(x, jnp.asarray(matrix, x.dtype), precision=jax.lax.Precision.HIGHEST)
    return x @ np.asarray(matrix, x.dtype)
