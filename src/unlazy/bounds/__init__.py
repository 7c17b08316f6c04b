# SPDX-License-Identifier: Apache-2.0
"""What can be said of generalisation from the data alone."""

from unlazy.bounds.certificate import LazyCertificate, lazy_certificate
from unlazy.bounds.concept_rates import (
    ThreeLayerRates,
    TwoLayerRates,
    three_layer_rates,
    two_layer_rates,
)
from unlazy.bounds.conditions import Condition
from unlazy.bounds.cube_certificates import feature_certificate, kernel_certificate
from unlazy.bounds.degrees import DegreeSpectrum, degree_spectrum
from unlazy.bounds.dot_products import dot_product_certificate
from unlazy.bounds.function_complexities import function_complexity
from unlazy.bounds.functions import (
    Arctan,
    Constant,
    Cosine,
    Power,
    Powers,
    QuadraticForm,
    TargetFunction,
)
from unlazy.bounds.good_directions import GeneralizationDiagnostic, generalization_diagnostic
from unlazy.bounds.labels import label_complexity, label_energy
from unlazy.bounds.laziness import flipped_fraction, laziness, predicted_flips
from unlazy.bounds.learnable import LearnableBound, LearnableChain, learnable, learnable_chain
from unlazy.bounds.leave_one_out import LeaveOneOut, leave_one_out
from unlazy.bounds.losses import absolute_loss, clipped_absolute_loss, ramp_loss, zero_one_loss
from unlazy.bounds.parity_certificates import (
    CubeCertificate,
    DotProductCertificate,
    ParityCertificate,
)
from unlazy.bounds.perturbation import (
    PerturbationBounds,
    TheoryWidths,
    initial_gram_deviation,
    perturbation_bounds,
    theory_widths,
)
from unlazy.bounds.population import population_loss, sample_size, uniform_convergence
from unlazy.bounds.population_trained import TrainedBound, population_loss_trained
from unlazy.bounds.pseudo_class import (
    ThreeLayerSupremum,
    TwoLayerSupremum,
    rademacher_pseudo_three_layer,
    rademacher_pseudo_three_layer_supremum,
    rademacher_pseudo_two_layer,
    rademacher_pseudo_two_layer_supremum,
)
from unlazy.bounds.quadratic_class import (
    QuadraticRademacher,
    QuadraticSupremum,
    rademacher_operator_bound,
    rademacher_quadratic,
    rademacher_quadratic_supremum,
)
from unlazy.bounds.quadratic_orders import (
    LandscapeTheory,
    gradient_coupling_order,
    hessian_coupling_order,
    landscape_theory,
    landscape_width,
)
from unlazy.bounds.quadratic_risk import QuadraticGap, quadratic_gap
from unlazy.bounds.rademacher import (
    RademacherEstimate,
    rademacher_linear,
    rademacher_linear_bound,
    rademacher_probable,
)
from unlazy.bounds.rademacher_ascent import rademacher_ascent
from unlazy.bounds.rademacher_network import rademacher_counted, rademacher_sharp
from unlazy.bounds.rademacher_norms import WeightNormBound, rademacher_weight_norms
from unlazy.bounds.rademacher_rates import (
    NetworkRate,
    generalization_gap,
    rademacher_linear_rate,
    rademacher_relu_layer,
    rademacher_three_layer_rate,
    rademacher_two_layer_rate,
)
from unlazy.bounds.resnet_conditions import (
    ResNetConstants,
    ResNetSampleSizes,
    ResNetTheory,
    resnet_sample_sizes,
    resnet_theory,
)
from unlazy.bounds.sample_sizes import (
    SampleSizes,
    quadratic_sample_size,
    ridge_norm_bound,
    ridge_sample_sizes,
    xor_sample_sizes,
)
from unlazy.bounds.second_moment import isotropic_second_moment_norm, second_moment_norm
from unlazy.bounds.series import ntk_series_coefficients
from unlazy.bounds.three_layer_conditions import ThreeLayerTheory, three_layer_theory

__all__ = [
    "Arctan",
    "Condition",
    "Constant",
    "Cosine",
    "CubeCertificate",
    "DegreeSpectrum",
    "DotProductCertificate",
    "GeneralizationDiagnostic",
    "LandscapeTheory",
    "LazyCertificate",
    "LearnableBound",
    "LearnableChain",
    "LeaveOneOut",
    "NetworkRate",
    "ParityCertificate",
    "PerturbationBounds",
    "Power",
    "Powers",
    "QuadraticForm",
    "QuadraticGap",
    "QuadraticRademacher",
    "QuadraticSupremum",
    "RademacherEstimate",
    "ResNetConstants",
    "ResNetSampleSizes",
    "ResNetTheory",
    "SampleSizes",
    "TargetFunction",
    "TheoryWidths",
    "ThreeLayerRates",
    "ThreeLayerSupremum",
    "ThreeLayerTheory",
    "TrainedBound",
    "TwoLayerRates",
    "TwoLayerSupremum",
    "WeightNormBound",
    "absolute_loss",
    "clipped_absolute_loss",
    "degree_spectrum",
    "dot_product_certificate",
    "feature_certificate",
    "flipped_fraction",
    "function_complexity",
    "generalization_diagnostic",
    "generalization_gap",
    "gradient_coupling_order",
    "hessian_coupling_order",
    "initial_gram_deviation",
    "isotropic_second_moment_norm",
    "kernel_certificate",
    "label_complexity",
    "label_energy",
    "landscape_theory",
    "landscape_width",
    "laziness",
    "lazy_certificate",
    "learnable",
    "learnable_chain",
    "leave_one_out",
    "ntk_series_coefficients",
    "perturbation_bounds",
    "population_loss",
    "population_loss_trained",
    "predicted_flips",
    "quadratic_gap",
    "quadratic_sample_size",
    "rademacher_ascent",
    "rademacher_counted",
    "rademacher_linear",
    "rademacher_linear_bound",
    "rademacher_linear_rate",
    "rademacher_operator_bound",
    "rademacher_probable",
    "rademacher_pseudo_three_layer",
    "rademacher_pseudo_three_layer_supremum",
    "rademacher_pseudo_two_layer",
    "rademacher_pseudo_two_layer_supremum",
    "rademacher_quadratic",
    "rademacher_quadratic_supremum",
    "rademacher_relu_layer",
    "rademacher_sharp",
    "rademacher_three_layer_rate",
    "rademacher_two_layer_rate",
    "rademacher_weight_norms",
    "ramp_loss",
    "resnet_sample_sizes",
    "resnet_theory",
    "ridge_norm_bound",
    "ridge_sample_sizes",
    "sample_size",
    "second_moment_norm",
    "theory_widths",
    "three_layer_rates",
    "three_layer_theory",
    "two_layer_rates",
    "uniform_convergence",
    "xor_sample_sizes",
    "zero_one_loss",
]
