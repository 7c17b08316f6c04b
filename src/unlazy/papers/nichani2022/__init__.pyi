from unlazy.escape.good_directions.covariance import SphereCovariance as SphereCovariance
from unlazy.escape.good_directions.covariance import sphere_covariance as sphere_covariance
from unlazy.escape.good_directions.linear_term import LinearTerm as LinearTerm
from unlazy.escape.good_directions.spectra import limit_eigenvalues as limit_eigenvalues
from unlazy.escape.good_directions.spectra import spectral_blocks as spectral_blocks
from unlazy.escape.good_directions.spectra import spectral_gap as spectral_gap
from unlazy.escape.good_directions.twins import twin_coordinates as twin_coordinates
from unlazy.papers.nichani2022.assumptions import loss_assumption as loss_assumption
from unlazy.papers.nichani2022.assumptions import target_assumption as target_assumption
from unlazy.papers.nichani2022.conditions import GoodDirectionsConstants as GoodDirectionsConstants
from unlazy.papers.nichani2022.conditions import good_directions_theory as good_directions_theory
from unlazy.papers.nichani2022.expansion_training import ExpansionSetting as ExpansionSetting
from unlazy.papers.nichani2022.expansion_training import TrialData as TrialData
from unlazy.papers.nichani2022.expansion_training import fit_expansion as fit_expansion
from unlazy.papers.nichani2022.generalization import (
    generalization_diagnostic as generalization_diagnostic,
)
from unlazy.papers.nichani2022.good_solutions import good_solution as good_solution
from unlazy.papers.nichani2022.high_part_signs import signed_high_part as signed_high_part
from unlazy.papers.nichani2022.landscape import certify_good as certify_good
from unlazy.papers.nichani2022.landscape import good_landscape as good_landscape
from unlazy.papers.nichani2022.low_parts import affine_part as affine_part
from unlazy.papers.nichani2022.low_parts import low_part as low_part
from unlazy.papers.nichani2022.regularized_risk import RegularizedRisk as RegularizedRisk
from unlazy.papers.nichani2022.regularized_risk import theory_strengths as theory_strengths
from unlazy.papers.nichani2022.smoothness import risk_smoothness as risk_smoothness
from unlazy.papers.nichani2022.sparse_parts import sparse_part as sparse_part
