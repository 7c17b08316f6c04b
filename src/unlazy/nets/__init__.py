# SPDX-License-Identifier: Apache-2.0
"""The learners of the papers: functions `f(params, x)` with an `init`."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
