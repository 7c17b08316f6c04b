# SPDX-License-Identifier: Apache-2.0
"""Times taken in turn, so that noise on the machine falls on all of them alike."""

import os
import platform
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def interleaved(calls: dict[str, Callable[[], Any]], rounds: int = 9) -> dict[str, float]:
    """Median seconds of each call, one of each a round, after a first call that compiles."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        jax.block_until_ready(call())
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def first_call(call: Callable[[], Any]) -> float:
    """Seconds of a call that has to compile first."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def describe_machine() -> str:
    device = jax.devices()[0]
    return (
        f"jax {jax.__version__}, python {platform.python_version()}, "
        f"{device.platform} {device.device_kind}, {os.cpu_count()} cores"
    )
