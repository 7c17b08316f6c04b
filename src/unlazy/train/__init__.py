# SPDX-License-Identifier: Apache-2.0
"""Training loops, compiled in chunks, with a history of what was recorded on the way."""

from unlazy.train.descent import fit
from unlazy.train.expansion import ExpansionRuns, ExpansionSetting, TrialData, fit_expansion
from unlazy.train.gram import gram_descent
from unlazy.train.grid import BestLane, GridResult, TimeLeft, batch_order, fit_grid
from unlazy.train.history import History
from unlazy.train.losses import MeanLoss, Regularized, SquaredError
from unlazy.train.noisy import noisy_sgd
from unlazy.train.perturbation import Perturbation, theoretical_perturbation
from unlazy.train.perturbed import PerturbedHistory, perturbed_gradient_descent
from unlazy.train.quasi_newton import lbfgs
from unlazy.train.rates import largest_learning_rate
from unlazy.train.resnet import ResNetRun, resnet_sgd
from unlazy.train.stopping import LossBelow, RelativeLossBelow
from unlazy.train.three_layer import ThreeLayerRun, three_layer_sgd
from unlazy.train.three_layer_objective import Draw, Movement, ThreeLayerObjective
from unlazy.train.two_layer import TwoLayerRun, two_layer_sgd

__all__ = [
    "BestLane",
    "Draw",
    "ExpansionRuns",
    "ExpansionSetting",
    "GridResult",
    "History",
    "LossBelow",
    "MeanLoss",
    "Movement",
    "Perturbation",
    "PerturbedHistory",
    "Regularized",
    "RelativeLossBelow",
    "ResNetRun",
    "SquaredError",
    "ThreeLayerObjective",
    "ThreeLayerRun",
    "TimeLeft",
    "TrialData",
    "TwoLayerRun",
    "batch_order",
    "fit",
    "fit_expansion",
    "fit_grid",
    "gram_descent",
    "largest_learning_rate",
    "lbfgs",
    "noisy_sgd",
    "perturbed_gradient_descent",
    "resnet_sgd",
    "theoretical_perturbation",
    "three_layer_sgd",
    "two_layer_sgd",
]
