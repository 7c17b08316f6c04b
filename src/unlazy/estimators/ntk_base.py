# SPDX-License-Identifier: Apache-2.0
"""What regression and classification with a kernel of a wide network have in common."""

from collections.abc import Callable
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float64
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from unlazy.core.checks import check_count, check_name, check_positive, some_rows
from unlazy.estimators.distinct import Distinct, distinct_rows
from unlazy.estimators.gram_sources import (
    LARGEST_DENSE,
    GramSource,
    OfKernel,
    OfMatrix,
    as_matrix,
    kernel_of,
)
from unlazy.estimators.ridge_fits import RidgeFit, RidgeOptions, fit_ridge
from unlazy.kernels.dual import ActivationLike
from unlazy.kernels.regression import kernel_products

METHODS = ("ridge", "svm")


class KernelEstimator(BaseEstimator):
    """The arguments, and the fit by ridge regression; a base class."""

    @no_type_check  # scikit-learn sets anything, and fit checks
    def __init__(
        self,
        kernel: str | Callable[..., Any] = "ntk",
        *,
        depth: int = 2,
        fixed_layers: int = 0,
        activation: ActivationLike = "relu",
        weight_variance: float = 2.0,
        bias_variance: float = 1.0,
        method: str = "ridge",
        ridge: float | str = "loo",
        fit_intercept: bool = True,
        C: float = 1.0,
        tol: float = 1e-3,
        solver: str = "auto",
        loo_rows: int = 3000,
        memory: float | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.depth = depth
        self.fixed_layers = fixed_layers
        self.activation = activation
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.method = method
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.C = C
        self.tol = tol
        self.solver = solver
        self.loo_rows = loo_rows
        self.memory = memory
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        return tags

    @property
    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check(self, X: Any, y: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        """The samples in float64 and the labels; raises if an argument of `__init__` is wrong."""
        check_name(self.method, METHODS, "method")
        check_positive(self.C, "C")
        check_count(self.loo_rows, "loo_rows", least=2)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, **options)
        if self._is_precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                "`X` must be a square matrix for a precomputed kernel, the kernel of the training "
                f"samples with themselves, got X.shape={X.shape}."
            )
        self._check_zeros(X)
        return X, y

    def _check_zeros(self, X: Float64[np.ndarray, "n d"]) -> None:
        if self._is_precomputed or callable(self.kernel) or self.bias_variance:
            return
        if (zero := np.flatnonzero(~X.any(axis=1))).size:
            raise ValueError(
                f"`X` must have no row of zeros for bias_variance=0, got zeros in "
                f"{some_rows(zero)}: they have no direction. Give a `bias_variance`."
            )

    def _fit_ridge(
        self,
        X: Float64[np.ndarray, "n d"],
        y: Float64[np.ndarray, "n c"],
        weights: Float64[np.ndarray, " n"],
        *,
        wants_left_out: bool,
    ) -> tuple[RidgeFit, Distinct]:
        data = distinct_rows(None if self._is_precomputed else X, y, weights)
        source = self._source(X, data.rows)
        options = RidgeOptions(
            self.ridge,
            bool(self.fit_intercept),
            self.solver,
            self.loo_rows,
            wants_left_out,
            check_random_state(self.random_state),
        )
        fit = fit_ridge(source, data, options)
        self._keep(X, data.rows)
        self.dual_coef_, self.intercept_ = fit.coefficients, fit.intercept
        self.ridge_, self.loo_error_ = fit.ridge, fit.error
        return fit, data

    def _source(self, X: Float64[np.ndarray, "n d"], rows: np.ndarray) -> GramSource:
        if self._is_precomputed:
            return OfMatrix(X[np.ix_(rows, rows)])
        return OfKernel(kernel_of(self), X[rows], self.memory)

    def _keep(self, X: Float64[np.ndarray, "n d"], rows: np.ndarray) -> None:
        """Keep what predictions need: the samples, or which columns of a Gram matrix are theirs."""
        self.fit_rows_ = rows
        if not self._is_precomputed:
            self.X_fit_ = X[rows]

    def _points(self, X: Any) -> Float64[np.ndarray, "t d"]:
        """Samples to predict at, checked against those of the fit."""
        check_is_fitted(self, "fit_rows_")
        points = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        self._check_zeros(points)
        return points

    def _outputs(self, X: Float64[np.ndarray, "t d"]) -> Float64[np.ndarray, "t c"]:
        """k(X, X_fit) coefficients + intercept."""
        if self._is_precomputed:
            return X[:, self.fit_rows_] @ self.dual_coef_ + self.intercept_
        found = kernel_products(kernel_of(self), X, self.X_fit_, self.dual_coef_)
        return found + self.intercept_

    def _cross_gram(
        self, X: Float64[np.ndarray, "t d"], support: np.ndarray
    ) -> Float64[np.ndarray, "t n"]:
        """The kernel of samples with those of the fit; of many, 0 but for columns of `support`."""
        if self._is_precomputed:
            return X[:, self.fit_rows_]
        if len(self.X_fit_) <= LARGEST_DENSE:  # no program for every number of support vectors
            return as_matrix(kernel_of(self), X, self.X_fit_)
        K = np.zeros((len(X), len(self.X_fit_)))
        K[:, support] = as_matrix(kernel_of(self), X, self.X_fit_[support])
        return K
