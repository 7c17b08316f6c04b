# SPDX-License-Identifier: Apache-2.0
"""The engine: cells, the store that keeps them, claims, figures and the runner."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
