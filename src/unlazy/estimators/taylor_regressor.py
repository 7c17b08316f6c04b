# SPDX-License-Identifier: Apache-2.0
"""Regression with a Taylor model of a two-layer network."""

from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float64
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from unlazy.activations import Activation
from unlazy.core.entries import entry
from unlazy.estimators.classes import sample_weights
from unlazy.estimators.taylor_base import TaylorBase
from unlazy.estimators.taylor_fitting import Targets


class TaylorRegressor(MultiOutputMixin, RegressorMixin, TaylorBase):
    r"""Regression with the Taylor model of a two-layer network around its random start.

    $$f(x) = \frac{1}{\sqrt m} \sum_{r=1}^m a_r \sum_{k=1}^{K}
    \frac{\sigma^{(k)}(w_r^\top \tilde x)}{k!} (u_r^\top \tilde x)^k, \qquad
    \tilde x = (x / \sqrt d,\, b),$$

    of order K, minimises $\sum_i w_i (f(x_i) - y_i)^2 + \lambda \|u\|_F^2$ over the movement u of
    the hidden weights. These are standard Gaussians w at the start, in pairs of twins with
    $a = \pm 1$, so that the network starts at 0. Targets are centred and scaled to variance 1
    first; each column of targets has a movement of its own.

    - Order 0: the hidden layer stays, and the movement $v$ of the output weights is fitted,
      $f(x) = \frac{1}{\sqrt m} \sum_r v_r \sigma(w_r^\top \tilde x)$: ridge regression on random
      features.
    - Order 1: the tangent model, which is ridge regression with the tangent kernel of this network
      of finite width. Orders 0 and 1 are solved exactly.
    - Order 2 and above: trained by L-BFGS on all samples. A step costs about $6 n m d$ operations
      per column.

    With `randomize_signs` the movement of each neuron has a random sign, over which the squared
    error is averaged, exactly: $(f_{even} - y)^2 + \frac1m \sum_r (\text{odd terms of } r)^2$. The
    prediction is the mean over the signs, the sum $f_{even}$ of the terms of even order: at order 2
    the quadratic term alone learns. With `good_directions` the linear term is free in its leading
    directions alone: its mean square in the others, R3, is penalised, and the quadratic term learns
    what is left.

    Standardise the inputs, as in a pipeline after `StandardScaler`.

    Source: BL-7, BL-8, BL-11 and BL-13, arXiv:1910.01619 section 3; NB-15 and NB-16,
    arXiv:2206.03688, with the ridge added. The papers descend; we minimise.

    Args:
        order: K, 0 or more.
        width: m, even.
        activation: a name or an `Activation`, with derivatives to that order.
        bias: the coordinate b of every sample; 0 for none.
        ridge: λ, positive.
        randomize_signs: average over random signs of the movements; needs order 2.
        good_directions: penalise the linear term outside of its leading directions; needs order 2.
        rank: how many directions are free; None for d + 1, as many as affine functions have.
        direction_strength: λ3, the factor of R3 in the mean loss.
        norm_strength: λ4, the factor of $\|u\|_{2,4}^8$ in the mean loss.
        max_iter: steps of L-BFGS at most.
        tol: training ends when a step lowers the objective by less than this part of it.
        random_state: of the start: an integer, a `RandomState` or None.

    Attributes:
        hidden_weights_: w, of shape (m, d + 1), or (m, d) without bias; twins are m/2 apart.
        output_weights_: a, of shape (m,): +1, then -1.
        movement_: u, of shape (columns, m, d + 1); at order 0 $a_r v_r$, of shape (columns, m, 1).
        intercept_: the weighted mean of each column of targets.
        scale_: the weighted standard deviation of each column of targets.
        n_iter_: steps of L-BFGS; 1 for an exact solution.
        n_features_in_: d.
        feature_names_in_: names of the columns, where X has some.

    Example:
        >>> import numpy as np
        >>> X = np.random.RandomState(0).standard_normal((200, 3))
        >>> y = X[:, 0] * X[:, 1]
        >>> model = TaylorRegressor(order=2, width=64, random_state=0).fit(X[:150], y[:150])
        >>> bool(model.score(X[150:], y[150:]) > 0.9)
        True
    """

    @no_type_check  # scikit-learn sets anything, and fit checks
    def __init__(
        self,
        order: int = 2,
        *,
        width: int = 256,
        activation: str | Activation = "softplus",
        bias: float = 1.0,
        ridge: float = 0.1,
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
        self.randomize_signs = randomize_signs
        self.good_directions = good_directions
        self.rank = rank
        self.direction_strength = direction_strength
        self.norm_strength = norm_strength
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @entry
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "TaylorRegressor":
        """Fit to targets (n,) or (n, c), with a weight per sample."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        y = np.asarray(y, np.float64)
        columns, weights = y.reshape(len(y), -1), sample_weights(sample_weight, len(y))
        self.intercept_, self.scale_ = _mean_and_deviation(columns, weights)
        standard = (columns - self.intercept_) / self.scale_
        targets = Targets(standard, weights, np.zeros(columns.shape[1]), "squared_error")
        self._fit_columns(X, targets)
        self._is_single = y.ndim == 1
        return self

    @entry
    def predict(self, X: Any) -> Float64[np.ndarray, "n *c"]:
        """The outputs, in the shape of the targets."""
        outputs = self._outputs(X) * self.scale_ + self.intercept_
        return outputs[:, 0] if self._is_single else outputs


def _mean_and_deviation(
    y: Float64[np.ndarray, "n c"], weights: Float64[np.ndarray, " n"]
) -> tuple[Float64[np.ndarray, " c"], Float64[np.ndarray, " c"]]:
    """Of each column; the deviation of a constant is 1."""
    share = weights / max(np.sum(weights), np.finfo(float).tiny)
    mean = share @ y
    deviation = np.sqrt(share @ (y - mean) ** 2)
    negligible = 10 * np.finfo(float).eps * np.max(np.abs(y), axis=0)
    return mean, np.where(deviation > negligible, deviation, 1.0)
