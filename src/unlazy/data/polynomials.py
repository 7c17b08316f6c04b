# SPDX-License-Identifier: Apache-2.0
"""Polynomials as target functions: monomials, powers of linear forms, dense quadratic forms."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import as_array, check_count, check_finite
from unlazy.core.entries import entry

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


class LowPlusSparse(eqx.Module):
    r"""A dense polynomial, plus powers of linear forms.

    $$f(x) = \underbrace{c + \gamma^\top x + x^\top A x
    + \sum_{j \ge 3} A_j[x, \dots, x]}_{\text{low}}
    + \underbrace{\sum_q \alpha_q (\beta_q^\top x)^{p_q}}_{\text{sparse}}, \qquad
    A_j[x, \dots, x] = \sum_{i_1, \dots, i_j} (A_j)_{i_1 \dots i_j} x_{i_1} \cdots x_{i_j}$$

    `higher` has $A_3, A_4, \dots$ in this order, arrays of shapes (d, d, d), (d, d, d, d), and so
    on; they need not be symmetric. A kernel learns the low part, of degree k, from about $d^k$
    samples and needs $d^{k+1}$ for the sparse part.

    Source: NB-50 and NB-52, arXiv:2206.03688 section 2; `low` is $f_k$, `sparse` $f_{sp}$.

    Example:
        >>> f = LowPlusSparse([1.0], np.eye(2)[:1], [2], constant=-1.0, linear=np.array([1.0, 0.0]))
        >>> x = np.array([[2.0, 5.0]])
        >>> print(f.low(x), f.sparse(x), f(x))
        [1.] [4.] [5.]
    """

    sparse: RidgePowers
    constant: float = eqx.field(static=True)
    linear: tuple[float, ...] | None = eqx.field(static=True)
    quadratic: tuple[tuple[float, ...], ...] | None = eqx.field(static=True)
    higher: tuple[tuple[float, ...], ...] = eqx.field(
        static=True
    )  # the entries of each, in C order

    @entry
    def __init__(
        self,
        alphas: Sequence[int | float] | Float[Array | np.ndarray, " q"],
        betas: Float[Array | np.ndarray, "q d"],
        powers: Sequence[int],
        *,
        constant: int | float = 0.0,
        linear: Float[Array | np.ndarray, " d"] | None = None,
        quadratic: Float[Array | np.ndarray, "d d"] | None = None,
        higher: Sequence[Float[Array | np.ndarray, "..."]] = (),
    ) -> None:
        self.sparse = RidgePowers(alphas, betas, powers)
        d = np.shape(betas)[1]
        check_finite(constant, "constant")
        self.constant = float(constant)
        self.linear = self.quadratic = None
        if linear is not None:
            self.linear = tuple(_checked(linear, (d,), "linear").tolist())
        if quadratic is not None:
            rows = _checked(quadratic, (d, d), "quadratic").tolist()
            self.quadratic = tuple(tuple(row) for row in rows)
        self.higher = tuple(
            tuple(_checked(value, (d,) * order, f"higher[{order - 3}]").ravel().tolist())
            for order, value in enumerate(higher, 3)
        )

    @property
    def tensors(self) -> tuple[Float[np.ndarray, "..."], ...]:
        """The coefficients of the low part by order: a number, a vector, a matrix, and so on."""
        d = len(self.sparse.betas[0])
        linear = np.zeros(d) if self.linear is None else np.asarray(self.linear)
        quadratic = np.zeros((d, d)) if self.quadratic is None else np.asarray(self.quadratic)
        higher = (np.reshape(entries, (d,) * order) for order, entries in enumerate(self.higher, 3))
        return np.asarray(self.constant), linear, quadratic, *higher

    @entry
    def __call__(self, x: Inputs) -> Values:
        """Its values at the rows of `x`, in their dtype."""
        return self.low(x) + self.sparse(x)

    @entry
    def low(self, x: Inputs) -> Values:
        """The dense part at the rows of `x`."""
        xp, x = rows_of(x)
        d = len(self.sparse.betas[0])
        if x.shape[1] != d:
            raise ValueError(f"`x` must have {d} columns, got x.shape={x.shape}.")
        total = xp.full_like(x[:, 0], self.constant)
        for tensor in self.tensors[1:]:
            if tensor.any():
                total = total + _form(xp, x, tensor)
        return total


def _form(xp: Any, x: Any, tensor: Float[np.ndarray, "..."]) -> Any:
    """The form of a tensor at each row, one index after the other."""
    n, d = x.shape
    values = product(x, tensor.reshape(d, -1))
    for _ in range(tensor.ndim - 1):
        values = xp.sum(values.reshape(n, d, -1) * x[:, :, None], axis=1)
    return values[:, 0]


def linear_plus_square(beta: Float[Array | np.ndarray, " d"], coordinate: int = 0) -> LowPlusSparse:
    r"""A linear function of one coordinate plus the square of one direction.

    $$f(x) = x_1 - 1 + (\beta^\top x)^2, \qquad \mathbb E f = 0, \qquad
    \mathbb E f^2 = 1 + \frac{2(d-1)}{d+2}$$

    on the sphere of radius $\sqrt d$, where no linear function comes closer than $2(d-1)/(d+2)$.
    $\beta$ is `beta` over its norm, and $x_1$ the column `coordinate`.

    Source: NB-50, arXiv:2206.03688 Figure 1.
    """
    direction = _unit(beta)
    d = len(direction)
    check_count(coordinate, "coordinate", least=0)
    if coordinate >= d:
        raise ValueError(f"`coordinate` must be below {d}, got coordinate={coordinate}.")
    return LowPlusSparse(
        [1.0], direction[None, :], [2], constant=-1.0, linear=np.eye(d)[coordinate]
    )


def quadratic_plus_cubic(
    matrix: Float[Array | np.ndarray, "d d"], beta: Float[Array | np.ndarray, " d"]
) -> LowPlusSparse:
    r"""A dense quadratic form plus a sparse cubic one, each of mean square 1/2.

    $$f(x) = \frac{1}{\sqrt2} \Big( x^\top A x + \frac{(\beta^\top x)^3}{\sqrt{c_6}} \Big), \qquad
    c_6 = \mathbb E (\beta^\top x)^6 = \frac{15 d^2}{(d+2)(d+4)}, \qquad
    \mathbb E (x^\top A x)^2 = \frac{2d}{d+2} \|A\|_F^2 = 1$$

    on the sphere of radius $\sqrt d$. A is the symmetric part of `matrix`, its trace removed and
    its size fixed; independent normal entries make it the paper's. $\beta$ is `beta` over its norm.

    Source: NB-52, arXiv:2206.03688 Figure 2; the scaling is ours.
    """
    direction = _unit(beta)
    d = len(direction)
    A = _checked(matrix, (d, d), "matrix")
    A = (A + A.T) / 2
    A = A - np.trace(A) / d * np.eye(d)
    size = float(np.linalg.norm(A))
    if size <= 1e-12 * float(np.linalg.norm(np.asarray(matrix, np.float64))):
        raise ValueError(
            "`matrix` must have a symmetric part that is no multiple of the identity, got "
            f"one of norm {size:.3g} beyond it."
        )
    A = A / (size * math.sqrt(2 * d / (d + 2)))
    sixth = 15 * d**2 / ((d + 2) * (d + 4))
    return LowPlusSparse(
        [1 / math.sqrt(2 * sixth)], direction[None, :], [3], quadratic=A / math.sqrt(2)
    )


def _unit(beta: Float[Array | np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    vector = as_float64(beta, "beta")
    size = float(np.linalg.norm(vector))
    if vector.ndim != 1 or not size:
        raise ValueError(f"`beta` must be a nonzero vector, got shape {vector.shape}, norm {size}.")
    return vector / size


def _checked(value, shape: tuple[int, ...], name: str) -> np.ndarray:
    array = as_float64(value, name)
    if array.shape != shape:
        raise ValueError(f"`{name}` must have shape {shape}, got {name}.shape={array.shape}.")
    return array


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
