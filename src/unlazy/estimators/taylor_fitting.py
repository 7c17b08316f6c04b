# SPDX-License-Identifier: Apache-2.0
"""The Taylor model of a two-layer network: its terms at samples, and how it is fitted.

A model that is linear in what moves is solved exactly. The others are trained by L-BFGS on all
samples, in float64: on 7 small tables, softplus at order 2, it converged in 16 to 183 steps, to
the same accuracy from the movement that solves the linear model and from a small random one.
"""

import math
import warnings
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from unlazy.core.float64 import float64
from unlazy.estimators.hidden_layers import HiddenLayer
from unlazy.estimators.product_features import ProductFeatures
from unlazy.estimators.taylor_objective import LossName, Penalties, Rule, blocks, objective

Movement = Float64[np.ndarray, "c 2 h e"]
_ENTRIES = 2**20  # of pre-activations at a time: 8 MB
_SMALL = 0.1  # the size of the random movement at the start, BL-28
_HALF = math.sqrt(0.5)


class Settings(NamedTuple):
    """How a Taylor model is fitted; see `TaylorRegressor`."""

    order: int
    width: int
    bias: float
    ridge: float
    randomized: bool
    directions: float  # strength; 0 for none
    rank: int  # how many directions are free of it
    norm: float
    max_iter: int
    tol: float


class Targets(NamedTuple):
    """What is fitted: numbers per sample and output, with weights."""

    y: Float64[np.ndarray, "n c"]
    weights: Float64[np.ndarray, " n"]
    offset: Float64[np.ndarray, " c"]  # added to the outputs in the loss
    loss: LossName


class Terms(NamedTuple):
    """The coefficients of the Taylor terms at samples, and what the movement is multiplied by."""

    series: Float64[np.ndarray, "k n h"]
    x: Float64[np.ndarray, "n e"]

    @classmethod
    def at(cls, layer: HiddenLayer, X: Float64[np.ndarray, "n d"], order: int) -> "Terms":
        r"""$\sigma^{(k)}(w_r^\top \tilde x) / (\sqrt m\, k!)$ for k = 1 to `order`.

        At order 0 the readout moves: the coefficients are those of order 0, multiplied by 1.
        """
        x, orders = layer.lifted(X), range(1, order + 1) if order else range(1)
        factorials = np.array([math.factorial(k) for k in orders], np.float64)
        root = math.sqrt(2 * len(layer.W))
        series = layer.derivatives(x, orders) / (root * factorials[:, None, None])
        return cls(series, x if order else np.ones((len(x), 1)))

    def outputs(self, u: Movement, *, even: bool) -> Float64[np.ndarray, "n c"]:
        """The sum of the terms at the movement `u`, or of those of even order alone."""
        z = np.einsum("ne,cthe->ctnh", self.x, u, optimize=True)
        total = np.zeros((len(self.x), len(u)))
        for k, coefficients in enumerate(self.series, 1):
            if not (even and k % 2):
                total += np.einsum("nh,cnh->nc", coefficients, z[:, 0] ** k - z[:, 1] ** k)
        return total

    def tangent(self, weights: Float64[np.ndarray, " n"]) -> ProductFeatures:
        """The features of the linear term, which a neuron shares with its twin."""
        return ProductFeatures(self.series[0] / _HALF, self.x).weighted(weights)


def taylor_outputs(
    layer: HiddenLayer, u: Movement, X: Float64[np.ndarray, "n d"], order: int, *, even: bool
) -> Float64[np.ndarray, "n c"]:
    """The outputs at any samples, block by block."""
    size = max(1, _ENTRIES // u[..., 0].size)
    parts = [X[start : start + size] for start in range(0, len(X), size)]
    return np.concatenate([Terms.at(layer, part, order).outputs(u, even=even) for part in parts])


def fitted_movement(
    layer: HiddenLayer,
    X: Float64[np.ndarray, "n d"],
    targets: Targets,
    settings: Settings,
    random: np.random.RandomState,
) -> tuple[Movement, int]:
    """The movement of the trained layer, and the number of steps that it took."""
    terms = Terms.at(layer, X, settings.order)
    linear = _linear_movement(terms, targets, settings)
    squared = targets.loss == "squared_error"
    if squared and settings.order <= 1 and settings.norm == 0:
        return linear, 1
    width, entries = 2 * linear.shape[2], linear.shape[3]
    small = _SMALL * width**-0.25 / math.sqrt(entries) * random.standard_normal(linear.shape)
    # Signs cancel the linear term, whose solution is no use as a start then.
    return _descended(terms, targets, settings, small if settings.randomized else linear + small)


def _linear_movement(terms: Terms, targets: Targets, settings: Settings) -> Movement:
    roots = np.sqrt(targets.weights)[:, None]
    features = terms.tangent(targets.weights)
    u = _HALF * features.ridge_solution(roots * (targets.y - targets.offset), settings.ridge)
    return np.stack([u, -u], axis=1)


def _descended(terms: Terms, targets: Targets, settings: Settings, start: Movement):
    data = blocks(terms.series, terms.x, targets.y, targets.weights)
    penalties = _penalties(terms, targets, settings)
    directed, normed = settings.directions > 0, settings.norm > 0
    rule = Rule(targets.loss, settings.randomized, directed, normed)

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(rule, flat.reshape(start.shape), *rest)
        return float(value), np.asarray(gradient, np.float64).ravel()

    options = {"maxiter": settings.max_iter, "maxfun": 10 * settings.max_iter}
    options |= {"ftol": settings.tol, "gtol": 0.0}
    # L-BFGS makes many short products of vectors, for which BLAS wakes all threads: on two busy
    # cores a step of it took 57 ms with threads and 3 ms without, its objective 18 ms.
    with float64(), threadpool_limits(1, user_api="blas"):
        rest = jax.device_put((data, targets.offset, penalties))
        found = minimize(
            value_and_gradient, start.ravel(), jac=True, method="L-BFGS-B", options=options
        )
    if found.status == 1:
        warnings.warn(
            f"Training stopped after max_iter={settings.max_iter} steps, before the objective fell "
            f"by less than tol={settings.tol:g} of itself in a step. Raise `max_iter` or `ridge`.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found.x.reshape(start.shape), max(1, int(found.nit))


def _penalties(terms: Terms, targets: Targets, settings: Settings) -> Penalties:
    h, e = terms.series.shape[2], terms.x.shape[1]
    carried = np.zeros((0, h, e))
    if settings.directions:
        carried = _HALF * terms.tangent(targets.weights).leading(settings.rank)
    # The paper's loss is a mean, ours a sum, and so is what the directions carry already.
    norm = settings.norm * float(np.sum(targets.weights))
    return Penalties(settings.ridge, settings.directions, norm, carried)
