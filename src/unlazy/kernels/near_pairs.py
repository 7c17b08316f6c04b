# SPDX-License-Identifier: Apache-2.0
"""Nearly parallel rows inside of compiled programs: a loop repairs their entries, if there are any.

By default kernels of the angle leave such entries as they are under a transformation of JAX, for no
loop of unknown length has a gradient.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

_PIECE = 1024  # pairs repaired at a time

_ON: contextvars.ContextVar[bool] = contextvars.ContextVar("repairing", default=False)


def is_repairing() -> bool:
    """Whether programs that are traced here repair the entries of nearly parallel rows."""
    return _ON.get()


@contextlib.contextmanager
def repairing() -> Iterator[None]:
    """Repair the entries of nearly parallel rows in programs that are traced inside the scope."""
    token = _ON.set(True)
    try:
        yield
    finally:
        _ON.reset(token)


def repaired(
    H: Float[Array, "n1 n2"],
    near: Bool[Array, "n1 n2"],
    entries: Callable[[Array, Array], Float[Array, " p"]],
) -> Float[Array, "n1 n2"]:
    """`H` with `entries(i, j)` where `near` says so, for few such places at little cost."""

    def piece(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        H, near = carry
        # Past the last of them the index is out of range, and nothing is stored there.
        i, j = jnp.nonzero(near, size=min(_PIECE, near.size), fill_value=max(near.shape))
        H = H.at[i, j].set(entries(i, j), mode="drop")
        return H, near.at[i, j].set(False, mode="drop")

    return jax.lax.while_loop(lambda carry: jnp.any(carry[1]), piece, (H, near))[0]
