# SPDX-License-Identifier: Apache-2.0
"""How lazily a model trains, and how hard a user's own labels are."""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
