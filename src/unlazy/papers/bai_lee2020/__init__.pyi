from unlazy.papers.bai_lee2020.assumption_a import Smoothness as Smoothness
from unlazy.papers.bai_lee2020.assumption_a import smoothness as smoothness
from unlazy.papers.bai_lee2020.clean_risk import QuadraticRisk as QuadraticRisk
from unlazy.papers.bai_lee2020.clean_risk import quadratic_risk as quadratic_risk
from unlazy.papers.bai_lee2020.coupling import coupling_bound as coupling_bound
from unlazy.papers.bai_lee2020.coupling import coupling_orders as coupling_orders
from unlazy.papers.bai_lee2020.coupling import init_norm_bound as init_norm_bound
from unlazy.papers.bai_lee2020.coupling import linear_variance as linear_variance
from unlazy.papers.bai_lee2020.coupling import term_bounds as term_bounds
from unlazy.papers.bai_lee2020.expressivity import quadratic_sample_size as quadratic_sample_size
from unlazy.papers.bai_lee2020.expressivity import ridge_norm_bound as ridge_norm_bound
from unlazy.papers.bai_lee2020.expressivity import ridge_power as ridge_power
from unlazy.papers.bai_lee2020.expressivity import ridge_sum as ridge_sum
from unlazy.papers.bai_lee2020.expressivity import ridge_width as ridge_width
from unlazy.papers.bai_lee2020.expressivity import sample_sizes as sample_sizes
from unlazy.papers.bai_lee2020.expressivity import two_xor as two_xor
from unlazy.papers.bai_lee2020.extraction import ExtractionNet as ExtractionNet
from unlazy.papers.bai_lee2020.generalization import (
    conditioned_second_moment_norm as conditioned_second_moment_norm,
)
from unlazy.papers.bai_lee2020.generalization import quadratic_gap as quadratic_gap
from unlazy.papers.bai_lee2020.generalization import second_moment_norm as second_moment_norm
from unlazy.papers.bai_lee2020.landscape import curvature_bound as curvature_bound
from unlazy.papers.bai_lee2020.landscape import landscape_theory as landscape_theory
from unlazy.papers.bai_lee2020.landscape import landscape_width as landscape_width
from unlazy.papers.bai_lee2020.landscape import localization_radius as localization_radius
from unlazy.papers.bai_lee2020.landscape import optimality_bound as optimality_bound
from unlazy.papers.bai_lee2020.matrix_sums import matrix_rademacher as matrix_rademacher
from unlazy.papers.bai_lee2020.measured_gap import randomized_gap as randomized_gap
from unlazy.papers.bai_lee2020.noisy_xor import noisy_two_xor as noisy_two_xor
from unlazy.papers.bai_lee2020.perturbed_descent import (
    theoretical_perturbation as theoretical_perturbation,
)
from unlazy.papers.bai_lee2020.quadratic_class import (
    rademacher_operator_bound as rademacher_operator_bound,
)
from unlazy.papers.bai_lee2020.quadratic_class import rademacher_quadratic as rademacher_quadratic
from unlazy.papers.bai_lee2020.quadratic_class import (
    rademacher_quadratic_supremum as rademacher_quadratic_supremum,
)
from unlazy.papers.bai_lee2020.randomized import randomized_landscape as randomized_landscape
from unlazy.papers.bai_lee2020.relu3_kernels import relu3_quadratic as relu3_quadratic
from unlazy.papers.bai_lee2020.relu3_kernels import relu3_tangent as relu3_tangent
from unlazy.papers.bai_lee2020.relu_features import relu_readout as relu_readout
from unlazy.papers.bai_lee2020.relu_features import relu_series as relu_series
from unlazy.papers.bai_lee2020.stationary import stationary_risk as stationary_risk
