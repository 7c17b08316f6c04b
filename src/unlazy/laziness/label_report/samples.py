# SPDX-License-Identifier: Apache-2.0
"""The distinct rows of a data set: duplicates are merged, conflicts between them counted."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

_DIGITS = 12  # decimals to which two rows must agree to be the same


class Samples(NamedTuple):
    """Distinct rows with the mean label of each, and what was merged."""

    x: Float64[np.ndarray, "n k"]
    y: Float64[np.ndarray, "n c"]
    first: Int[np.ndarray, " n"]  # the first row of each, among the rows given
    group: Int[np.ndarray, " m"]  # which distinct row each row given is
    duplicates: Int[np.ndarray, "p 2"]  # a row and the earlier one that it equals
    conflicts: Int[np.ndarray, "q 2"]  # those of them whose labels differ
    unexplained: float  # share of the labels' variance that lies within duplicates


def distinct(x: Float64[np.ndarray, "m k"], y: Float64[np.ndarray, "m c"]) -> Samples:
    """Merge the rows that are equal in every coordinate; a merged row has the mean of its labels.

    The mean is what a function of the coordinates can fit best. Where the labels agree it is the
    common label, so that repeating rows changes nothing.
    """
    rounded = np.ascontiguousarray(np.round(x, _DIGITS) + 0.0)  # no minus zero
    keys = rounded.view(np.dtype((np.void, rounded.dtype.itemsize * rounded.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)  # distinct rows in the order of the data
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    first, group = first[order], place[group]
    size = np.bincount(group)
    mean = np.stack([np.bincount(group, column) / size for column in y.T], axis=1)
    later = np.flatnonzero(first[group] != np.arange(len(x)))
    pairs = np.column_stack([first[group[later]], later])
    differ = np.any(np.abs(y[pairs[:, 0]] - y[pairs[:, 1]]) > 1e-12 * np.abs(y).max(), axis=1)
    total = float(np.sum((y - y.mean(axis=0)) ** 2))
    within = float(np.sum((y - mean[group]) ** 2))
    # Exact labels where they agree: a mean of equal numbers rounds.
    conflicting = np.zeros(len(first), bool)
    conflicting[group[pairs[differ, 1]]] = True
    mean = np.where(conflicting[:, None], mean, y[first])
    unexplained = within / total if conflicting.any() and total > 0 else 0.0
    return Samples(x[first], mean, first, group, pairs, pairs[differ], unexplained)
