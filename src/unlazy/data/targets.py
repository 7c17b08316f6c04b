# SPDX-License-Identifier: Apache-2.0
"""Target functions of the papers, by name: callables that turn inputs into labels."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.checks import as_array, check_count, check_finite, check_name
from unlazy.data.composed_products import composed_sines, composed_tanhs

Inputs = Float[Array | np.ndarray, "n d"]
Values = Float[Array | np.ndarray, " n"]


@runtime_checkable
class Target(Protocol):
    """A function of the rows of `x`: NumPy rows give NumPy values, JAX rows JAX values."""

    def __call__(self, x: Inputs) -> Values:
        """Its values at the rows of `x`, in their dtype."""
        ...


def target(name: str, **options: Any) -> Target:
    r"""The target function of that name, callable on inputs.

    - "two-xor", `coordinates=(0, 1)`: $x_i x_j$, the sign of an XOR on the corners of a cube.
    - "monomial", `coordinates`, `coefficient=1`: $c \prod_j x_{i_j}$, coordinates may repeat.
    - "sparse-polynomial", `coefficients`, `monomials`: a sum of those.
    - "ridge-power", `beta`, `power`, `alpha=1`: $\alpha (\beta^\top x)^p$.
    - "ridge-sum", `alphas`, `betas`, `powers`: a sum of those.
    - "composed-sines": $(\sin 3x_1 + \sin 3x_2 + \sin 3x_3 - 2)^2 \cos 7x_4$; its `concept()` is
      the same function as a `ThreeLayerConcept`.
    - "composed-tanhs": $(\tanh 8x_1 + \tanh 8x_2 + \tanh 8x_3 - 2)^2 \tanh 8x_4$, likewise.

    Source: BL-37, BL-38 and BL-E3, arXiv:1910.01619; LG-51 and LG-52, arXiv:1811.04918; NB's sparse
    part is a "ridge-sum".

    Args:
        name: of the function.
        options: of that function; see above.

    Returns:
        A callable that keeps the dtype of `x`, works under `jax.jit`, and has its options as
        fields.

    Raises:
        UnknownNameError: there is no such target; the nearest is suggested.
        TypeError: an option that this target does not have, or one that is missing.
        ValueError: an option is out of range, or `x` has too few columns.

    Example:
        >>> print(target("two-xor")(np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])))
        [-1.  1.]
        >>> print(target("ridge-power", beta=np.array([1.0, 2.0]), power=3)(np.eye(2)))
        [1. 8.]
    """
    check_name(name, _TARGETS, "name")
    try:
        return _TARGETS[name](**options)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        what = str(error).split("() ")[-1]
        raise TypeError(f"`options` must be those of target {name!r}, but it {what}.") from None


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
        check_finite(np.asarray(coefficients, np.float64), "coefficients")
        self.coefficients = tuple(float(c) for c in coefficients)
        self.monomials = tuple(tuple(int(i) for i in coordinates) for coordinates in monomials)

    def __call__(self, x: Inputs) -> Values:
        """Its values at the rows of `x`, in their dtype."""
        xp, x = _rows(x)
        needed = 1 + max((i for monomial in self.monomials for i in monomial), default=-1)
        if x.shape[1] < needed:
            raise ValueError(f"`x` must have at least {needed} columns, got x.shape={x.shape}.")
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
        factors, rows = np.asarray(alphas, np.float64), np.asarray(betas, np.float64)
        if rows.ndim != 2 or not len(factors) == len(rows) == len(powers):
            raise ValueError(
                "`alphas`, `betas` and `powers` must be as many, each beta a row, got "
                f"{len(factors)}, betas.shape={rows.shape} and {len(powers)}."
            )
        check_finite(factors, "alphas")
        check_finite(rows, "betas")
        for power in powers:
            check_count(power, "powers", least=0)
        self.alphas = tuple(factors.tolist())
        self.betas = tuple(tuple(row) for row in rows.tolist())
        self.powers = tuple(int(power) for power in powers)

    def __call__(self, x: Inputs) -> Values:
        """Its values at the rows of `x`, in their dtype."""
        xp, x = _rows(x)
        betas = np.asarray(self.betas)
        if x.shape[1] != betas.shape[1]:
            raise ValueError(
                f"`x` must have {betas.shape[1]} columns, one for each of beta, "
                f"got x.shape={x.shape}."
            )
        precision = {"precision": jax.lax.Precision.HIGHEST} if xp is jnp else {}
        forms = xp.matmul(x, xp.asarray(betas, x.dtype).T, **precision)
        total = xp.zeros_like(x[:, 0])
        for q, (alpha, power) in enumerate(zip(self.alphas, self.powers, strict=True)):
            total = total + alpha * forms[:, q] ** power
        return total


def _rows(x: Inputs) -> tuple[Any, Any]:
    """The module to compute with, and the rows."""
    x = as_array(x)
    if x.ndim != 2:
        raise ValueError(f"`x` must have shape (n, d), got x.shape={x.shape}.")
    return (jnp if isinstance(x, jax.Array) else np), x


def _two_xor(coordinates: tuple[int, int] = (0, 1)) -> Monomials:
    if len(coordinates) != 2 or coordinates[0] == coordinates[1]:
        raise ValueError(
            f"`coordinates` must be two different ones, got coordinates={coordinates}."
        )
    return Monomials([1.0], [coordinates])


def _monomial(coordinates: Sequence[int], coefficient: int | float = 1.0) -> Monomials:
    return Monomials([coefficient], [coordinates])


def _ridge_power(
    beta: Float[Array | np.ndarray, " d"], power: int, alpha: int | float = 1.0
) -> RidgePowers:
    return RidgePowers([alpha], np.asarray(beta, np.float64)[None, :], [power])


# The other papers' targets take their place here.
_TARGETS: dict[str, Callable[..., Target]] = {
    "two-xor": _two_xor,
    "monomial": _monomial,
    "sparse-polynomial": Monomials,
    "ridge-power": _ridge_power,
    "ridge-sum": RidgePowers,
    "composed-sines": composed_sines,
    "composed-tanhs": composed_tanhs,
}
