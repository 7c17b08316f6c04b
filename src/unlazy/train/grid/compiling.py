# SPDX-License-Identifier: Apache-2.0
"""Compiles each program once, whoever asks for it first.

JAX keeps what it compiles too, but not programs with options of their own, and not for a thread
that asks while another is still compiling: cells that run side by side have the same shapes.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import Future
from typing import Any

import jax

_MOST = 64  # programs kept

# For programs of little work: to try out kernels for their products took 2 to 9 s on a GPU, all to
# itself, where whole trainings of small networks take less.
_UNTUNED = {"gpu": {"xla_gpu_enable_triton_gemm": False}}


class Compiler:
    """Compiles programs and keeps the latest ones."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._programs: OrderedDict[Hashable, Future] = OrderedDict()

    def __call__(self, lowered: jax.stages.Lowered, *, tuned: bool = True) -> Any:
        """The compiled program; not `tuned` compiles sooner to what may run longer."""
        # Arguments that it does not use are not in its text.
        inputs = (lowered.in_tree, *jax.tree.leaves(lowered.in_avals))
        key = (lowered.as_text(), inputs, lowered.out_tree, tuned)
        mine: Future = Future()
        with self._lock:
            found = self._programs.setdefault(key, mine)
            while len(self._programs) > self._most:
                self._programs.popitem(last=False)
        if found is mine:
            try:
                mine.set_result(_compiled(lowered, None if tuned else _untuned()))
            except BaseException as error:
                mine.set_exception(error)
                with self._lock:
                    self._programs.pop(key, None)  # the next one tries again
        return found.result()


def _untuned() -> dict[str, Any] | None:
    return _UNTUNED.get(jax.default_backend())


def _compiled(program: jax.stages.Lowered, options: dict[str, Any] | None) -> Any:
    try:
        return program.compile(compiler_options=options)
    except jax.errors.JaxRuntimeError as error:
        if options is None or "No such compile option" not in str(error):
            raise
        return program.compile()  # another version of XLA has another name for it
