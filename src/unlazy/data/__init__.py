# SPDX-License-Identifier: Apache-2.0
"""Inputs and labels: spheres, cubes, image sets, tables, label corruption."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
