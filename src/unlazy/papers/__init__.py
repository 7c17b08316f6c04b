# SPDX-License-Identifier: Apache-2.0
"""One room per paper: its theorems as functions, its constructions, and its figures.

`names()` lists the figures and `get(name)` returns one as an experiment. What several papers need
is in `shared`.
"""

from unlazy.core.lazily import public_names

__getattr__, __dir__, __all__ = public_names(__name__)  # the names of `__init__.pyi`
