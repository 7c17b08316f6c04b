# SPDX-License-Identifier: Apache-2.0
"""Arora, Du, Hu, Li, Wang 2019, "Fine-grained analysis ..." (arXiv:1901.08584)."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
