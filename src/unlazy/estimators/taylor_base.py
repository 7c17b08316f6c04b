# SPDX-License-Identifier: Apache-2.0
"""What the Taylor estimators share: their settings, and the network that they fit."""

from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from unlazy.activations import Activation
from unlazy.core.checks import MOST_FACTORIAL, check_count, check_finite, check_positive
from unlazy.estimators.hidden_layers import HiddenLayer
from unlazy.estimators.taylor_fitting import Settings, Targets, fitted_movement, taylor_outputs
from unlazy.nets.checking import as_activation


class TaylorBase(BaseEstimator):
    """The settings of a Taylor model, its fit to columns of numbers, and its outputs."""

    order: int
    width: int
    activation: str | Activation
    bias: float
    ridge: float
    randomize_signs: bool
    good_directions: bool
    rank: int | None
    direction_strength: float
    norm_strength: float
    max_iter: int
    tol: float
    random_state: Any
    n_features_in_: int  # set where the inputs are checked, as is the next
    feature_names_in_: np.ndarray

    def _fit_columns(self, X: Float64[np.ndarray, "n d"], targets: Targets) -> None:
        sigma = self._checked_activation()
        settings = self._settings(*X.shape)
        random = check_random_state(self.random_state)
        layer = HiddenLayer.drawn(X.shape[1], settings.width, sigma, settings.bias, random)
        movement, self.n_iter_ = fitted_movement(layer, X, targets, settings, random)
        self.hidden_weights_ = np.concatenate([layer.W, layer.W])
        self.output_weights_ = np.repeat([1.0, -1.0], len(layer.W))
        self.movement_ = movement.reshape(len(movement), settings.width, -1)

    def _outputs(self, X: Any) -> Float64[np.ndarray, "n c"]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        half = len(self.hidden_weights_) // 2
        sigma, bias = as_activation(self.activation), float(self.bias)
        layer = HiddenLayer(self.hidden_weights_[:half], sigma, bias)
        u = self.movement_.reshape(len(self.movement_), 2, half, -1)
        return taylor_outputs(layer, u, X, int(self.order), even=bool(self.randomize_signs))

    def _checked_activation(self) -> Activation:
        check_count(self.order, "order", least=0, most=MOST_FACTORIAL)
        sigma = as_activation(self.activation)
        try:
            sigma.derivative(self.order)
        except ValueError as error:
            raise ValueError(
                f"`activation` must have derivatives to the order {self.order}, "
                f"got activation={sigma.name}. Use a smooth one, such as 'softplus'."
            ) from error
        return sigma

    def _settings(self, n: int, d: int) -> Settings:
        self._check_sizes()
        self._check_options()
        rank = d + 1 if self.rank is None else self.rank
        if self.good_directions and self.rank is not None and self.rank >= n:
            raise ValueError(
                f"`rank` must be below the number of samples, {n}, got rank={self.rank}: "
                "no direction would be left to penalise."
            )
        return Settings(
            order=int(self.order),
            width=int(self.width),
            bias=float(self.bias),
            ridge=float(self.ridge),
            randomized=bool(self.randomize_signs),
            directions=float(self.direction_strength) if self.good_directions else 0.0,
            rank=int(rank),
            norm=float(self.norm_strength),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )

    def _check_sizes(self) -> None:
        check_count(self.width, "width")
        check_count(self.max_iter, "max_iter")
        check_positive(self.ridge, "ridge")
        check_positive(self.tol, "tol")
        if self.width % 2:
            raise ValueError(
                f"`width` must be even, since each neuron has a twin, got width={self.width}."
            )
        for name in ("bias", "direction_strength", "norm_strength"):
            value = getattr(self, name)
            check_finite(value, name)
            if value < 0:
                raise ValueError(f"`{name}` must be at least 0, got {name}={value}.")
        if self.rank is not None:
            check_count(self.rank, "rank")

    def _check_options(self) -> None:
        for name, what in (
            ("randomize_signs", "random signs cancel the linear term"),
            ("good_directions", "a linear model has nothing to learn the rest with"),
        ):
            if getattr(self, name) and self.order < 2:
                raise ValueError(
                    f"`order` must be at least 2 with {name}=True, got order={self.order}: {what}."
                )
        if self.randomize_signs and self.good_directions:
            raise ValueError(
                "`good_directions` must be False with randomize_signs=True, which leaves no linear "
                "term to direct, got good_directions=True."
            )
