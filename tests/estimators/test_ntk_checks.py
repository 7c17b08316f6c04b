# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's own checks, in full."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from unlazy.estimators import NTKClassifier, NTKRegressor

# One layer: the checks are of the interface. Support vectors are found to rounding, since one check
# compares weighted samples with repeated ones to seven digits.
ESTIMATORS = [
    NTKRegressor(depth=1),
    NTKClassifier(depth=1),
    NTKRegressor(depth=1, method="svm", tol=1e-12),
    NTKClassifier(depth=1, method="svm", tol=1e-12),
]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("default")
def test_check_estimator(estimator, check):
    check(estimator)
