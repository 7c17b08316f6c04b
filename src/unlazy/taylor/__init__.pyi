from unlazy.taylor.expansion import TaylorModel as TaylorModel
from unlazy.taylor.expansion import expand as expand
from unlazy.taylor.expansion import linearize as linearize
from unlazy.taylor.expansion import terms as terms
from unlazy.taylor.failures import NoTaylorTermError as NoTaylorTermError
from unlazy.taylor.failures import UnsupportedOperationError as UnsupportedOperationError
