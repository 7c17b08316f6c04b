# SPDX-License-Identifier: Apache-2.0
"""Kernel ridge regression with weights, an intercept, and a ridge chosen by leaving out."""

import warnings
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float64, Int

from unlazy.core.checks import check_name
from unlazy.estimators.distinct import Distinct
from unlazy.estimators.gram_sources import GramSource
from unlazy.kernels import RidgePath, ridge_path
from unlazy.kernels.solving import METHODS

# In units of the mean eigenvalue, by steps of 10^(1/4).
_RIDGES = 10 ** np.linspace(-8, 2, 41)


class RidgeFit(NamedTuple):
    """The solution, and what leaving out says of it."""

    coefficients: Float64[np.ndarray, "n c"]  # f(x) = k(x, X) coefficients + intercept
    intercept: Float64[np.ndarray, " c"]
    ridge: float
    left_out: Int[np.ndarray, " m"] | None  # the rows that were left out one by one
    surprises: Float64[np.ndarray, "m c"] | None  # label minus prediction there
    error: float | None  # the weighted mean square of the surprises, summed over outputs


class RidgeOptions(NamedTuple):
    """How to fit: arguments of the estimators."""

    ridge: float | str
    intercept: bool
    solver: str
    loo_rows: int
    wants_left_out: bool  # even where the ridge is a number
    random_state: np.random.RandomState


def fit_ridge(source: GramSource, data: Distinct, options: RidgeOptions) -> RidgeFit:
    r"""Minimise $\sum_i w_i (f(x_i) + b - y_i)^2 + \text{ridge} \|f\|^2$.

    With ridge "loo" it is the one of the least leave-one-out error, exactly, over a path from one
    eigendecomposition; of more samples than `loo_rows`, on a random choice of so many.
    """
    check_name(options.solver, ("auto", *METHODS), "solver")
    _check_ridge(options.ridge)
    if options.ridge != "loo" and not options.wants_left_out:
        return _solve(source, data, options, float(options.ridge))
    n = source.n
    some = np.arange(n)
    if n > options.loo_rows:
        some = np.sort(options.random_state.permutation(n)[: options.loo_rows])
    found = _left_out(source, data, options, some)
    if len(some) == n:
        return found
    solved = _solve(source, data, options, found.ridge)
    return solved._replace(left_out=some, surprises=found.surprises, error=found.error)


def _check_ridge(ridge: float | str) -> None:
    is_number = isinstance(ridge, int | float | np.number) and not isinstance(ridge, bool)
    if not (ridge == "loo" or (is_number and 0 <= float(ridge) < np.inf)):
        raise ValueError(f"`ridge` must be 'loo' or a number >= 0, got ridge={ridge!r}.")


def _left_out(
    source: GramSource, data: Distinct, options: RidgeOptions, rows: Int[np.ndarray, " m"]
) -> RidgeFit:
    """The fit to some rows, with the predictions for each by all others."""
    H = source.dense(rows)
    y, weights = data.y[rows], data.weights[rows]
    size = float(np.mean(weights * np.diagonal(H)))
    if not size > 0:  # else the ridges in units of it would be blamed
        raise ValueError(
            "`kernel` must be positive semi-definite and not zero, got one whose diagonal has a "
            f"mean of {size:.3g}."
        )
    if options.ridge == "loo":
        ridges = _RIDGES * size
    else:  # the rounding of a factorisation, in place of no ridge at all
        least = len(H) * np.finfo(np.float64).eps * float(np.max(weights * np.diagonal(H)))
        ridges = np.array([max(float(options.ridge), least)])
    path = _path(H, y, ridges, weights, options.intercept)
    errors = path.leave_one_out()
    # A lone sample has no error at any ridge: the largest one is then the safest.
    best = int(np.argmin(errors)) if len(H) > 1 else len(ridges) - 1
    return RidgeFit(
        path.coefficients[best],
        path.intercepts[best],
        float(ridges[best]),
        rows,
        path.surprises()[best],
        float(errors[best]),
    )


def _path(
    H: Float64[np.ndarray, "m m"],
    y: Float64[np.ndarray, "m c"],
    ridges: Float64[np.ndarray, " r"],
    weights: Float64[np.ndarray, " m"],
    intercept: bool,
) -> RidgePath:
    """The path of ridges; a matrix that is not positive semi-definite is the kernel's fault."""
    try:
        return ridge_path(H, y, ridges, weights=weights, intercept=intercept)
    except ValueError as error:
        if not str(error).startswith("`H` must be positive"):
            raise
        raise ValueError(str(error).replace("`H`", "`kernel`")) from error


def _solve(source: GramSource, data: Distinct, options: RidgeOptions, ridge: float) -> RidgeFit:
    """The fit for a ridge that is known."""
    roots = np.sqrt(data.weights)
    sides = np.column_stack([data.y * roots[:, None], roots])
    tiles = source.weighted(roots, options.solver)
    if tiles is None:
        G = source.dense() * roots[:, None] * roots[None, :]
        found = _dense_solution(G, sides, ridge)
    else:
        found = tiles.solve(sides, ridge=ridge, method=options.solver).value
    beta, constant = found[:, :-1], found[:, -1]
    b = np.zeros(beta.shape[1])
    if options.intercept:
        b = (roots @ beta) / (roots @ constant)
        beta = beta - constant[:, None] * b[None, :]
    return RidgeFit(beta * roots[:, None], b, ridge, None, None, None)


def _dense_solution(
    G: Float64[np.ndarray, "n n"], sides: Float64[np.ndarray, "n c"], ridge: float
) -> Float64[np.ndarray, "n c"]:
    """By a Cholesky factorisation; by the pseudo-inverse where the matrix is singular."""
    A = G + ridge * np.eye(len(G))
    with warnings.catch_warnings():
        warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
        try:
            return scipy.linalg.solve(A, sides, assume_a="pos", check_finite=False)
        except (scipy.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
            return scipy.linalg.pinvh(A) @ sides
