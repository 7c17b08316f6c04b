# SPDX-License-Identifier: Apache-2.0
"""Inequalities that a theorem asks for, and which of them a setting fails."""

from dataclasses import fields

import equinox as eqx


class Condition(eqx.Module):
    """One inequality of a theorem, `value <= most`, of two positive numbers."""

    text: str
    value: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether it is met; up to rounding, so that a value put on the boundary counts."""
        return self.value <= self.most * (1 + 1e-12)

    @property
    def excess(self) -> float:
        """By what factor the value exceeds what is allowed; at most 1 where the condition holds."""
        return self.value / self.most


class Prescription(eqx.Module):
    """What a theorem prescribes, as numbers, and its conditions; `print` shows them as a table."""

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
        names = [field.name for field in fields(self) if field.name != "conditions"]
        numbers = ", ".join(f"{name} {getattr(self, name):.3g}" for name in names)
        wide = max(len(condition.text) for condition in self.conditions)
        rows = [
            f"  {c.text:{wide}}  {c.value:10.3g} <= {c.most:<10.3g} "
            + ("holds" if c.holds else f"fails by {c.excess:.3g}")
            for c in self.conditions
        ]
        return "\n".join([numbers, *rows])
