# SPDX-License-Identifier: Apache-2.0
"""What a kernel predicts for training: closed forms, any loss, and ensembles of networks."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
