# SPDX-License-Identifier: Apache-2.0
"""How programs are compiled: by several threads at a time, and without tuning that does not pay.

On a GPU XLA tunes every matrix product while it compiles, one program at a time. Tuning takes 1 to
2 s for a training, which then runs a quarter to a third faster, and 10 of the 15 s that the
programs of an empirical kernel took. With Triton's kernels off, and with those that the library of
products chooses itself, XLA tunes nothing.

Convolutions are the exception: the one that the library chooses itself may be fifty times slower
than its best. On one H200, the gradients of a CNN at 200 images took 1227 ms with nothing tuned,
39 ms with libraries tuned (0.4 s more of compilation) and as long with everything tuned (15 s
more).
"""

import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
from jax.extend.core import get_opaque_trace_state

from unlazy.core.checks import is_known
from unlazy.core.filtering import jit_filtered

P = ParamSpec("P")
T = TypeVar("T")

Wanted = dict[str, dict[str, Any]]
"""Options of the compiler per backend."""

_NO_TRITON = {"xla_gpu_enable_triton_gemm": False}
_UNTUNED = {"gpu": _NO_TRITON | {"xla_gpu_autotune_level": 0}}
_LIBRARIES = {"gpu": _NO_TRITON}  # they choose by trial among their own algorithms

# JAX finds what it has compiled, but not what another thread is compiling right now. Threads with
# equal programs wait for each other here; rarely, threads with different ones do, too.
_BY_PROGRAM = tuple(threading.Lock() for _ in range(64))


def compiled(program: jax.stages.Lowered, *, tuned: bool) -> Any:
    """The compiled program; without tuning (`tuned=False`) it compiles faster and runs slower."""
    with _BY_PROGRAM[hash(program.as_text()) % len(_BY_PROGRAM)]:
        return program.compile(compiler_options=None if tuned else _options(_UNTUNED))


def jit_untuned(function: Callable[P, T]) -> Callable[P, T]:
    """`jit_filtered` for a function that runs a few times: on a GPU it compiles without tuning.

    Inside another program, it is compiled as a part of that program.
    """
    return _jit(function, _UNTUNED, jit_filtered)


def jit_untuned_static(function: Callable[P, T]) -> Callable[P, T]:
    """`jit_untuned` by `jax.jit`, whose calls cost less, with the first argument static."""
    return _jit(function, _UNTUNED, functools.partial(jax.jit, static_argnums=0))


def jit_network(function: Callable[P, T]) -> Callable[P, T]:
    """`jit_untuned` for a function that evaluates a network: its convolutions are tuned."""
    return _jit(function, _LIBRARIES, jit_filtered)


def _jit(function: Callable[P, T], wanted: Wanted, jit: Callable[..., Any]) -> Callable[P, T]:
    within = jit(function)

    @functools.cache
    def alone(backend: str) -> Any:
        del backend  # the options depend on it
        return jit(function, compiler_options=_options(wanted))

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if _options(wanted) is None or _is_within(args, kwargs):
            return within(*args, **kwargs)
        return alone(jax.default_backend())(*args, **kwargs)

    return call


def _is_within(*arguments: Any) -> bool:
    """Whether a transformation is under way: JAX takes options only for outermost programs."""
    is_inner = get_opaque_trace_state(convention="nnx") != _outermost()
    return is_inner or not all(is_known(leaf) for leaf in jax.tree.leaves(arguments))


@functools.cache
def _outermost() -> Any:
    with jax.ensure_compile_time_eval():
        return get_opaque_trace_state(convention="nnx")


def _options(wanted: Wanted) -> dict[str, Any] | None:
    backend = jax.default_backend()
    options = wanted.get(backend, {}).items()
    return {name: value for name, value in options if _is_option(backend, name, value)} or None


@functools.cache
def _is_option(backend: str, name: str, value: Any) -> bool:
    """Whether this compiler has the option; its name depends on the version."""
    del backend
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options={name: value})
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return False
    return True
