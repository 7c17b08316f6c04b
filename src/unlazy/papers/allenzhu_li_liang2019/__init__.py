# SPDX-License-Identifier: Apache-2.0
"""Allen-Zhu, Li, Liang 2019, "Learning and generalization ..." (arXiv:1811.04918)."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
