from unlazy.estimators.ntk_classifier import NTKClassifier as NTKClassifier
from unlazy.estimators.ntk_regressor import NTKRegressor as NTKRegressor
