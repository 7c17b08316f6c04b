# SPDX-License-Identifier: Apache-2.0
"""The worst sign changes that a perturbation of given size can cause, computed exactly."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float

from unlazy.core.checks import check_finite
from unlazy.core.entries import entry

Vector = Float[Array | np.ndarray, " m"]
_ROUNDING = 1e-12  # relative, of a sum of costs, so that a budget that is met exactly is met


@entry
def worst_case_flips(z: Vector, budget: int | float, *, p: int | float = 2) -> int:
    r"""The largest number of neurons whose sign a perturbation of bounded norm can change.

    $$\max \big\{ s : \textstyle\sum_{i \le s} |z|_{(i)}^p \le B^p \big\}$$

    where $|z|_{(1)} \le |z|_{(2)} \le \dots$ are the pre-activations of one layer at one input, in
    order of size, and $\|g'\|_p \le B$ is the perturbation of them, p from 1 to inf. A movement of
    `W` with $\|W'\|_{2,4} \le B$ is p = 4 at a unit input, and one of `V` with $\|V'\|_F \le B$ is
    p = 2 at a unit hidden vector. A sum above $B^p$ by less than 1e-12 of it counts as equal.

    Source: LG-30 (iv), arXiv:1811.04918 Lemma 6.5; RN-36, arXiv:1905.10337.

    Example:
        >>> worst_case_flips(np.array([3.0, -1.0, 2.0]), 2.3)
        2
    """
    sizes = np.sort(np.abs(_checked(z, budget)))
    if math.isnan(p) or p < 1:
        raise ValueError(f"`p` must be at least 1, got p={p}.")
    if budget == 0:
        return int(np.sum(sizes == 0))
    with np.errstate(over="ignore"):  # a neuron out of reach may overflow to inf
        spent = sizes / budget if math.isinf(p) else np.cumsum((sizes / budget) ** p)
    return int(np.searchsorted(spent, 1.0 + _ROUNDING, side="right"))


class WorstFlip(NamedTuple):
    """The flips that change the output most, up to one neuron, and a bound on all flips."""

    change: float  # |a^T D' z| of the neurons in `flipped`
    bound: float  # of the relaxed problem, which may flip a fraction of one neuron more
    flipped: Bool[np.ndarray, " m"]


@entry
def worst_case_flip_output(a: Vector, z: Vector, budget: int | float) -> WorstFlip:
    r"""The largest change of one output by sign changes alone, for a perturbation of bounded norm.

    $$\max_{\|g'\|_2 \le B} \big| a^\top D' z \big|, \qquad D' = 1[z + g' \ge 0] - 1[z \ge 0]$$

    A flipped neuron contributes $-a_j |z_j|$ and costs $z_j^2$: a knapsack for either sign of the
    sum. `change` takes neurons in order of $|a_j| / |z_j|$, past those that no longer fit, and is
    exact up to one neuron; `bound` takes a part of the first that does not fit, and is above all.

    Source: RN-36, arXiv:1905.10337.

    Example:
        >>> worst_case_flip_output(np.array([1.0, -2.0]), np.array([0.5, 0.5]), 0.6).change
        1.0
    """
    z = _checked(z, budget)
    a = np.asarray(a, np.float64)
    if a.shape != z.shape:
        raise ValueError(f"`a` must have the shape of z, {z.shape}, got a.shape={a.shape}.")
    check_finite(a, "a")
    both = [_knapsack(sign * a, np.abs(z), budget) for sign in (1, -1)]
    # Not always of one sign: the relaxed problem may live on a neuron that no budget flips whole.
    bound = max(worst.bound for worst in both)
    return max(both, key=lambda worst: worst.change)._replace(bound=bound)


def _knapsack(a: np.ndarray, size: np.ndarray, budget: int | float) -> WorstFlip:
    useful = np.flatnonzero((a > 0) & (size > 0))
    order = useful[np.argsort(size[useful] / a[useful])]
    cost = np.cumsum(size[order] ** 2)
    room = budget**2 * (1 + _ROUNDING)
    taken = int(np.searchsorted(cost, room, side="right"))
    flipped = np.zeros(a.shape, bool)
    flipped[order[:taken]] = True
    bound = float(np.sum(a[flipped] * size[flipped]))
    if taken < len(order):
        spent = float(cost[taken - 1]) if taken else 0.0
        bound += float(a[order[taken]] * max(budget**2 - spent, 0.0) / size[order[taken]])
        # Of the rest, in that order, all that fit one after another; those too large are skipped.
        rest, room = order[taken + 1 :], room - spent
        for j in rest[size[rest] ** 2 <= room].tolist():
            if size[j] ** 2 <= room:
                flipped[j] = True
                room -= float(size[j]) ** 2
    return WorstFlip(float(np.sum(a[flipped] * size[flipped])), bound, flipped)


def _checked(z: Vector, budget: int | float) -> np.ndarray:
    z = np.asarray(z, np.float64)
    if z.ndim != 1 or z.size == 0:
        raise ValueError(
            f"`z` must have shape (m,), the neurons at one input, got z.shape={z.shape}."
        )
    check_finite(z, "z")
    if not (math.isfinite(budget) and budget >= 0):
        raise ValueError(f"`budget` must be finite and at least 0, got budget={budget}.")
    return z
