from unlazy.taylor.expansion import TaylorModel as TaylorModel
from unlazy.taylor.expansion import expand as expand
from unlazy.taylor.expansion import linearize as linearize
from unlazy.taylor.expansion import terms as terms
from unlazy.taylor.interpreter import UnsupportedOperationError as UnsupportedOperationError
from unlazy.taylor.movement import displacement as displacement
from unlazy.taylor.sides import NoTaylorTermError as NoTaylorTermError
