# SPDX-License-Identifier: Apache-2.0
"""Dense polynomials of low degree plus a few powers of linear forms of higher degree."""

import math
from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_finite
from unlazy.core.entries import entry
from unlazy.data.polynomials import Inputs, RidgePowers, Values, as_float64, product, rows_of


class LowPlusSparse(eqx.Module):
    r"""A polynomial of degree at most two, plus powers of linear forms.

    $$f(x) = \underbrace{c + \gamma^\top x + x^\top A x}_{\text{low}}
    + \underbrace{\sum_q \alpha_q (\beta_q^\top x)^{p_q}}_{\text{sparse}}$$

    A kernel learns the low part, of degree k, from about $d^k$ samples and needs $d^{k+1}$ for the
    sparse part.

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
        if self.linear is not None:
            total = total + product(x, np.asarray(self.linear)[:, None])[:, 0]
        if self.quadratic is not None:
            total = total + xp.sum(product(x, np.asarray(self.quadratic)) * x, axis=1)
        return total


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
