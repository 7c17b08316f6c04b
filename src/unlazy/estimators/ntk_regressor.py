# SPDX-License-Identifier: Apache-2.0
"""Regression with the tangent kernel of an infinitely wide network."""

from collections.abc import Callable
from typing import Any, no_type_check

import numpy as np
import scipy.linalg
from jaxtyping import Float64
from sklearn.base import RegressorMixin
from sklearn.svm import SVR

from unlazy.core.entries import entry
from unlazy.estimators.classes import sample_weights
from unlazy.estimators.distinct import used_rows
from unlazy.estimators.gram_sources import as_matrix, kernel_of
from unlazy.estimators.ntk_base import KernelEstimator
from unlazy.kernels import operator
from unlazy.kernels.dual import ActivationLike


class NTKRegressor(RegressorMixin, KernelEstimator):
    r"""Regression with the kernel of an infinitely wide network.

    $$f(x) = k(x, X)\, \alpha + b, \qquad \min_{f, b} \sum_i w_i (f(x_i) - y_i)^2
    + \text{ridge}\, \|f\|_k^2$$

    This is what a wide network predicts when it is trained to the end with that penalty. Inputs
    are taken as they are: standardise their columns first, as in
    `make_pipeline(StandardScaler(), NTKRegressor())`. Equal samples count as one of their weight
    together.

    Source: AR-12, arXiv:1901.08584; fixed first layers and support vectors are arXiv:1910.01663's.

    Args:
        kernel: "ntk" (all layers trained), "nngp" (the last one alone), "precomputed" (`X` is the
            Gram matrix, of new samples with those of the fit in `predict`), or a function
            `kernel(x1, x2=None)` such as those of `unlazy.kernels`.
        depth: hidden layers.
        fixed_layers: how many layers, from the first on, are not trained.
        activation: as in `kernels.ntk`; a name, or a function for kernels that need no pickling.
        weight_variance: variance of the weights, as in `kernels.ntk`.
        bias_variance: variance of the biases. With 0, samples must not be zero, and a sample and
            its multiples are fitted alike.
        method: "ridge" for least squares, "svm" for support vectors (`sklearn.svm.SVR`).
        ridge: the penalty, not divided by the number of samples; 0 interpolates. "loo" takes the
            one of the least leave-one-out error, computed exactly for 41 ridges from one
            eigendecomposition.
        fit_intercept: whether to fit a constant, which is not penalised.
        C: the weight of errors against the norm, for support vectors.
        epsilon: errors up to which support vectors cost nothing.
        tol: when to stop the search for support vectors, as in `sklearn.svm`.
        solver: for a fit at one ridge: "cholesky", "float32", "conjugate-gradients", or "auto",
            the first that fits the memory, as in `KernelOperator.solve`.
        loo_rows: of more samples than this, the ridge is chosen on a random choice of so many.
        memory: bytes for the solve beyond 4096 samples, as in `kernels.operator`.
        random_state: for that choice.

    Attributes:
        X_fit_: the samples that were fitted; none of them equal, none of weight 0.
        fit_rows_: their rows in the `X` of the fit.
        dual_coef_: $\alpha$; intercept_: $b$; ridge_: the ridge that was used.
        noise_std_: the standard deviation of the labels' noise, of weight 1, that the ridge means.
        loo_error_: the leave-one-out mean squared error, None where the ridge was given.

    Example:
        >>> x = np.linspace(-2, 2, 40)[:, None]
        >>> fitted = NTKRegressor().fit(x, np.sin(2 * x[:, 0]))
        >>> print(fitted.predict(np.array([[0.5]])).round(2))
        [0.84]
    """

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
        epsilon: float = 0.1,
        tol: float = 1e-3,
        solver: str = "auto",
        loo_rows: int = 3000,
        memory: float | None = None,
        random_state: Any = None,
    ):
        super().__init__(
            kernel,
            depth=depth,
            fixed_layers=fixed_layers,
            activation=activation,
            weight_variance=weight_variance,
            bias_variance=bias_variance,
            method=method,
            ridge=ridge,
            fit_intercept=fit_intercept,
            C=C,
            tol=tol,
            solver=solver,
            loo_rows=loo_rows,
            memory=memory,
            random_state=random_state,
        )
        self.epsilon = epsilon

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.method == "ridge"
        return tags

    @entry
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "NTKRegressor":
        """Fit to samples in the rows of `X` and numbers `y`, (n,) or (n, c)."""
        X, y = self._check(X, y, multi_output=self.method == "ridge", y_numeric=True)
        y, weights = np.asarray(y, np.float64), sample_weights(sample_weight, len(X))
        if self.method == "svm":
            return self._fit_svm(X, y, weights)
        columns = y.reshape(len(y), -1)
        _, data = self._fit_ridge(X, columns, weights, wants_left_out=False)
        self._weights, self._shape = data.weights, y.shape[1:]
        fitted = data.y - self.intercept_
        free = len(fitted) - int(bool(self.fit_intercept))
        # The scale of the kernel for which these labels are most likely, given the ridge.
        self._amplitude = np.sum(fitted * self.dual_coef_, axis=0) / max(free, 1)
        noise = np.sqrt(np.maximum(self._amplitude, 0.0) * self.ridge_)
        self.noise_std_ = noise.reshape(self._shape)[()]
        return self

    def _fit_svm(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> "NTKRegressor":
        rows = used_rows(weights)
        gram = self._source(X, rows).dense()
        self.svm_ = SVR(kernel="precomputed", C=self.C, tol=self.tol, epsilon=self.epsilon)
        self.svm_.fit(gram, y[rows], weights[rows])
        self._keep(X, rows)
        return self

    @entry
    def predict(self, X: Any, return_std: bool = False) -> Any:
        r"""The outputs at samples; with `return_std`, also their posterior standard deviations.

        Labels are taken as a Gaussian process with covariance $s^2 k$ and noise $s^2\,
        \text{ridge} / w_i$, where $s^2$ makes them most likely, and a constant that is known
        through them alone. The deviation is that of the process, without the noise of a new label,
        whose deviation is `noise_std_`: an interval for new labels takes the root of the sum of
        both squares.
        It takes a factorisation of the Gram matrix at every call.
        """
        points = self._points(X)
        if self.method == "svm":
            if return_std:
                raise ValueError("`return_std` must be False for method='svm', got True.")
            return self.svm_.predict(self._cross_gram(points, self.svm_.support_))
        found = self._outputs(points).reshape(len(points), *self._shape)
        if not return_std:
            return found
        if self._is_precomputed:
            raise ValueError(
                "`return_std` must be False for a precomputed kernel, got True: the kernel of the "
                "new samples with themselves is not known. Use unlazy.kernels.posterior."
            )
        return found, self._deviations(points).reshape(found.shape)

    def _deviations(self, points: Float64[np.ndarray, "t d"]) -> Float64[np.ndarray, "t c"]:
        kernel, roots = kernel_of(self), np.sqrt(self._weights)
        A = as_matrix(kernel, self.X_fit_) * roots[:, None] * roots[None, :]
        A[np.diag_indices_from(A)] += self.ridge_ + 1e-14 * np.max(np.diagonal(A))
        L = scipy.linalg.cholesky(A, lower=True, overwrite_a=True)
        cross = as_matrix(kernel, self.X_fit_, points) * roots[:, None]
        V = scipy.linalg.solve_triangular(L, cross, lower=True)
        variance = operator(kernel, points).diagonal() - np.sum(V**2, axis=0)
        if self.fit_intercept:
            s = scipy.linalg.solve_triangular(L, roots, lower=True)
            variance = variance + (1 - s @ V) ** 2 / (s @ s)
        return np.sqrt(np.maximum(variance, 0.0)[:, None] * np.maximum(self._amplitude, 0.0))
