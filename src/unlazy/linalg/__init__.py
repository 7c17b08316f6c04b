# SPDX-License-Identifier: Apache-2.0
"""Float64 factorisations and iterative solvers, whatever JAX's global precision is."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
