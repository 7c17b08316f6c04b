# SPDX-License-Identifier: Apache-2.0
"""Measure how lazily a neural network trains, and train it beyond."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unlazy import (
        activations,
        bounds,
        construct,
        data,
        dynamics,
        errors,
        escape,
        experiments,
        kernels,
        landscape,
        linalg,
        losses,
        measure,
        nets,
        papers,
        special,
        taylor,
        train,
    )
    from unlazy.activations import Activation, activation, polynomial

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "activation",
    "activations",
    "bounds",
    "construct",
    "data",
    "dynamics",
    "errors",
    "escape",
    "experiments",
    "kernels",
    "landscape",
    "linalg",
    "losses",
    "measure",
    "nets",
    "papers",
    "polynomial",
    "special",
    "taylor",
    "train",
]

_FROM_ACTIVATIONS = ("Activation", "activation", "polynomial")


def __getattr__(name: str) -> Any:
    # Rooms are imported when they are first used, so that `unlazy --help` does not wait for JAX.
    if name not in __all__:
        raise AttributeError(f"module 'unlazy' has no attribute {name!r}")
    if name in _FROM_ACTIVATIONS:
        return getattr(importlib.import_module("unlazy.activations"), name)
    return importlib.import_module(f"unlazy.{name}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
