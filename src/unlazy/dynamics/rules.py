# SPDX-License-Identifier: Apache-2.0
"""The options that all dynamics share, checked: start, learning rate, momentum and ridge."""

import warnings

import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import as_number, check_positive
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.dynamics.trajectories import check_start


def as_start(
    start: Float[Array | np.ndarray, "n *c"] | None,
) -> Float64[np.ndarray, "n *c"] | None:
    """Initial outputs in float64."""
    return None if start is None else np.asarray(start, np.float64)


def initial_error(
    y: Float64[np.ndarray, "n *c"], start: Float[Array | np.ndarray, "n *c"] | None
) -> Float64[np.ndarray, "n *c"]:
    """What is to be learnt: the labels less the initial outputs."""
    if start is None:
        return y
    check_start(start, y.shape)
    return y - np.asarray(start, np.float64)


def checked_rule(
    rule: tuple[float | None, float, float], largest: float, *, warn: bool = True
) -> tuple[float, float, float]:
    """Learning rate (by default 1/curvature), momentum and ridge.

    Warns if they are unstable for the half-squared loss, whose curvature is 1.
    """
    learning_rate, momentum, ridge = rule
    momentum, ridge = as_number(momentum, "momentum", least=0), as_number(ridge, "ridge", least=0)
    if momentum >= 1:
        raise ValueError(f"`momentum` must be a number from 0 to less than 1, got {momentum=}.")
    curvature = largest + ridge
    learning_rate = 1 / curvature if learning_rate is None else learning_rate
    check_positive(learning_rate, "learning_rate")
    learning_rate, most = float(learning_rate), 2 * (1 + momentum)
    if warn and learning_rate * curvature > most:
        warnings.warn(
            f"learning_rate={learning_rate:.4g} is above {most:.4g}/lambda_max="
            f"{most / curvature:.4g}: the linear dynamics diverge. Use "
            f"1/lambda_max={1 / curvature:.4g}, or None.",
            UnlazyWarning,
            stacklevel=user_level(),
        )
    return learning_rate, momentum, ridge


def check_falling(learning_rate: float, momentum: float, largest: float, ridge: float) -> None:
    """Raise unless every step makes the loss smaller; `largest` is the largest eigenvalue."""
    if momentum > 0:
        raise ValueError(
            "`momentum` must be 0 for the loss to fall at every step, got "
            f"momentum={momentum:g}. Search the curve `loss(range(...))` instead."
        )
    if ridge == 0 and learning_rate * largest >= 2:
        raise ValueError(
            "`learning_rate` must be below 2/lambda_max for the loss to fall, got "
            f"learning_rate={learning_rate:.4g} and 2/lambda_max={2 / largest:.4g}."
        )
    curvature = largest + ridge
    if ridge > 0 and learning_rate * curvature > 1 + 1e-12:  # the default of 1 is rounded
        raise ValueError(
            "`learning_rate` must be at most 1/(lambda_max + ridge) for the loss to fall at every "
            f"step, got learning_rate={learning_rate:.4g} and "
            f"1/(lambda_max + ridge)={1 / curvature:.4g}."
        )


def check_complete(shape: tuple[int, ...], name: str) -> None:
    """Raise unless there are as many eigenvectors as rows, which `name` needs."""
    m, r = shape
    if r < m:
        raise ValueError(
            f"`{name}` must have all eigenvectors, got dynamics from an operator with {r} of {m}. "
            "Use from_gram, or from_operator with the new labels."
        )
