# SPDX-License-Identifier: Apache-2.0
"""Bai, Lee 2020, "Beyond linearization ..." (arXiv:1910.01619)."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
