# SPDX-License-Identifier: Apache-2.0
"""Compilation of programs that several threads may ask for at the same time."""

import hashlib
import threading
from typing import Any

import jax

# For programs of little work: to try out kernels for their products took 2 to 9 s on a GPU, all to
# itself, where whole trainings of small networks take less.
_UNTUNED = {"gpu": {"xla_gpu_enable_triton_gemm": False}}

# JAX finds what it has compiled, but not what another thread is just compiling. Threads with equal
# programs take turns, and so, rarely, do threads with others; what is found is up to JAX.
_TURNS = tuple(threading.Lock() for _ in range(64))


def compiled(program: jax.stages.Lowered, *, tuned: bool) -> Any:
    """The compiled program; one that is not `tuned` compiles sooner, to what may run longer."""
    digest = hashlib.sha256(program.as_text().encode()).digest()
    with _TURNS[digest[0] % len(_TURNS)]:
        return _compiled(program, None if tuned else _UNTUNED.get(jax.default_backend()))


def _compiled(program: jax.stages.Lowered, options: dict[str, Any] | None) -> Any:
    try:
        return program.compile(compiler_options=options)
    except jax.errors.JaxRuntimeError as error:
        if options is None or "No such compile option" not in str(error):
            raise
        return program.compile()  # another version of XLA has another name for it
