# SPDX-License-Identifier: Apache-2.0
"""Conjugate gradients as steps on the device, to watch, to stop and to resume between them."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.float64 import float64

DeviceMatmat = Callable[[Float64[Array, "n c"]], Float64[Array, "n c"]]
"""The product of a symmetric matrix with the columns of a block, on the device."""


class Iterate(NamedTuple):
    r"""What the next step needs, each column by itself.

    `energy` is $y^\top x$ for a start at 0, and a lower bound of $y^\top H^{-1} y$ that rises with
    every step: the sum of what each step has gained is less sensitive to rounding than $y^\top x$.
    """

    value: Float64[Array, "n c"]
    remainder: Float64[Array, "n c"]  # y - H value, by recursion
    direction: Float64[Array, "n c"]
    weight: Float64[Array, " c"]  # remainder . P^-1 remainder
    energy: Float64[Array, " c"]
    size: Float64[Array, " c"]  # norm of y
    steps: int

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as NumPy arrays."""
        return {name: np.asarray(value) for name, value in self._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Iterate":
        """What `arrays` gave."""
        with float64():
            values = {name: jnp.asarray(arrays[name]) for name in cls._fields if name != "steps"}
        return cls(**values, steps=int(arrays["steps"]))

    def residuals(self) -> Float64[np.ndarray, " c"]:
        """The norm of the remainder of each column, relative to its right-hand side."""
        with float64():
            norms, size = np.asarray(_norms(self.remainder)), np.asarray(self.size)
        return norms / np.where(size > 0, size, 1.0)

    def is_solved(self, tolerance: float) -> bool:
        """Whether the remainder of every column is at most so large."""
        return float(np.max(self.residuals())) <= tolerance


def first_iterate(y: Float[Array | np.ndarray, "n c"], precondition: DeviceMatmat) -> Iterate:
    """The start at 0."""
    with float64():
        y = jnp.asarray(y, jnp.float64)
        z = precondition(y)
        nothing = jnp.zeros(y.shape[1])
        size = _norms(y)
        return Iterate(jnp.zeros_like(y), y, z, jnp.sum(y * z, axis=0), nothing, size, 0)


def iterates(matmat: DeviceMatmat, precondition: DeviceMatmat, start: Iterate) -> Iterator[Iterate]:
    r"""The iterates after `start`, without end; each takes one product and one preconditioning.

    They differ from the textbook in the Polak-Ribiere form of the next direction, which tolerates
    products and preconditioners that rounding makes slightly unsymmetric. A column that is solved,
    or meets a direction of no positive curvature, stays as it is.
    """
    here = start
    while True:
        with float64():
            moved = _move(here, matmat(here.direction))
            turned = _turn(here, moved, precondition(moved.remainder))
        here = turned._replace(steps=here.steps + 1)  # a Python number, as no program gives it
        yield here


@jax.jit
def _norms(block: Float64[Array, "n c"]) -> Float64[Array, " c"]:
    return jnp.linalg.norm(block, axis=0)


@jax.jit
def _move(here: Iterate, image: Float64[Array, "n c"]) -> Iterate:
    curvature = jnp.sum(here.direction * image, axis=0)
    moving = (curvature > 0) & (here.weight > 0)
    length = jnp.where(moving, here.weight / jnp.where(moving, curvature, 1.0), 0.0)
    return here._replace(
        value=here.value + length[None] * here.direction,
        remainder=here.remainder - length[None] * image,
        energy=here.energy + length * here.weight,
    )


@jax.jit
def _turn(before: Iterate, here: Iterate, z: Float64[Array, "n c"]) -> Iterate:
    weight = jnp.sum(here.remainder * z, axis=0)
    gained = weight - jnp.sum(before.remainder * z, axis=0)
    safe = jnp.where(before.weight > 0, before.weight, 1.0)
    turn = jnp.maximum(jnp.where(before.weight > 0, gained / safe, 0.0), 0.0)
    return here._replace(direction=z + turn[None] * here.direction, weight=weight)
