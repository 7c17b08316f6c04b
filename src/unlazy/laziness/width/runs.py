# SPDX-License-Identifier: Apache-2.0
"""One training run of the width check: what is asked for, and what was measured on the way."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from unlazy.core.checks import check_positive
from unlazy.core.trained import Trained
from unlazy.laziness.output_losses import OutputLoss

Rate = int | float | Callable[[int], int | float]
"""A learning rate, or a function of the width that gives one."""

DEFAULT_RATE = 0.1


class Run(NamedTuple):
    """What one training run did to the features; rows of the arrays are layers, outputs last."""

    layers: tuple[str, ...]
    units: tuple[int, ...]  # entries of each layer's features per sample
    missing: tuple[str, ...]  # weights whose features were not found
    loss: Float[np.ndarray, " times"]
    movement: Float[np.ndarray, "layers times"]  # root mean square of h_t - h_0
    start: Float[np.ndarray, " layers"]  # root mean square of h_0
    spread: Float[np.ndarray, "layers times"]  # mean absolute value of h_t


@dataclass(frozen=True)
class Recipe:
    """How every model is trained."""

    loss: OutputLoss
    learning_rate: Rate | None
    optimizer: Any
    steps: int
    trained: Trained
    centred: bool  # whether f - f_0 is trained

    def rate(self, width: int) -> float:
        """The learning rate at this width."""
        rate = DEFAULT_RATE if self.learning_rate is None else self.learning_rate
        found = rate(width) if callable(rate) else rate
        check_positive(found, "learning_rate")
        return float(found)


def rounded_away(
    movement: Float[np.ndarray, "layers times"], start: Float[np.ndarray, " layers"], eps: float
) -> Float[np.ndarray, "layers times"]:
    """The movement, 0 where it is rounding alone: the products differ by a few units in the end."""
    return np.where(movement > 10 * eps * start[:, None], movement, 0.0)


def is_torch_module(value: Any) -> bool:
    """Whether this is a PyTorch module, found without importing PyTorch."""
    classes = {f"{one.__module__}.{one.__qualname__}" for one in type(value).__mro__}
    return "torch.nn.modules.module.Module" in classes


def loaded_torch() -> Any:
    """PyTorch where something has imported it, else None."""
    return sys.modules.get("torch")
