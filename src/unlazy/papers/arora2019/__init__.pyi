from unlazy.papers.arora2019.complexity_contrasts import complexity_contrast as complexity_contrast
from unlazy.papers.arora2019.contractions import contraction as contraction
from unlazy.papers.arora2019.contractions import initial_loss as initial_loss
from unlazy.papers.arora2019.gram_space import gram_descent as gram_descent
from unlazy.papers.arora2019.lazy_certificates import lazy_certificate as lazy_certificate
from unlazy.papers.arora2019.learnable_functions import learnable as learnable
from unlazy.papers.arora2019.learnable_functions import learnable_chain as learnable_chain
from unlazy.papers.arora2019.learnable_functions import (
    ntk_series_coefficients as ntk_series_coefficients,
)
from unlazy.papers.arora2019.minimum_norms import minimum_norm as minimum_norm
from unlazy.papers.arora2019.movement_bounds import movement_bound as movement_bound
from unlazy.papers.arora2019.nondegenerate import nondegeneracy as nondegeneracy
from unlazy.papers.arora2019.perturbation import flipped_fraction as flipped_fraction
from unlazy.papers.arora2019.perturbation import initial_gram_deviation as initial_gram_deviation
from unlazy.papers.arora2019.perturbation import laziness as laziness
from unlazy.papers.arora2019.perturbation import perturbation_bounds as perturbation_bounds
from unlazy.papers.arora2019.perturbation import predicted_flips as predicted_flips
from unlazy.papers.arora2019.perturbation import theory_widths as theory_widths
from unlazy.papers.arora2019.population import population_loss as population_loss
from unlazy.papers.arora2019.population import population_loss_trained as population_loss_trained
from unlazy.papers.arora2019.population import sample_size as sample_size
from unlazy.papers.arora2019.population import uniform_convergence as uniform_convergence
from unlazy.papers.arora2019.population_chains import chain_width as chain_width
from unlazy.papers.arora2019.population_chains import population_loss_chain as population_loss_chain
from unlazy.papers.arora2019.rademacher import rademacher_ascent as rademacher_ascent
from unlazy.papers.arora2019.rademacher import rademacher_counted as rademacher_counted
from unlazy.papers.arora2019.rademacher import rademacher_sharp as rademacher_sharp
from unlazy.papers.arora2019.target_functions import Arctan as Arctan
from unlazy.papers.arora2019.target_functions import Constant as Constant
from unlazy.papers.arora2019.target_functions import Cosine as Cosine
from unlazy.papers.arora2019.target_functions import Power as Power
from unlazy.papers.arora2019.target_functions import Powers as Powers
from unlazy.papers.arora2019.target_functions import QuadraticForm as QuadraticForm
from unlazy.papers.arora2019.target_functions import TargetFunction as TargetFunction
from unlazy.papers.arora2019.worst_case_labels import worst_labels as worst_labels
