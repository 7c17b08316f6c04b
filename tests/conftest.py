# SPDX-License-Identifier: Apache-2.0
"""The strict set-up of every test: no silent promotion, x64 off as our users run it."""

import fcntl
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import jax
import jax.random as jr
import jaxtyping
import pytest

# XLA's emitters of fused loops take a third of the suite, which compiles thousands of programs and
# runs each once. Where XLA_FLAGS is set, as `make test-all` does, programs are compiled as users'
# are. Only for the version that CI pins: XLA aborts at a flag that it does not know.
_QUICK = "--xla_cpu_use_fusion_emitters=false"
_AS_USERS = os.environ.get("XLA_FLAGS", _QUICK) != _QUICK  # a worker inherits ours
if version("jaxlib").startswith("0.10."):
    os.environ.setdefault("XLA_FLAGS", _QUICK)

# A suite that was started in the background ignores Ctrl-C, and so would what it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Read once: tests of the data room unset the variable.
_SIBLING = Path(__file__).parents[2] / "shared" / "data"
_REAL_DATA = Path(os.environ.get("UNLAZY_DATA") or _SIBLING)


_SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text().splitlines())


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    """Mark what takes long, as measured; `slow_list.py` says how, and writes the list."""
    for item in items:
        if item.nodeid in _SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Collect garbage seldom: traces make millions of objects, of which few are in cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


_GIGABYTE = 2**30 // os.sysconf("SC_PAGE_SIZE")  # in pages
_bound = max(3 * _GIGABYTE, os.sysconf("SC_PHYS_PAGES") // 4)  # for each of two workers


@pytest.fixture(scope="module", autouse=True)
def bounded_memory():
    """Forget compiled programs when they have piled up: a worker holds thousands by the end.

    Programs of the arithmetic that all tests share must then be compiled again, so the bound is as
    high as the machine allows. The next one is a gigabyte above what is held then: forgotten
    programs leave room that new ones fill, and little of it goes back to the system. A fixed bound
    would be passed for good.
    """
    yield
    global _bound
    statistics = Path("/proc/self/statm")  # Linux alone has it
    if statistics.exists() and int(statistics.read_text().split()[1]) > _bound:
        jax.clear_caches()
        _bound = int(statistics.read_text().split()[1]) + _GIGABYTE


# Rooms whose tests compile far longer than they compute. What speed and the last bit are promised
# for (kernels, linear algebra) is tested as users run it.
_UNOPTIMIZED = (
    *("taylor", "escape", "curvature", "nets", "special", "labels", "certificates", "train"),
    *("dynamics", "papers", "contracts/test_kernel_pairs", "contracts/test_losses"),
    *("contracts/test_trained", "contracts/test_real_models"),
)
# A kernel of a user's network is compiled for each network: two thirds of the time of its tests.
_QUICKLY = (
    *("kernels/empirical", "core", "contracts", "data", "laziness"),
    *("kernels/test_large", "kernels/test_least_eigenvalues", "kernels/test_streaming"),
)
_UNOPTIMIZED_QUICKLY = () if _AS_USERS else _QUICKLY
_OPTIMIZED = ("laziness/width/test_flax_cnn",)  # trains CNNs, which are slow without


@pytest.fixture(scope="module", autouse=True)
def quick_compilation(request):
    """Compile without XLA's optimisations where that saves a third of the time of the tests."""
    try:
        room = request.path.relative_to(Path(__file__).parent).as_posix()
    except ValueError:  # a doctest
        room = request.path.as_posix().partition("src/unlazy/")[2]
    quick = room.startswith(_UNOPTIMIZED + _UNOPTIMIZED_QUICKLY)
    quick = quick and not room.startswith(_OPTIMIZED)
    jax.config.update("jax_disable_most_optimizations", quick)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def optimized():
    """Compile as users do, for what is promised to the last bit, in a room that does not."""
    quick = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", quick)


@pytest.fixture
def x64():
    """Run the test with x64 on, for identities that are checked to rounding."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def getkey():
    """A fresh, fixed key at each call."""
    counter = iter(range(10**6))
    return lambda: jr.fold_in(jr.key(20191), next(counter))


@pytest.fixture
def no_shape_checker():
    """Run the test as users run us: without the checker, our own messages speak."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def real_data(monkeypatch):
    """The folder of the real image sets; without one the test is skipped."""
    if not _REAL_DATA.is_dir():
        pytest.skip("the image sets are not on this machine")
    monkeypatch.setenv("UNLAZY_DATA", str(_REAL_DATA))
    return _REAL_DATA


@pytest.fixture
def compilations():
    """The names of the programs that XLA compiles, in order."""
    seen = []

    class Handler(logging.Handler):
        def emit(self, record):
            if "Finished XLA compilation of" in record.getMessage():
                seen.append(record.getMessage().split("jit(")[1].split(")")[0])

    logger, handler = logging.getLogger("jax"), Handler()
    logger.addHandler(handler)
    with jax.log_compiles(True):
        yield seen
    logger.removeHandler(handler)


def _mesh_checks(devices, *arguments):
    """Start `mesh_checks.py` in a process with so many virtual devices."""
    count = f"--xla_force_host_platform_device_count={devices}"
    flags = f"{'' if _AS_USERS else os.environ.get('XLA_FLAGS', '')} {count}"
    source = str(Path(__file__).parents[1] / "src")
    # Threads that wait for the others in a collective are taken from a pool of one per core: with
    # fewer cores than devices all may wait, and XLA gives up. The pool is as large as NPROC says.
    settings = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": source, "NPROC": "32"}
    # It compiles far longer than it computes.
    environment = os.environ | settings | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}
    words = [sys.executable, str(Path(__file__).parent / "mesh_checks.py"), *arguments]
    return subprocess.Popen(
        words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _reports(processes):
    """What each of them printed; all are ended when one fails, for the others would wait for it."""
    try:
        for process in processes:
            out, errors = process.communicate(timeout=240)
            assert process.returncode == 0, errors
            yield json.loads(out.splitlines()[-1])
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _once(tmp_path_factory, name, compute):
    """What `compute` returns, computed by one of the suite's processes for all of them."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # which all workers of a run share
    with (folder / f"{name}.json").open("a+") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        kept.seek(0)
        if not (text := kept.read()):
            text = json.dumps(compute())
            kept.write(text)
    return json.loads(text)


@pytest.fixture(scope="session")
def eight_devices(tmp_path_factory):
    """What `mesh_checks.py` finds on eight virtual devices of one process."""
    [report] = _once(tmp_path_factory, "eight_devices", lambda: list(_reports([_mesh_checks(8)])))
    return report


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory):
    """What two processes of two virtual devices find, each for itself."""

    def compute():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        return list(_reports([_mesh_checks(2, address, str(i)) for i in range(2)]))

    return _once(tmp_path_factory, "two_processes", compute)
