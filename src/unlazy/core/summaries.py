# SPDX-License-Identifier: Apache-2.0
"""Parameters in a few words, for the printed form of results that hold a whole model."""

from typing import Any

import numpy as np


def parameters_in_words(params: Any) -> str:
    """How many parameters in how many arrays, such as "1,234 parameters in 4 arrays"."""
    import jax  # not above: a run counts its cells before JAX is told where to keep programs

    from unlazy.core.roles import Role, roles

    pairs = zip(jax.tree.leaves(params), jax.tree.leaves(roles(params)), strict=True)
    sizes = [int(np.size(leaf)) for leaf, role in pairs if role is Role.PARAMETER]
    return f"{counted(sum(sizes), 'parameter')} in {counted(len(sizes), 'array')}"


def name_of(function: Any) -> str:
    """The name of a function, also of one whose options are fixed."""
    inner = getattr(function, "func", None) or getattr(function, "kernel", None)
    own = getattr(function, "__name__", None)
    return own or (type(function).__name__ if inner is None else name_of(inner))


def counted(count: int, what: str) -> str:
    """The count with its noun, in the plural where there is not one of them."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
