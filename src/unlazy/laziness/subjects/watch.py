# SPDX-License-Identifier: Apache-2.0
"""A model that is watched while it trains: what a probe asks of it, whatever library it is from.

A watch keeps the start of the training and what was measured there, so that a look at another point
costs little. It looks at the same rows each time, and compiles once.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float64


class Sight(NamedTuple):
    """A model as a watch sees it at one point of its training."""

    kernels: dict[str, Float[np.ndarray, "n n"]]  # by layer, as `Subject.layer_kernels` has them
    outputs: Float64[np.ndarray, "n c"]
    terms: Float64[np.ndarray, "orders n c"]  # of the expansion at the start, towards this point
    flipped: dict[str, float]  # per ReLU, the share of units that are not as at the start
    units: dict[str, int]  # of each ReLU, over all rows


class Squares(NamedTuple):
    """The sum of squares of a parameter's change, and of the parameter at the start."""

    change: float
    start: float


@runtime_checkable
class Watch(Protocol):
    """What a probe asks of a model; `params` are in the model's own form throughout."""

    def squares(self, params: Any) -> dict[str, Squares]:
        """Per trained parameter how far it is from the start; nan where it is not finite.

        Raises:
            ValueError: the parameters are not in the structure of the start; a path is named.
        """
        ...

    def see(self, params: Any) -> Sight:
        """Look at the model at these parameters, which are finite."""
        ...
