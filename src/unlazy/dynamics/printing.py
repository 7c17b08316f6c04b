# SPDX-License-Identifier: Apache-2.0
"""The printed form of dynamics: what was trained, and how."""

from typing import Any

import equinox as eqx

from unlazy.core.summaries import counted


class Dynamics(eqx.Module):
    """What prints in a few lines, however many eigenvectors its subclass holds."""

    def __repr__(self: Any) -> str:
        """In a few lines: samples and outputs, the spectrum, the settings of descent."""
        outputs = counted(self.tail[0] if self.tail else 1, "output")
        coupled = "" if self.layout.outputs is None else ", which the kernel couples"
        values = self.eigenvalues
        options = {"momentum": self.momentum, "ridge": self.ridge, "error": self.error}
        settings = [f"learning rate {self.learning_rate:.4g}"]
        settings += [f"{name} {value:.4g}" for name, value in options.items() if value]
        settings += [] if self.start is None else ["from initial outputs"]
        lines = [
            f"{counted(self.layout.n, 'sample')}, {outputs}{coupled}",
            f"{counted(len(values), 'eigenvalue')} from {values[0]:.4g} to {values[-1]:.4g}",
            ", ".join(settings),
        ]
        return f"{type(self).__name__}(" + "\n  ".join(lines) + ")"
