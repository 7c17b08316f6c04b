from unlazy.papers.allenzhu_li_liang2019.concept_classes import (
    ThreeLayerConcept as ThreeLayerConcept,
)
from unlazy.papers.allenzhu_li_liang2019.concept_classes import TwoLayerConcept as TwoLayerConcept
from unlazy.papers.allenzhu_li_liang2019.concept_classes import product_concept as product_concept
from unlazy.papers.allenzhu_li_liang2019.coupled_existence import (
    existence_after_coupling as existence_after_coupling,
)
from unlazy.papers.allenzhu_li_liang2019.coupling import flip_first_layer as flip_first_layer
from unlazy.papers.allenzhu_li_liang2019.coupling import pseudo_terms as pseudo_terms
from unlazy.papers.allenzhu_li_liang2019.coupling import signed_coupling as signed_coupling
from unlazy.papers.allenzhu_li_liang2019.coupling_of_two_layers import (
    two_layer_coupling as two_layer_coupling,
)
from unlazy.papers.allenzhu_li_liang2019.descent_directions import (
    descent_alternatives as descent_alternatives,
)
from unlazy.papers.allenzhu_li_liang2019.function_complexities import (
    function_complexity as function_complexity,
)
from unlazy.papers.allenzhu_li_liang2019.hermite_polynomials import (
    hermite_affine as hermite_affine,
)
from unlazy.papers.allenzhu_li_liang2019.hermite_polynomials import (
    hermite_indicator as hermite_indicator,
)
from unlazy.papers.allenzhu_li_liang2019.hermite_polynomials import (
    indicator_window as indicator_window,
)
from unlazy.papers.allenzhu_li_liang2019.hermite_polynomials import (
    truncated_moments as truncated_moments,
)
from unlazy.papers.allenzhu_li_liang2019.indicator_errors import indicator_error as indicator_error
from unlazy.papers.allenzhu_li_liang2019.indicator_to_function import (
    indicator_function as indicator_function,
)
from unlazy.papers.allenzhu_li_liang2019.information_out_of_randomness import (
    ThreeLayerStart as ThreeLayerStart,
)
from unlazy.papers.allenzhu_li_liang2019.information_out_of_randomness import (
    random_information as random_information,
)
from unlazy.papers.allenzhu_li_liang2019.interval_partitions import (
    interval_partition as interval_partition,
)
from unlazy.papers.allenzhu_li_liang2019.objective_curvature import (
    objective_certificate as objective_certificate,
)
from unlazy.papers.allenzhu_li_liang2019.pseudo_networks import pseudo_output as pseudo_output
from unlazy.papers.allenzhu_li_liang2019.rademacher_pseudo_networks import (
    rademacher_pseudo_three_layer as rademacher_pseudo_three_layer,
)
from unlazy.papers.allenzhu_li_liang2019.rademacher_pseudo_networks import (
    rademacher_pseudo_three_layer_supremum as rademacher_pseudo_three_layer_supremum,
)
from unlazy.papers.allenzhu_li_liang2019.rademacher_pseudo_networks import (
    rademacher_pseudo_two_layer as rademacher_pseudo_two_layer,
)
from unlazy.papers.allenzhu_li_liang2019.rademacher_pseudo_networks import (
    rademacher_pseudo_two_layer_supremum as rademacher_pseudo_two_layer_supremum,
)
from unlazy.papers.allenzhu_li_liang2019.rademacher_rates import (
    generalization_gap as generalization_gap,
)
from unlazy.papers.allenzhu_li_liang2019.rademacher_rates import rademacher_rate as rademacher_rate
from unlazy.papers.allenzhu_li_liang2019.rademacher_rates import (
    rademacher_relu_layer as rademacher_relu_layer,
)
from unlazy.papers.allenzhu_li_liang2019.table1 import three_layer_theory as three_layer_theory
from unlazy.papers.allenzhu_li_liang2019.theorems import three_layer_rates as three_layer_rates
from unlazy.papers.allenzhu_li_liang2019.theorems import two_layer_rates as two_layer_rates
from unlazy.papers.allenzhu_li_liang2019.three_layer_algorithm import (
    three_layer_sgd as three_layer_sgd,
)
from unlazy.papers.allenzhu_li_liang2019.three_layer_existence import (
    three_layer_weights as three_layer_weights,
)
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import (
    ThreeLayerObjective as ThreeLayerObjective,
)
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import smoothed_relu as smoothed_relu
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import spread_ratio as spread_ratio
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import (
    three_layer_regularizer as three_layer_regularizer,
)
from unlazy.papers.allenzhu_li_liang2019.two_layer_algorithm import two_layer_sgd as two_layer_sgd
from unlazy.papers.allenzhu_li_liang2019.two_layer_existence import (
    two_layer_weights as two_layer_weights,
)
from unlazy.papers.allenzhu_li_liang2019.two_layer_optimization import (
    two_layer_regret as two_layer_regret,
)
