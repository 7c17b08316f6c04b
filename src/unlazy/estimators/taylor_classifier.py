# SPDX-License-Identifier: Apache-2.0
"""Classification with a Taylor model of a two-layer network."""

from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float64, Shaped
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from unlazy.activations import Activation
from unlazy.core.checks import check_name
from unlazy.core.entries import entry
from unlazy.estimators.classes import (
    Classes,
    ClassWeight,
    as_classes,
    chosen_classes,
    class_weights,
    sample_weights,
)
from unlazy.estimators.taylor_base import TaylorBase
from unlazy.estimators.taylor_fitting import Targets
from unlazy.estimators.taylor_objective import LossName


def _has_probabilities(model: "TaylorClassifier") -> bool:
    if model.loss == "log_loss":
        return True
    raise AttributeError(f"predict_proba needs loss='log_loss', and this is loss={model.loss!r}.")


class TaylorClassifier(ClassifierMixin, TaylorBase):
    r"""Classification with the Taylor model of a two-layer network around its random start.

    The model of `TaylorRegressor`, with one output for two classes and one per class for more, and
    as loss either

    - "squared_error": $\sum_i w_i \|f(x_i) - y_i\|^2$ with $y = +1$ in the column of the class and
      -1 elsewhere, their weighted means taken off first. Orders 0 and 1 are solved exactly;
    - "log_loss": $-\sum_i w_i \log p(y_i \mid x_i)$, p the softmax of the outputs (the logistic
      function of one), to which the logarithms of the classes' shares are added. Every order is
      trained, and `predict_proba` gives p. A model of the squared error has no probabilities.

    With `randomize_signs` the log loss, averaged over signs, is replaced by an upper bound:
    $\ell(f_{even}) + v/8$, with v the variance of the outputs that the signs cause.

    Source: BL-7, BL-8, BL-11 and BL-13, arXiv:1910.01619 section 3; NB-15 and NB-16,
    arXiv:2206.03688, with the ridge added; the upper bound is ours.

    Args:
        order: as for `TaylorRegressor`, as are the following up to `random_state`.
        width: m, even.
        activation: a name or an `Activation`, with derivatives to that order.
        bias: the coordinate b of every sample; 0 for none.
        ridge: λ, positive.
        loss: "squared_error" or "log_loss".
        class_weight: None, "balanced", or a weight per class.
        randomize_signs: average over random signs of the movements; needs order 2.
        good_directions: penalise the linear term outside of its leading directions; needs order 2.
        rank: how many directions are free; None for d + 1.
        direction_strength: λ3, the factor of R3 in the mean loss.
        norm_strength: λ4, the factor of $\|u\|_{2,4}^8$ in the mean loss.
        max_iter: steps of L-BFGS at most.
        tol: training ends when a step lowers the objective by less than this part of it.
        random_state: of the start: an integer, a `RandomState` or None.

    Attributes:
        classes_: the labels, sorted.
        intercept_: what is added to each output.
        hidden_weights_: as for `TaylorRegressor`, as are `output_weights_`, `movement_`, `n_iter_`,
            `n_features_in_` and `feature_names_in_`.

    Example:
        >>> import numpy as np
        >>> X = np.random.RandomState(0).standard_normal((200, 3))
        >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
        >>> model = TaylorClassifier(width=64, loss="log_loss", random_state=0)
        >>> bool(model.fit(X[:150], y[:150]).score(X[150:], y[150:]) > 0.85)
        True
        >>> model.predict_proba(X[:3]).shape
        (3, 2)
    """

    loss: LossName
    class_weight: ClassWeight

    @no_type_check  # scikit-learn sets anything, and fit checks
    def __init__(
        self,
        order: int = 2,
        *,
        width: int = 256,
        activation: str | Activation = "softplus",
        bias: float = 1.0,
        ridge: float = 0.1,
        loss: LossName = "squared_error",
        class_weight: ClassWeight = None,
        randomize_signs: bool = False,
        good_directions: bool = False,
        rank: int | None = None,
        direction_strength: float = 10.0,
        norm_strength: float = 0.0,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Any = None,
    ):
        self.order = order
        self.width = width
        self.activation = activation
        self.bias = bias
        self.ridge = ridge
        self.loss = loss
        self.class_weight = class_weight
        self.randomize_signs = randomize_signs
        self.good_directions = good_directions
        self.rank = rank
        self.direction_strength = direction_strength
        self.norm_strength = norm_strength
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @entry
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "TaylorClassifier":
        """Fit to labels of any type, with a weight per sample."""
        check_name(self.loss, ("squared_error", "log_loss"), "loss")
        X, y = validate_data(self, X, y, dtype=np.float64)
        classes = as_classes(y)
        weights = sample_weights(sample_weight, len(y)) * class_weights(classes, self.class_weight)
        targets = _targets(classes, weights, self.loss)
        self._fit_columns(X, targets)
        self.intercept_ = targets.offset
        self.classes_ = classes.names
        return self

    @entry
    def decision_function(self, X: Any) -> Float64[np.ndarray, "n *c"]:
        """The outputs: (n,) for two classes, positive for the second; (n, classes) for more."""
        outputs = self._outputs(X) + self.intercept_
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    @entry
    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """The class of the largest output."""
        scores = self.decision_function(X)  # first, because it checks that there is a fit
        return chosen_classes(self.classes_, scores)

    @available_if(_has_probabilities)
    @entry
    def predict_proba(self, X: Any) -> Float64[np.ndarray, "n k"]:
        """The probability of each class; for loss="log_loss"."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return softmax(scores, axis=1)
        return np.stack([expit(-scores), expit(scores)], axis=1)


def _targets(classes: Classes, weights: Float64[np.ndarray, " n"], loss: LossName) -> Targets:
    """The columns to fit, and what is added to the outputs."""
    signs = classes.signs()
    if loss == "squared_error":
        mean = weights @ signs / max(np.sum(weights), np.finfo(float).tiny)
        return Targets(signs, weights, mean, loss)
    totals = np.bincount(classes.numbers, weights, minlength=len(classes.names))
    # One sample more of each class: a class whose samples all weigh 0 has a logarithm too.
    logs = np.log((totals + 1) / (np.sum(totals) + len(totals)))
    offset = logs - np.mean(logs) if len(logs) > 2 else logs[1:] - logs[:1]
    return Targets(signs, weights, offset, loss)
