# SPDX-License-Identifier: Apache-2.0
"""The conditions of theorems: inequalities, failure probabilities, accuracies."""

from dataclasses import fields

import equinox as eqx
import numpy as np


class Condition(eqx.Module):
    """One inequality of a theorem, `value <= most`, of two positive numbers."""

    text: str
    value: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether it is met, up to rounding: a value put on the boundary counts."""
        return self.value <= self.most * (1 + 1e-12)

    @property
    def excess(self) -> float:
        """The value over what is allowed; at most 1 where the condition holds."""
        return self.value / self.most


class Prescription(eqx.Module):
    """The numbers that a theorem prescribes and its conditions; `print` shows them as a table."""

    conditions: eqx.AbstractVar[tuple[Condition, ...]]

    @property
    def failed(self) -> tuple[Condition, ...]:
        """The conditions that do not hold, the worst first."""
        missed = (condition for condition in self.conditions if not condition.holds)
        return tuple(sorted(missed, key=lambda condition: -condition.excess))

    @property
    def valid(self) -> bool:
        """Whether all conditions hold."""
        return not self.failed

    def __str__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        single = {name: v for name, v in values.items() if isinstance(v, int | float)}
        numbers = ", ".join(f"{name} {value:.3g}" for name, value in single.items())
        wide = max(len(condition.text) for condition in self.conditions)
        rows = [
            f"  {c.text:{wide}}  {c.value:10.3g} <= {c.most:<10.3g} "
            + ("holds" if c.holds else f"fails by {c.excess:.3g}")
            for c in self.conditions
        ]
        return "\n".join([numbers, *rows])


def check_delta(delta: float, name: str = "delta") -> None:
    """Raise unless `delta` is a probability strictly between 0 and 1."""
    if not 0 < delta < 1:
        raise ValueError(
            f"`{name}` must be a failure probability in (0, 1), got {name}={delta}. "
            "Use 0.05 for a statement that holds with probability 95%."
        )


def check_epsilon(epsilon: float | np.number, name: str = "epsilon") -> None:
    """Raise unless `epsilon` is in (0, 1)."""
    if not (isinstance(epsilon, int | float | np.number) and 0 < epsilon < 1):
        raise ValueError(f"`{name}` must be in (0, 1), got {name}={epsilon!r}.")
