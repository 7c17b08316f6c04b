# SPDX-License-Identifier: Apache-2.0
"""Classification with the tangent kernel of an infinitely wide network."""

from collections.abc import Callable
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float64, Shaped
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.metaestimators import available_if

from unlazy.core.entries import entry
from unlazy.estimators.classes import (
    Classes,
    ClassWeight,
    as_classes,
    chosen_classes,
    class_weights,
    sample_weights,
)
from unlazy.estimators.distinct import used_rows
from unlazy.estimators.ntk_base import KernelEstimator
from unlazy.estimators.temperature import both_classes, likeliest_factor, probabilities
from unlazy.kernels.dual import ActivationLike


def _is_ridge(estimator: "NTKClassifier") -> bool:
    """Whether scores come from least squares, which leaves samples out in closed form."""
    if estimator.method != "ridge":
        raise AttributeError(
            "predict_proba is there for method='ridge'. For support vectors use "
            "sklearn.calibration.CalibratedClassifierCV."
        )
    return True


class NTKClassifier(ClassifierMixin, KernelEstimator):
    r"""Classification with the kernel of an infinitely wide network.

    With method "ridge", least squares on labels of +1 and -1, a column per class (one column for
    two classes), as in `NTKRegressor`; the class of the largest output is predicted. With "svm",
    support vectors on the same kernel (`sklearn.svm.SVC`).

    Inputs are taken as they are: standardise their columns first, as in
    `make_pipeline(StandardScaler(), NTKClassifier())`.

    Source: AR-12, arXiv:1901.08584; fixed first layers and support vectors are arXiv:1910.01663's.

    Args:
        kernel: as in `NTKRegressor`, and so are all arguments but the following.
        C: the weight of errors against the norm, for support vectors.
        class_weight: None, "balanced", or a weight per class, which multiplies those of samples.

    Attributes:
        classes_: the classes, sorted.
        X_fit_, fit_rows_, dual_coef_, intercept_, ridge_, loo_error_: as in `NTKRegressor`, for
            labels of +1 and -1.
        svm_: the fitted `SVC`, for support vectors.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((60, 2))
        >>> y = np.where(x[:, 0] * x[:, 1] > 0, "same", "opposite")
        >>> print(NTKClassifier().fit(x, y).predict(np.array([[1.0, 1.0], [1.0, -1.0]])))
        ['same' 'opposite']
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
        class_weight: ClassWeight = None,
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
        self.class_weight = class_weight

    @entry
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "NTKClassifier":
        """Fit to samples in the rows of `X` and their classes `y`, of any type."""
        X, y = self._check(X, y)
        classes = as_classes(y)
        self.classes_ = classes.names
        weights = sample_weights(sample_weight, len(X)) * class_weights(classes, self.class_weight)
        if self.method == "svm":
            return self._fit_svm(X, y, weights)
        return self._fit_signs(X, classes, weights)

    def _fit_signs(self, X: np.ndarray, classes: Classes, weights: np.ndarray) -> "NTKClassifier":
        fit, data = self._fit_ridge(X, classes.signs(), weights, wants_left_out=True)
        assert fit.left_out is not None
        assert fit.surprises is not None
        labels = data.y[fit.left_out]
        scores, shares = both_classes(labels - fit.surprises), (1 + both_classes(labels)) / 2
        self._factor = likeliest_factor(scores, shares, data.weights[fit.left_out])
        return self

    def _fit_svm(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> "NTKClassifier":
        rows = used_rows(weights)
        gram = self._source(X, rows).dense()
        self.svm_ = SVC(kernel="precomputed", C=self.C, tol=self.tol, cache_size=1000)
        self.svm_.fit(gram, y[rows], weights[rows])
        self._keep(X, rows)
        return self

    @entry
    def decision_function(self, X: Any) -> Float64[np.ndarray, "t *k"]:
        """The score of each class; for two classes one score, positive for the second."""
        points = self._points(X)
        if self.method == "svm":
            return self.svm_.decision_function(self._cross_gram(points, self.svm_.support_))
        found = self._outputs(points)
        return found[:, 0] if len(self.classes_) == 2 else found

    @entry
    def predict(self, X: Any) -> Shaped[np.ndarray, " t"]:
        """The class of each sample."""
        if self.method == "svm":
            points = self._points(X)
            return self.svm_.predict(self._cross_gram(points, self.svm_.support_))
        scores = self.decision_function(X)  # raises before the fit, when no classes are known
        return chosen_classes(self.classes_, scores)

    @available_if(_is_ridge)
    @entry
    def predict_proba(self, X: Any) -> Float64[np.ndarray, "t k"]:
        r"""The probability of each class, $\operatorname{softmax}(\tau f(x))$.

        The one number $\tau$ makes the labels of samples likeliest under their leave-one-out
        outputs, which are exact: no sample is held back for it.
        """
        scores = self.decision_function(X)
        return probabilities(both_classes(scores.reshape(len(scores), -1)), self._factor)
