from unlazy import activations as activations
from unlazy import certificates as certificates
from unlazy import core as core
from unlazy import curvature as curvature
from unlazy import data as data
from unlazy import dynamics as dynamics
from unlazy import escape as escape
from unlazy import estimators as estimators
from unlazy import experiments as experiments
from unlazy import kernels as kernels
from unlazy import labels as labels
from unlazy import laziness as laziness
from unlazy import linalg as linalg
from unlazy import losses as losses
from unlazy import nets as nets
from unlazy import papers as papers
from unlazy import special as special
from unlazy import taylor as taylor
from unlazy import train as train
from unlazy.activations import Activation as Activation
from unlazy.activations import activation as activation
from unlazy.activations import polynomial as polynomial
from unlazy.laziness.diagnosis import diagnose as diagnose
from unlazy.laziness.probe import Probe as Probe

__version__: str
