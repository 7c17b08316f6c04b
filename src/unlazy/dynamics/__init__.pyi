from unlazy.dynamics.ensembles import ensemble as ensemble
from unlazy.dynamics.kernel_dynamics import KernelDynamics as KernelDynamics
from unlazy.dynamics.loss_dynamics import LossDynamics as LossDynamics
