# SPDX-License-Identifier: Apache-2.0
"""The assumptions on the target and on the loss, as checks that name what fails."""

import itertools
import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import as_array, check_count, check_finite
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.data import LowPlusSparse, Target
from unlazy.losses import PointwiseLoss, check_targets, pointwise
from unlazy.papers.shared.conditions import Condition, Prescription

_EXACT = 1e-6  # allowed where the paper has equality: the rounding of float32
_REACH, _STEP = 50.0, 0.01  # of the residuals at which a loss is examined


class TargetAssumption(Prescription):
    """What the paper assumes of a target; `print` shows what holds, `valid` says whether all."""

    mean_square: float  # E f_k^2; divide the low part by its root to make it 1
    terms: int  # K, of the sparse part
    conditions: tuple[Condition, ...]


class LossAssumption(Prescription):
    """What the paper assumes of a loss; `print` shows what holds, `valid` says whether all."""

    lipschitz: float  # the largest |l'|, l'' and |l'''|
    curvature: float
    jerk: float
    conditions: tuple[Condition, ...]


@entry
def target_assumption(target: Target, degree: int) -> TargetAssumption:
    r"""Whether a target is a dense part of degree k plus a sparse part, each of the paper's size.

    $$f^* = f_k + \sum_i \alpha_i (\beta_i^\top x)^{k+1}, \qquad \deg f_k \le k, \qquad
    \mathbb E f_k(x)^2 = 1, \qquad |\alpha_i| \le 1, \qquad \|\beta_i\| = 1$$

    for x uniform on the sphere of radius $\sqrt d$. The mean square is exact: of two forms it is
    the mean over Gaussian inputs, a sum over pairings of indices, times
    $d^{q/2} / (d (d+2) \cdots (d+q-2))$, q the sum of their orders.

    Source: arXiv:2206.03688 Assumption 1, from the setting of section 2.

    Args:
        target: of `data.target`: "linear-plus-square", "quadratic-plus-cubic" or
            "low-degree-plus-sparse".
        degree: k.

    Raises:
        TypeError: the two parts of the target are not known.

    Example:
        >>> import unlazy as ul
        >>> f = ul.data.target("linear-plus-square", beta=np.ones(10))
        >>> found = target_assumption(f, 1)
        >>> print(found.mean_square, [condition.text for condition in found.failed])
        2.0 ['|E f_k^2 - 1| = 0']
    """
    check_count(degree, "degree")
    parts = checked_parts(target)
    tensors, sparse = parts.tensors, parts.sparse
    orders = [order for order, tensor in enumerate(tensors) if np.any(tensor)]
    square = sphere_mean_square(tensors, len(sparse.betas[0]))
    norms = np.linalg.norm(np.asarray(sparse.betas), axis=1)
    powers = np.abs(np.asarray(sparse.powers) - degree - 1)
    return TargetAssumption(
        mean_square=square,
        terms=len(sparse.alphas),
        conditions=(
            Condition("degree of f_k <= k", float(max(orders, default=0)), float(degree)),
            Condition("|E f_k^2 - 1| = 0", abs(square - 1), _EXACT),
            Condition("max |alpha_i| <= 1", float(np.abs(sparse.alphas).max()), 1.0),
            Condition("max | ||beta_i|| - 1 | = 0", float(np.abs(norms - 1).max()), _EXACT),
            Condition("max |p_i - (k + 1)| = 0", float(powers.max()), _EXACT),
        ),
    )


@entry
def loss_assumption(
    loss: str | PointwiseLoss, y: Float[Array | np.ndarray, " n"] | Sequence[int | float] = (1, -1)
) -> LossAssumption:
    r"""Whether a loss is convex with three bounded derivatives and vanishes at the label.

    $$\ell'' \ge 0, \qquad |\ell'|, |\ell''|, |\ell'''| \le 1, \qquad \ell(y, y) = 0, \qquad
    \ell(y, 0) \le 1$$

    The paper has a loss bounded by 1; a convex one is then constant, so that this is read as the
    loss of the output 0 with which training starts. The derivatives are examined at residuals up to
    50, in steps of 0.01, beside the bounds that the loss states.

    Source: arXiv:2206.03688 Assumption 2, from the setting of section 2; section 8, item 1.

    Args:
        loss: a name for `losses.pointwise`, or a loss.
        y: labels; each enters with its own value.

    Example:
        >>> loss_assumption("log-cosh").valid
        True
        >>> [condition.text for condition in loss_assumption("squared").failed]
        ["max |l'| <= 1", "max l'' <= 1"]
        >>> [condition.text for condition in loss_assumption("logistic").failed]
        ['max |l(y, y)| = 0']
    """
    labels = np.unique(np.asarray(as_array(y, "y"), np.float64))
    check_finite(labels, "y")
    if not labels.size:
        raise ValueError("`y` must hold at least one label, got none.")
    check_targets(loss, labels)
    own = pointwise(loss)
    residuals = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    ends = np.unique([labels[0], np.median(labels), labels[-1]])
    with float64():
        rows = jnp.asarray(np.repeat(ends, len(residuals)))
        z = rows + jnp.asarray(np.tile(residuals, len(ends)))
        first, second, third = (np.asarray(own.derivative(j)(z, rows)) for j in (1, 2, 3))
        at = jnp.asarray(labels)
        own_label, at_zero = np.asarray(own(at, at)), np.asarray(own(jnp.zeros_like(at), at))
    stated = (own.lipschitz, own.curvature, own.jerk)
    lipschitz, curvature, jerk = (
        max(bound, float(np.abs(values).max()))
        for bound, values in zip(stated, (first, second, third), strict=True)
    )
    return LossAssumption(
        lipschitz=lipschitz,
        curvature=curvature,
        jerk=jerk,
        conditions=(
            Condition("max -l'' = 0", max(0.0, -float(second.min())), _EXACT),
            Condition("max |l'| <= 1", lipschitz, 1.0),
            Condition("max l'' <= 1", curvature, 1.0),
            Condition("max |l'''| <= 1", jerk, 1.0),
            Condition("max |l(y, y)| = 0", float(np.abs(own_label).max()), _EXACT),
            Condition("max l(y, 0) <= 1", float(at_zero.max()), 1.0),
        ),
    )


def checked_parts(target: Target) -> LowPlusSparse:
    """The target itself; raises unless its dense and its sparse part are known."""
    if not isinstance(target, LowPlusSparse):
        raise TypeError(
            "`target` must be a LowPlusSparse, whose two parts are known, got a "
            f"{type(target).__name__}. Use data.target('low-degree-plus-sparse', ...)."
        )
    return target


def sphere_mean_square(tensors: Sequence[np.ndarray], d: int) -> float:
    r"""The mean square over the sphere of radius $\sqrt d$ of a sum of forms, exactly.

    $$\mathbb E\, A_j[x, \dots, x]\, A_l[x, \dots, x] = \frac{d^{q/2}}{d (d+2) \cdots (d+q-2)}
    \sum_r \binom jr \binom lr\, r!\, (j-r-1)!!\, (l-r-1)!!\,
    \langle \mathrm{Tr}^{(j-r)/2} A_j, \mathrm{Tr}^{(l-r)/2} A_l \rangle$$

    with q = j + l even, tensors made symmetric, and r pairs of indices across.

    Source: Isserlis' theorem; the norm of a Gaussian input is independent of its direction.
    """
    traces = {order: _traces(tensor) for order, tensor in enumerate(tensors) if np.any(tensor)}
    total = 0.0
    for j, l in itertools.product(traces, repeat=2):
        if (j + l) % 2:
            continue
        radial = math.prod(d / (d + 2 * i) for i in range((j + l) // 2))
        for r in range(j % 2, min(j, l) + 1, 2):
            pairings = math.comb(j, r) * math.comb(l, r) * math.factorial(r)
            pairings *= _double_factorial(j - r - 1) * _double_factorial(l - r - 1)
            total += radial * pairings * float(np.sum(traces[j][r] * traces[l][r]))
    return total


def _traces(tensor: np.ndarray) -> dict[int, np.ndarray]:
    """The symmetric part of a tensor and its traces, by the number of indices left."""
    orders = list(itertools.permutations(range(tensor.ndim)))
    symmetric = sum(np.transpose(tensor, order) for order in orders) / len(orders)
    found = {tensor.ndim: np.asarray(symmetric)}
    for left in range(tensor.ndim - 2, -1, -2):
        found[left] = np.trace(found[left + 2], axis1=-2, axis2=-1)
    return found


def _double_factorial(k: int) -> int:
    return math.prod(range(k, 0, -2))
