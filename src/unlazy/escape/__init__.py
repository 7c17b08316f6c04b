# SPDX-License-Identifier: Apache-2.0
"""Leaving the lazy regime: random signs, matched moments, good directions, penalties."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
