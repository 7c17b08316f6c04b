from unlazy.dynamics.ensembles import ensemble as ensemble
from unlazy.dynamics.kernel_dynamics import KernelDynamics as KernelDynamics
