# SPDX-License-Identifier: Apache-2.0
"""Equal samples as one, of their weight together."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int


class Distinct(NamedTuple):
    """Samples of which no two are equal; least squares on them is least squares on all."""

    rows: Int[np.ndarray, " n"]  # the first of each, in the samples given
    y: Float64[np.ndarray, "n c"]  # weighted means
    weights: Float64[np.ndarray, " n"]  # sums, above 0


def used_rows(weights: Float64[np.ndarray, " m"]) -> Int[np.ndarray, " n"]:
    """The samples of weight above 0; raises if there is none."""
    used = np.flatnonzero(weights > 0)
    if not used.size:
        raise ValueError("`sample_weight` must be above 0 for one row at least, got zeros alone.")
    return used


def distinct_rows(
    x: Float64[np.ndarray, "m d"] | None,
    y: Float64[np.ndarray, "m c"],
    weights: Float64[np.ndarray, " m"],
) -> Distinct:
    r"""Merge equal samples, and leave out those of weight 0.

    $\sum_j w_j (f - y_j)^2 = (\sum_j w_j)(f - \bar y)^2 + \text{const}$ for samples at one point:
    they are fitted as one sample. It is left out as one, too; of two copies, one would always
    predict the other. With `x` None nothing is merged.

    Raises:
        ValueError: all weights are 0.
    """
    used = used_rows(weights)
    if x is None:
        return Distinct(used, y[used], weights[used])
    _, first, group = np.unique(x[used], axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # as they came, not as they sort
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    group = place[group.reshape(-1)]
    total = np.bincount(group, weights[used])
    sums = [np.bincount(group, weights[used] * column) for column in y[used].T]
    return Distinct(used[first[order]], np.stack(sums, axis=1) / total[:, None], total)
