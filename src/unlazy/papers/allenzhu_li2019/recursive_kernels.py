# SPDX-License-Identifier: Apache-2.0
"""Section 3.1: kernels that are built layer by layer, recursive and convolutional ones."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_count, check_name
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.kernels.blocks import check_pair
from unlazy.special import arc_cosine

Rows = Float[Array | np.ndarray, "n d"]
_MOST_LAYERS = 1000


@entry
def recursive_kernel(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    layers: int = 1,
    function: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Float64[np.ndarray, "n1 n2"]:
    r"""A kernel by applying one function to the cosine, layer after layer.

    $$K^{(0)}(x, x') = \frac{\langle x, x'\rangle}{\|x\| \|x'\|}, \qquad
    K^{(p)} = \phi(K^{(p-1)}), \qquad \phi(u) = \frac{1}{2 - u}$$

    The result is a kernel for every $\phi$ whose power series has no negative coefficient. For the
    default it is $(p - (p-1) u)/(p + 1 - p u)$, which is 1 on the diagonal for every p.

    Source: RN-17, arXiv:1905.10337 section 3.1, which allows any function; the default is that of
    Zhang, Lee and Jordan, arXiv:1510.03528.

    Args:
        x1: inputs as rows, none of them zero.
        x2: others; None for `x1`.
        layers: p.
        function: $\phi$ of an array; None for $1/(2 - u)$.

    Raises:
        ValueError: a row is zero, or `function` gives numbers that are not finite.

    Example:
        >>> print(recursive_kernel(np.eye(2), layers=2).round(4))
        [[1.     0.6667]
         [0.6667 1.    ]]
    """
    x1, x2, _ = check_pair(x1, x2, "float64")
    check_count(layers, "layers", most=_MOST_LAYERS)
    units = [_unit(x) for x in (x1, x1 if x2 is None else x2)]
    K = np.clip(units[0] @ units[1].T, -1.0, 1.0)
    if x2 is None:
        np.fill_diagonal(K, 1.0)
    for _ in range(layers):
        K = np.asarray(1 / (2 - K) if function is None else function(K), np.float64)
    if K.shape != (len(units[0]), len(units[1])) or not np.all(np.isfinite(K)):
        raise ValueError(
            "`function` must map an array to a finite one of its shape, got "
            f"shape {K.shape} and {int(np.sum(~np.isfinite(K)))} entries that are not finite."
        )
    return K


def _unit(x: Rows) -> Float64[np.ndarray, "n d"]:
    rows = np.asarray(x, np.float64)
    rows = rows / np.max(np.abs(rows), axis=1, keepdims=True)  # squares may overflow
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@entry
def convolutional_kernel(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    window: int = 3,
    layers: int = 1,
    readout: str = "dense",
    trained: str = "all",
) -> Float64[np.ndarray, "n1 n2"]:
    r"""The tangent kernel of a convolutional ReLU network of infinitely many channels.

    The input is one channel on a circle of d positions. With means over the windows of q positions
    from i on, the covariances of the hidden layers, their slopes and their tangent kernels are

    $$\Sigma^{(1)}_{i} = \frac1q \sum_{a < q} x_{i+a} x'_{i+a}, \qquad
    \Theta^{(1)} = \Sigma^{(1)}, \qquad
    S^{(l)} = \sqrt{v v'}\, \kappa_1\Big(\frac{\Sigma^{(l)}}{\sqrt{v v'}}\Big), \qquad
    \dot S^{(l)} = \kappa_0\Big(\frac{\Sigma^{(l)}}{\sqrt{v v'}}\Big)$$

    $$\Sigma^{(l+1)}_i = \frac1q \sum_{a < q} S^{(l)}_{i+a}, \qquad
    \Theta^{(l+1)}_i = \Sigma^{(l+1)}_i + \frac1q \sum_{a < q} (\dot S^{(l)} \Theta^{(l)})_{i+a}$$

    with v, v' the values of $\Sigma^{(l)}_i$ at (x, x) and (x', x'). The kernel is the mean of
    $S^{(L)} + \dot S^{(L)} \Theta^{(L)}$ over the positions for a "dense" readout. A "pooled" one
    averages the last layer over the positions first: the mean of the kernels between x and all
    shifts of x', which no shift of an input changes. Weights have the variance 2 over the inputs of
    their layer, those of the first layer 1 over its, and there are no biases. It takes memory of
    n1 n2 d numbers.

    Source: RN-17, arXiv:1905.10337 section 3.1; the recursion is that of Arora et al.,
    arXiv:1904.11955, on a circle.

    Args:
        x1: inputs as rows.
        x2: others; None for `x1`.
        window: q, from 1 to d.
        layers: convolutional layers, at least 1.
        readout: "dense" or "pooled".
        trained: "all", or "last" for the conjugate kernel, the mean of $S^{(L)}$.

    Raises:
        ValueError: `window` is above d, or a name is unknown.

    Example:
        >>> print(convolutional_kernel(np.array([[1.0, 1.0, -1.0], [1.0, 1.0, 1.0]])).round(4))
        [[2.     0.7056]
         [0.7056 2.    ]]
    """
    x1, x2, _ = check_pair(x1, x2, "float64", allow_zero_rows=True)
    check_count(layers, "layers", most=_MOST_LAYERS)
    check_count(window, "window")
    check_name(readout, ["dense", "pooled"], "readout")
    check_name(trained, ["all", "last"], "trained")
    d = x1.shape[1]
    if window > d:
        raise ValueError(f"`window` must be at most the {d} inputs, got window={window}.")
    rows1, rows2 = (np.asarray(x, np.float64) for x in (x1, x1 if x2 is None else x2))
    shifts = range(d) if readout == "pooled" else (0,)
    kernels = [
        _between(rows1, np.roll(rows2, shift, axis=1), window, layers, trained) for shift in shifts
    ]
    return np.mean(kernels, axis=0)


class _Pairs(NamedTuple):
    r"""A layer at every position, for every pair of inputs.

    `deficit` is $\sqrt{v v'} - \Sigma$: the angle of nearly equal inputs is lost in the difference.
    """

    covariance: Float64[np.ndarray, "n1 n2 d"]
    deficit: Float64[np.ndarray, "n1 n2 d"]
    tangent: Float64[np.ndarray, "n1 n2 d"]


def _between(x1: np.ndarray, x2: np.ndarray, window: int, layers: int, trained: str) -> np.ndarray:
    """The kernel with a dense readout."""
    sizes = [np.abs(x) for x in (x1, x2)]  # roots of the variances at every position
    start = x1[:, None] * x2[None]
    at = _Pairs(start, sizes[0][:, None] * sizes[1][None] - start, np.zeros_like(start))
    for _ in range(layers):
        at, sizes = _convolved(at, sizes, window)
        at = at._replace(tangent=at.tangent + at.covariance)
        slopes, at = _rectified(at, sizes)
        at = at._replace(tangent=slopes * at.tangent)
    last = at.covariance if trained == "last" else at.covariance + at.tangent
    return np.mean(last, axis=2)


def _convolved(at: _Pairs, sizes: list[np.ndarray], window: int) -> tuple[_Pairs, list[np.ndarray]]:
    """The means over windows, and the new roots of variances."""
    spread = [_windows(size, window) for size in sizes]
    new = [np.sqrt(np.mean(one**2, axis=-1)) for one in spread]
    # sqrt(mean v mean v') - mean sqrt(v v') >= 0, by Lagrange's identity without cancellation.
    left, right = spread[0][:, None], spread[1][None]
    total = new[0][:, None] * new[1][None]
    products = left * right
    squares = sum(
        np.sum(
            (left * np.roll(right, a, axis=-1) - np.roll(left, a, axis=-1) * right) ** 2, axis=-1
        )
        for a in range(1, window)
    )
    twice = total + np.mean(products, axis=-1)
    lost = squares / (2 * window**2) / np.where(twice > 0, twice, 1.0)
    means = _Pairs(*(np.mean(_windows(part, window), axis=-1) for part in at))
    return means._replace(deficit=means.deficit + lost), new


def _windows(values: np.ndarray, window: int) -> np.ndarray:
    """The values at the positions from each one on, around the circle."""
    return np.stack([np.roll(values, -a, axis=-1) for a in range(window)], axis=-1)


def _rectified(at: _Pairs, sizes: list[np.ndarray]) -> tuple[np.ndarray, _Pairs]:
    """The slopes of ReLU, and its covariances with variances kept."""
    total = sizes[0][:, None] * sizes[1][None]
    safe = np.where(total > 0, total, 1.0)
    cosine, one_minus = at.covariance / safe, np.clip(at.deficit / safe, 0.0, 2.0)
    gap = np.where(cosine < 0, 2 - one_minus, one_minus)
    with float64():
        moments = arc_cosine(jnp.asarray(cosine), jnp.asarray(np.clip(gap, 0.0, 1.0)))
        orthant, kappa, rest = (np.asarray(part, np.float64) for part in moments)
    return 2 * orthant, at._replace(covariance=total * kappa, deficit=total * rest)
