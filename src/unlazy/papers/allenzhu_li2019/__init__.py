# SPDX-License-Identifier: Apache-2.0
"""Allen-Zhu, Li 2019, "What can ResNet learn efficiently ..." (arXiv:1905.10337)."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
