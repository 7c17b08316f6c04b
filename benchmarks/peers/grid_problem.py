# SPDX-License-Identifier: Apache-2.0
"""The grid of training runs that is measured: its sizes, and its answer made comparable.

Three-layer ResNet in bottleneck form, squared error, learning rates by weight decays of the
experiments. Uses nothing but numpy: every entrant's environment has it.
"""

import math

import numpy as np

M, D, K = 100, 16, 8
N, BATCH, EPOCHS, DROP = 400, 50, 200, 100
MOMENTUM = 0.9
RATES = [*(a * 10.0**-q for q in (4, 3, 2) for a in (1, 2, 5)), 0.1, 0.2, 0.5]
DECAYS = [0.0, *(a * 10.0**-q for q in (5, 4, 3, 2) for a in (1, 2, 5))]
LANES = [(lr, wd) for lr in RATES for wd in DECAYS]
CAP = 1.0  # a loss above it is no loss to compare: the lane diverges or is about to


def arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The start, and labels from a residual target: linear terms and products of two of them."""
    shapes = {"W": (M, D), "b1": (M,), "A": (K, M), "V": (M, K), "b2": (M,)}
    drawn = {name: rng.standard_normal(shape) / math.sqrt(M) for name, shape in shapes.items()}
    x = rng.choice([-1.0, 1.0], (N, D)) / math.sqrt(D)
    linear = x[:, :K] * math.sqrt(D)
    drawn |= {"x": x, "y": 0.3 * linear + 0.1 * linear * np.roll(linear, 1, axis=1)}
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def comparable(losses: np.ndarray) -> np.ndarray:
    """The final losses, those of diverged lanes at the cap."""
    losses = np.asarray(losses, np.float64)
    return np.minimum(np.where(np.isfinite(losses), losses, CAP), CAP)
