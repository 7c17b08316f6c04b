# SPDX-License-Identifier: Apache-2.0
"""What several papers need: expansions, sign patterns, Rademacher tools, power series."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
