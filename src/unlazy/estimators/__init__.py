# SPDX-License-Identifier: Apache-2.0
"""Estimators for scikit-learn: regression with kernels of wide networks, and Taylor models."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
