# SPDX-License-Identifier: Apache-2.0
"""Target functions of the papers, by name: callables that turn inputs into labels."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_name
from unlazy.core.entries import entry
from unlazy.data.composed_products import ComposedProduct
from unlazy.data.parities import hard_parities, parities_of_parities, parity_coefficient
from unlazy.data.polynomials import (
    Inputs,
    LowPlusSparse,
    Monomials,
    RidgePowers,
    linear_plus_square,
    quadratic_plus_cubic,
)

Outputs = Float[Array | np.ndarray, "n *c"]


@runtime_checkable
class Target(Protocol):
    """A function of the rows of `x`: NumPy rows give NumPy values, JAX rows JAX values."""

    def __call__(self, x: Inputs) -> Outputs:
        """Its values at the rows of `x`, in their dtype: (n,), or (n, k) for k outputs."""
        ...


@entry
def target(name: str, **options: Any) -> Target:
    r"""The target function of that name: a callable on the rows of inputs.

    - "two-xor", `coordinates=(0, 1)`: $x_i x_j$, the sign of an XOR on the corners of a cube.
    - "monomial", `coordinates`, `coefficient=1`: $c \prod_j x_{i_j}$, coordinates may repeat.
    - "sparse-polynomial", `coefficients`, `monomials`: a sum of those.
    - "ridge-power", `beta`, `power`, `alpha=1`: $\alpha (\beta^\top x)^p$.
    - "ridge-sum", `alphas`, `betas`, `powers`: a sum of those.
    - "composed-sines": $(\sin 3x_1 + \sin 3x_2 + \sin 3x_3 - 2)^2 \cos 7x_4$.
    - "composed-tanhs": $(\tanh 8x_1 + \tanh 8x_2 + \tanh 8x_3 - 2)^2 \tanh 8x_4$.
    - "low-degree-plus-sparse", `alphas`, `betas`, `powers`, and any of `constant`, `linear`,
      `quadratic` and `higher`: $c + \gamma^\top x + x^\top A x$ and forms of orders 3, 4, ...,
      plus a ridge sum; a `LowPlusSparse`, like the next two.
    - "linear-plus-square", `beta`, `coordinate=0`: $x_1 - 1 + (\beta^\top x)^2$, beta made unit.
    - "quadratic-plus-cubic", `matrix`, `beta`: $(x^\top A x + (\beta^\top x)^3/\sqrt{c_6})/\sqrt2$,
      dense and sparse part of mean square 1/2 each on the sphere of radius $\sqrt d$.
    - "parity", `coordinates`, `scale=1`: $\prod_j x_{i_j}/c$, a sign for entries of size c.
    - "parities-of-parities", `inputs=30`, `alpha=0.3`, `beta=1`: k = inputs/2 outputs,
      $\beta x_{2r-1} x_{2r} + (-1)^r \alpha \prod_{j \le 8} x_j$; a `ComposedParities`, like the
      next.
    - "hard-parities", `coordinates`, `alpha=0.3`, `scale=1`: one output per coordinate,
      $x_{i_r}/c + \alpha \prod_j x_{i_j}/c$.

    Source: BL-37, BL-38 and BL-E3, arXiv:1910.01619; LG-51 and LG-52, arXiv:1811.04918; NB-50 and
    NB-52, arXiv:2206.03688; RN-15, RN-60, RN-66 and RN-67, arXiv:1905.10337.

    The callable keeps the dtype of `x`, works under `jax.jit`, and has its options as fields.

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


@entry
def _two_xor(coordinates: tuple[int, int] = (0, 1)) -> Monomials:
    if len(coordinates) != 2 or coordinates[0] == coordinates[1]:
        raise ValueError(
            f"`coordinates` must be two different ones, got coordinates={coordinates}."
        )
    return Monomials([1.0], [coordinates])


@entry
def _monomial(coordinates: Sequence[int], coefficient: int | float = 1.0) -> Monomials:
    return Monomials([coefficient], [coordinates])


@entry
def _parity(coordinates: Sequence[int], scale: int | float = 1.0) -> Monomials:
    return Monomials([parity_coefficient(coordinates, scale)], [coordinates])


@entry
def _ridge_power(
    beta: Float[Array | np.ndarray, " d"], power: int, alpha: int | float = 1.0
) -> RidgePowers:
    return RidgePowers([alpha], np.asarray(beta, np.float64)[None, :], [power])


_TARGETS: dict[str, Callable[..., Target]] = {
    "two-xor": _two_xor,
    "monomial": _monomial,
    "sparse-polynomial": Monomials,
    "ridge-power": _ridge_power,
    "ridge-sum": RidgePowers,
    "composed-sines": lambda: ComposedProduct("sines"),
    "composed-tanhs": lambda: ComposedProduct("tanhs"),
    "parity": _parity,
    "parities-of-parities": parities_of_parities,
    "hard-parities": hard_parities,
    "low-degree-plus-sparse": LowPlusSparse,
    "linear-plus-square": linear_plus_square,
    "quadratic-plus-cubic": quadratic_plus_cubic,
}
