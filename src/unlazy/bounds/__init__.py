# SPDX-License-Identifier: Apache-2.0
"""What can be said of generalisation from the data alone."""

from unlazy.bounds.certificate import LazyCertificate, lazy_certificate
from unlazy.bounds.degrees import DegreeSpectrum, degree_spectrum
from unlazy.bounds.functions import (
    Arctan,
    Constant,
    Cosine,
    Power,
    Powers,
    QuadraticForm,
    TargetFunction,
)
from unlazy.bounds.labels import label_complexity, label_energy
from unlazy.bounds.laziness import flipped_fraction, laziness, predicted_flips
from unlazy.bounds.learnable import LearnableBound, LearnableChain, learnable, learnable_chain
from unlazy.bounds.leave_one_out import LeaveOneOut, leave_one_out
from unlazy.bounds.losses import absolute_loss, clipped_absolute_loss, ramp_loss, zero_one_loss
from unlazy.bounds.perturbation import (
    PerturbationBounds,
    TheoryWidths,
    initial_gram_deviation,
    perturbation_bounds,
    theory_widths,
)
from unlazy.bounds.population import population_loss, sample_size, uniform_convergence
from unlazy.bounds.population_trained import TrainedBound, population_loss_trained
from unlazy.bounds.rademacher import (
    RademacherEstimate,
    rademacher_linear,
    rademacher_linear_bound,
    rademacher_probable,
)
from unlazy.bounds.rademacher_ascent import rademacher_ascent
from unlazy.bounds.rademacher_network import rademacher_counted, rademacher_sharp
from unlazy.bounds.series import ntk_series_coefficients

__all__ = [
    "Arctan",
    "Constant",
    "Cosine",
    "DegreeSpectrum",
    "LazyCertificate",
    "LearnableBound",
    "LearnableChain",
    "LeaveOneOut",
    "PerturbationBounds",
    "Power",
    "Powers",
    "QuadraticForm",
    "RademacherEstimate",
    "TargetFunction",
    "TheoryWidths",
    "TrainedBound",
    "absolute_loss",
    "clipped_absolute_loss",
    "degree_spectrum",
    "flipped_fraction",
    "initial_gram_deviation",
    "label_complexity",
    "label_energy",
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
    "rademacher_ascent",
    "rademacher_counted",
    "rademacher_linear",
    "rademacher_linear_bound",
    "rademacher_probable",
    "rademacher_sharp",
    "ramp_loss",
    "sample_size",
    "theory_widths",
    "uniform_convergence",
    "zero_one_loss",
]
