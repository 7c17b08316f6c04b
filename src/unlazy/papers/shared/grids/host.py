# SPDX-License-Identifier: Apache-2.0
"""A scope that computes on the processor."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Compute on the processor: an accelerator's compiler takes longer than small things do.

    Samples drawn there are the same whatever device the network is trained on, if JAX has both.
    """
    with contextlib.ExitStack() as stack:
        # Where JAX was told of accelerators alone there is no such device.
        with contextlib.suppress(RuntimeError):
            stack.enter_context(jax.default_device(jax.local_devices(backend="cpu")[0]))
        yield
