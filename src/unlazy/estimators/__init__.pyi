from unlazy.estimators.ntk_classifier import NTKClassifier as NTKClassifier
from unlazy.estimators.ntk_regressor import NTKRegressor as NTKRegressor
from unlazy.estimators.ntk_transformer import NTKTransformer as NTKTransformer
from unlazy.estimators.taylor_classifier import TaylorClassifier as TaylorClassifier
from unlazy.estimators.taylor_regressor import TaylorRegressor as TaylorRegressor
