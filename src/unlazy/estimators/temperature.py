# SPDX-License-Identifier: Apache-2.0
"""Scores as probabilities, by the one number that fits scores of samples left out."""

import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Float64

_LOG_RANGE = (-5.0, 7.0)  # of the factor: at its ends all classes are alike, or one is certain


def both_classes(scores: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n k"]:
    """One column per class: of the single column for two classes, its negative and itself."""
    return np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores


def probabilities(scores: Float64[np.ndarray, "n k"], factor: float) -> Float64[np.ndarray, "n k"]:
    """The softmax of the scores times the factor."""
    return scipy.special.softmax(factor * scores, axis=1)


def likeliest_factor(
    scores: Float64[np.ndarray, "n k"],
    shares: Float64[np.ndarray, "n k"],
    weights: Float64[np.ndarray, " n"],
) -> float:
    r"""The factor $\tau$ of greatest likelihood, $\prod_i \operatorname{softmax}(\tau s_i)_{y_i}$.

    Scores must be of samples that were left out: of those fitted, the likeliest is infinite.

    Source: Platt scaling with temperature alone, arXiv:1706.04599 section 4.2.

    Args:
        scores: one column per class.
        shares: how much of each sample is of each class; rows add up to 1.
        weights: of the samples.
    """

    def loss(log_factor: float) -> float:
        logs = scipy.special.log_softmax(np.exp(log_factor) * scores, axis=1)
        return -float(np.sum(weights[:, None] * shares * logs))

    found = scipy.optimize.minimize_scalar(loss, bounds=_LOG_RANGE, method="bounded")
    return float(np.exp(found.x))
