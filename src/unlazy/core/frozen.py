# SPDX-License-Identifier: Apache-2.0
"""The frozen part of a model on its way through compiled programs.

Activation functions, names of axes and the numbers in a module are no values of a program: a
dropout rate that is traced cannot be compared with 0. They are compiled in, and compared by type
and value, or by identity where they have no hash.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np


@dataclass(frozen=True)
class Setting:
    """A leaf that is compiled in."""

    leaf: Any

    def _key(self) -> tuple:
        if isinstance(self.leaf, float):  # nan is itself, and -0.0 is not 0.0
            return float, self.leaf.hex()
        try:
            hash(self.leaf)
        except TypeError:
            return type(self.leaf), id(self.leaf)
        return type(self.leaf), self.leaf

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class Frozen(eqx.Module):
    """What `partition` freezes: its arrays are leaves, and all else is part of the structure."""

    arrays: Any
    structure: Any = eqx.field(static=True)
    settings: tuple[Setting, ...] = eqx.field(static=True)

    def __init__(self, frozen: Any) -> None:
        self.arrays, rest = eqx.partition(frozen, _is_array)
        leaves, self.structure = jax.tree.flatten(rest)
        self.settings = tuple(Setting(leaf) for leaf in leaves)

    def combined(self, trainable: Any) -> Any:
        """The whole model, with these trained parameters."""
        rest = jax.tree.unflatten(self.structure, [setting.leaf for setting in self.settings])
        return eqx.combine(trainable, self.arrays, rest)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray | np.generic)
