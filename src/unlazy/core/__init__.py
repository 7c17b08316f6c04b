# SPDX-License-Identifier: Apache-2.0
"""What every room leans on: errors, argument checks, float64, which parameters are trained."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
