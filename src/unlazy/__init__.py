# SPDX-License-Identifier: Apache-2.0
"""Measure how lazily a neural network trains, and train it beyond."""

from unlazy.core.lazily import public_names

__version__ = "0.1.0"

# The names of `__init__.pyi`; imported when first used, so that `unlazy --help` waits for no JAX.
__getattr__, __dir__, __all__ = public_names(__name__)
