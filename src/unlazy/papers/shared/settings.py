# SPDX-License-Identifier: Apache-2.0
"""The settings of JAX that an experiment's numbers depend on."""

import contextlib
from collections.abc import Iterator

import jax

from unlazy.core.float64 import float64
from unlazy.core.random_draws import bits_of_the_default_dtype


@contextlib.contextmanager
def reproducible(*, x64: bool = False) -> Iterator[None]:
    """Give a cell the same samples and starts whatever the user has set, in float32 or float64.

    Under x64 they are drawn from 64 bits per number, as the stored cells of these figures were.
    The precision of products is left to the user; on a GPU it changes a training by its rounding.
    """
    with contextlib.ExitStack() as settings:
        settings.enter_context(float64(x64))
        settings.enter_context(jax.default_prng_impl("threefry2x32"))
        settings.enter_context(bits_of_the_default_dtype())
        if hasattr(jax, "threefry_partitionable"):  # a setting only while there is another form
            settings.enter_context(jax.threefry_partitionable(True))
        yield
