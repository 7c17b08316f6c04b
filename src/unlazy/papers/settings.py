# SPDX-License-Identifier: Apache-2.0
"""The settings of JAX that an experiment's numbers depend on."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def reproducible(*, x64: bool = False) -> Iterator[None]:
    """Whatever the user has set: the same cell, the same samples and starts, in float32 or float64.

    Left to the user is the precision of products, which on a GPU changes a training by its
    rounding, as tuning them does.
    """
    with (
        jax.enable_x64(x64),
        jax.default_prng_impl("threefry2x32"),
        jax.threefry_partitionable(True),
    ):
        yield
