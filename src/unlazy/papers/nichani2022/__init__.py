# SPDX-License-Identifier: Apache-2.0
"""Nichani, Bai, Lee 2022, "Identifying good directions ..." (arXiv:2206.03688)."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
