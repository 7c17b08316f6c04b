from unlazy.curvature.certification import Certificate as Certificate
from unlazy.curvature.certification import certify as certify
from unlazy.curvature.hessian import ExtremeEigenvalues as ExtremeEigenvalues
from unlazy.curvature.hessian import extreme_eigenvalues as extreme_eigenvalues
from unlazy.curvature.hessian import hvp as hvp
from unlazy.curvature.kinks import Kink as Kink
