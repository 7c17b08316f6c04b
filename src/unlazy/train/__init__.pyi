from unlazy.losses import MeanLoss as MeanLoss
from unlazy.losses import Regularized as Regularized
from unlazy.losses import SquaredError as SquaredError
from unlazy.papers.allenzhu_li_liang2019.three_layer_algorithm import (
    three_layer_sgd as three_layer_sgd,
)
from unlazy.train.descent import fit as fit
from unlazy.train.grid.grid import fit_grid as fit_grid
from unlazy.train.grid.progress import TimeLeft as TimeLeft
from unlazy.train.grid.result import BestLane as BestLane
from unlazy.train.grid.result import GridResult as GridResult
from unlazy.train.grid.rules import batch_order as batch_order
from unlazy.train.history import History as History
from unlazy.train.noisy import noisy_sgd as noisy_sgd
from unlazy.train.perturbed import Perturbation as Perturbation
from unlazy.train.perturbed import PerturbedHistory as PerturbedHistory
from unlazy.train.perturbed import perturbed_gradient_descent as perturbed_gradient_descent
from unlazy.train.rates import largest_learning_rate as largest_learning_rate
from unlazy.train.stopping import LossBelow as LossBelow
from unlazy.train.stopping import RelativeLossBelow as RelativeLossBelow
