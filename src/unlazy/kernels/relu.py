# SPDX-License-Identifier: Apache-2.0
"""The limiting tangent kernel of a two-layer ReLU network whose first layer is trained."""

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.checks import check_inputs, is_known
from unlazy.special import orthant_probability

# Block rows of the symmetric product: with 8, the work is 9/16 of the full product, and a block
# row is still tall enough for the product to run at full speed (measured at n = 4000).
_BLOCKS = 8
_LARGEST_BLOCK = 4096  # rows; bounds the temporary memory at large n
_SMALLEST_BLOCK = 128  # rows; below it, symmetry saves less than the extra launches cost


class _Polar(NamedTuple):
    norm: Float[Array, " n"]
    unit: Float[Array, "n d"]


class _Gram(NamedTuple):
    values: Float[Array, "n1 n2"]
    has_near_pairs: Array


def relu_gram(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The Gram matrix H-infinity of a ReLU network of infinite width.

    $$H_{ij} = \mathbb E_{w \sim N(0, I)}\big[x_i^\top x_j 1\{w^\top x_i \ge 0\}
    1\{w^\top x_j \ge 0\}\big] = x_i^\top x_j \, \frac{\pi - \arccos c_{ij}}{2\pi}$$

    with $c_{ij}$ the cosine between the rows, which need not have unit norm.

    The diagonal is exactly $\|x_i\|^2 / 2$ and the matrix exactly symmetric when `x2` is None. For
    nearly parallel or antipodal rows, where the cosine no longer carries the angle (rounding of
    1e-16 becomes an error of 1e-8), the angle comes from the difference of the rows instead; under
    `jax.jit` that repair is left out. Differentiable in `x`, except at parallel rows, which
    contribute zero.

    Source: AR-6, arXiv:1901.08584 eq. (3); general norms are derived there.

    Args:
        x1: inputs, one a row, no row zero.
        x2: other inputs, for the cross kernel; None means `x1`.
        dtype: what to compute in and return, "float64" or "float32", whatever dtype `x` has and
            whatever JAX's global setting is. On a GPU the products are never TF32.

    Raises:
        ValueError: `x1` or `x2` is not a finite (n, d) array, or has a row of zeros.

    Example:
        >>> print(relu_gram(jnp.eye(2)))
        [[0.5 0. ]
         [0.  0.5]]
    """
    dtype = jnp.dtype(dtype)
    if dtype not in (jnp.float32, jnp.float64):
        raise ValueError(f"`dtype` must be float32 or float64, got dtype={dtype}.")
    check_inputs(x1, "x1")
    if x2 is not None:
        check_inputs(x2, "x2")
        if x1.shape[1] != x2.shape[1]:
            raise ValueError(
                "`x1` and `x2` must have the same number of columns, "
                f"got x1.shape={x1.shape} and x2.shape={x2.shape}."
            )
    with jax.enable_x64(dtype == jnp.float64):
        p1 = _polar(jnp.asarray(x1, dtype))
        p2 = None if x2 is None else _polar(jnp.asarray(x2, dtype))
        gram = _symmetric(p1) if p2 is None else _cross(p1, p2)
        if is_known(gram.has_near_pairs) and gram.has_near_pairs:
            return _repair_near_pairs(gram.values, p1, p2)
        return gram.values


@jax.jit
def _polar(x: Float[Array, "n d"]) -> _Polar:
    # Scaled by the largest entry first, so that no square over- or underflows.
    scale = jnp.max(jnp.abs(x), axis=1)
    safe = jnp.where(scale > 0, scale, 1)
    scaled = x / safe[:, None]
    length = jnp.sqrt(jnp.sum(scaled**2, axis=1))
    length = jnp.where(scale > 0, length, 1)
    norm = scale * length
    # Rows that are of unit norm to rounding count as such: their diagonal is then exactly 1/2.
    norm = jnp.where(jnp.abs(norm - 1) <= 4 * jnp.finfo(x.dtype).eps, jnp.ones_like(norm), norm)
    return _Polar(norm, scaled / length[:, None])


def _near(dtype: jnp.dtype) -> float:
    """How close to 1 a |cosine| may come before the angle it gives loses half of its digits."""
    return 1e-5 if dtype == jnp.float64 else 1e-3


def _cosines(u1: Float[Array, "n1 d"], u2: Float[Array, "n2 d"]) -> Float[Array, "n1 n2"]:
    return jnp.matmul(u1, u2.T, precision=jax.lax.Precision.HIGHEST)


def _kernel(cos: Float[Array, "n1 n2"], r1: Float[Array, " n1"], r2: Float[Array, " n2"]):
    # The norms are multiplied first: that product commutes to the last bit, keeping symmetry.
    return cos * orthant_probability(cos) * (r1[:, None] * r2[None, :])


@jax.jit
def _cross(p1: _Polar, p2: _Polar) -> _Gram:
    cos = _cosines(p1.unit, p2.unit)
    near = jnp.any(jnp.abs(cos) > 1 - _near(cos.dtype))
    return _Gram(_kernel(cos, p1.norm, p2.norm), near)


@jax.jit
def _symmetric(p: _Polar) -> _Gram:
    """Block row by block row: each block right of the diagonal is computed once and mirrored."""
    n = p.norm.shape[0]
    H, near = jnp.zeros((n, n), p.norm.dtype), jnp.zeros((), bool)
    for start, stop in _block_rows(n):
        square = _diagonal_block(_Polar(p.norm[start:stop], p.unit[start:stop]))
        H = H.at[start:stop, start:stop].set(square.values)
        near |= square.has_near_pairs
        if stop < n:
            right = _cross(
                _Polar(p.norm[start:stop], p.unit[start:stop]), _Polar(p.norm[stop:], p.unit[stop:])
            )
            H = H.at[start:stop, stop:].set(right.values)
            H = H.at[stop:, start:stop].set(right.values.T)
            near |= right.has_near_pairs
    return _Gram(H, near)


def _diagonal_block(p: _Polar) -> _Gram:
    cos = _cosines(p.unit, p.unit)
    # A product of a matrix with its own transpose need not come out symmetric to the last bit.
    cos = (cos + cos.T) / 2
    diagonal = jnp.eye(p.norm.shape[0], dtype=bool)
    near = jnp.any((jnp.abs(cos) > 1 - _near(cos.dtype)) & ~diagonal)
    # Zero on the diagonal first, so that no infinite slope is met there.
    values = _kernel(jnp.where(diagonal, 0, cos), p.norm, p.norm)
    return _Gram(jnp.where(diagonal, p.norm[:, None] ** 2 / 2, values), near)


def _block_rows(n: int) -> list[tuple[int, int]]:
    count = max(min(_BLOCKS, n // _SMALLEST_BLOCK), math.ceil(n / _LARGEST_BLOCK), 1)
    edges = [n * k // count for k in range(count + 1)]
    return list(itertools.pairwise(edges))


def _repair_near_pairs(H: Float[Array, "n1 n2"], p1: _Polar, p2: _Polar | None):
    """Recompute the entries of nearly parallel or antipodal rows from the half-angle form."""
    i, j = _near_pairs(p1.unit, p1.unit if p2 is None else p2.unit, symmetric=p2 is None)
    other = p1 if p2 is None else p2
    values = _half_angle_kernel(p1.unit[i], other.unit[j], p1.norm[i] * other.norm[j])
    H = H.at[i, j].set(values)
    return H.at[j, i].set(values) if p2 is None else H


def _near_pairs(u1: Float[Array, "n1 d"], u2: Float[Array, "n2 d"], *, symmetric: bool):
    rows, columns = [], []
    for start, stop in _block_rows(u1.shape[0]):
        near = np.abs(np.asarray(_cosines(u1[start:stop], u2))) > 1 - _near(u1.dtype)
        i, j = np.nonzero(near)
        keep = i + start < j if symmetric else np.ones(i.shape, bool)
        rows.append(i[keep] + start)
        columns.append(j[keep])
    return np.concatenate(rows), np.concatenate(columns)


@jax.jit
def _half_angle_kernel(
    u: Float[Array, "p d"], v: Float[Array, "p d"], scale: Float[Array, " p"]
) -> Float[Array, " p"]:
    apart = jnp.linalg.norm(u - v, axis=1)
    along = jnp.linalg.norm(u + v, axis=1)
    # pi - theta, rather than theta, keeps its digits for antipodal rows.
    supplement = 2 * jnp.arctan2(along, apart)
    return -jnp.cos(supplement) * supplement / (2 * math.pi) * scale
