# SPDX-License-Identifier: Apache-2.0
"""How many samples and outputs a report can afford within its time and memory."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from unlazy.core.machine import cores, default_memory
from unlazy.core.summaries import counted
from unlazy.laziness.subjects.subject import Subject

MOST_ROWS = 500  # of a kernel
MOST_PASSES = 2000  # rows that go through the model for Taylor terms and ReLUs
LEAST_ROWS = 32
_GRADIENT = 4.0  # forward passes that a gradient takes, with what is kept of it
_PER_CORE, _ON_ACCELERATOR = 1.5e10, 2e13  # operations per second
_ON_HOST = 2**31  # bytes for gradients on a machine without an accelerator


class Sample(NamedTuple):
    """What a report measures on."""

    rows: Int[np.ndarray, " m"]  # of the kernels
    passes: Int[np.ndarray, " q"]  # of all else, those of the kernels first
    directions: Float[np.ndarray, "c k"]  # of the outputs, in the kernels
    n: int

    def kernels_in_words(self) -> str:
        """The data of the kernels."""
        c, k = self.directions.shape
        outputs = "" if k == c else f", {counted(k, 'random direction')} of the {c} outputs"
        return f"{some_of(len(self.rows), self.n)}{outputs}"

    def passes_in_words(self) -> str:
        """The data of all else."""
        return some_of(len(self.passes), self.n)


def some_of(count: int, n: int) -> str:
    """How many of n rows, in words."""
    return f"all {counted(n, 'row')}" if count == n else f"{count:,} of {counted(n, 'row')}"


class Budget(NamedTuple):
    """The most that a report may take."""

    seconds: float
    memory: float

    @classmethod
    def of(cls, seconds: int | float, memory: int | float | None) -> "Budget":
        """The budget, with memory by default from what there is."""
        if memory is None:
            there = default_memory()
            memory = min(_ON_HOST, there) if jax.default_backend() == "cpu" else there
        return cls(float(seconds), float(memory))


def sampled(
    subject: Subject,
    params: Any,
    x: Any,
    budget: Budget,
    *,
    kernels: int,
    tests: int,
    order: int,
    seed: int,
) -> Sample:
    """Choose rows and outputs so that the report stays within its budget.

    Two thirds of the time are for the kernels, the rest for passes through the model. First fewer
    outputs are taken, then fewer rows. Directions of outputs are random and orthogonal, of such
    length that the kernel summed over them has the right mean.

    Args:
        subject: the model.
        params: at the start.
        x: the samples to choose from.
        budget: the most that the report may take.
        kernels: how many are computed.
        tests: test samples, of which as many as the chosen rows join them in the kernels.
        order: of the last Taylor term.
        seed: of the choice.
    """
    n, c = len(x), subject.outputs(params, x[:2]).shape[1]
    each = subject.operations(params, x)
    size = sum(value.size for value in subject.weights(params).values())
    rows, k, most = min(n, MOST_ROWS), c, budget.seconds * _speed()
    while (
        _kernel_operations(each, rows + min(rows, tests), k, size, budget) * kernels > most * 2 / 3
    ):
        if k > 1:
            k = k // 2
        elif rows > LEAST_ROWS:
            rows = max(rows * 2 // 3, LEAST_ROWS)
        else:
            break
    passes = each * (4 + (order + 1) * (order + 2))  # series, and the ReLUs at both ends
    passes = int(min(n, MOST_PASSES, max(rows, most / 3 / passes)))
    rng = np.random.default_rng(seed)
    order_of_rows = np.arange(n) if n == rows else rng.permutation(n)
    chosen, more = np.sort(order_of_rows[:rows]), np.sort(order_of_rows[rows:passes])
    return Sample(chosen, np.concatenate([chosen, more]), random_directions(c, k, rng), n)


def random_directions(c: int, k: int, rng: np.random.Generator) -> Float[np.ndarray, "c k"]:
    """Orthogonal directions of c outputs, whose kernel has that of all outputs as its mean."""
    if k == c:
        return np.eye(c)
    Q, _ = np.linalg.qr(rng.standard_normal((c, k)))
    return Q * np.sqrt(c / k)


def _speed() -> float:
    """Operations per second that the machine makes, roughly.

    They are counted and not timed, so that a report comes out the same each time it is made. Large
    matrix products reach this. Gradients of single rows through small convolutions do not: in
    PyTorch on a processor a thirtieth of it has been seen, by profile.
    """
    return _PER_CORE * cores() if jax.default_backend() == "cpu" else _ON_ACCELERATOR


def _kernel_operations(each: float, rows: int, k: int, size: int, budget: Budget) -> float:
    """Operations of one kernel: gradients, again for each pair of blocks that fit, and products."""
    block = max(1.0, budget.memory / (16.0 * size * k))
    blocks = max(1.0, rows / block)
    return each * _GRADIENT * k * rows * (blocks + 1) / 2 + rows**2 * k * size
