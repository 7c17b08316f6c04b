from unlazy.activations.base import Activation as Activation
from unlazy.activations.base import activation as activation
from unlazy.activations.base import polynomial as polynomial
