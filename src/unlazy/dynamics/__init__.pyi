from unlazy.dynamics.kernel_dynamics import KernelDynamics as KernelDynamics
