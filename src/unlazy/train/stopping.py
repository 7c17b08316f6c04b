# SPDX-License-Identifier: Apache-2.0
"""Rules that end a training run early."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Bool, Float

from unlazy.core.entries import entry

# (loss at this step, loss at the first step) -> whether to stop; evaluated inside compiled code.
StopRule = Callable[[Float[Array, ""], Float[Array, ""]], Bool[Array, ""]]


@dataclass(frozen=True)
class LossBelow:
    """Stop at the first step whose loss is at most `value`."""

    value: float

    @entry
    def __call__(self, loss: Float[Array, ""], first: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether to stop."""
        del first
        return loss <= self.value


@dataclass(frozen=True)
class RelativeLossBelow:
    """Stop at the first step whose loss is at most `fraction` of the initial one."""

    fraction: float

    @entry
    def __call__(self, loss: Float[Array, ""], first: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether to stop."""
        return loss <= self.fraction * first
