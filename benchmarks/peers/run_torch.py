# SPDX-License-Identifier: Apache-2.0
"""PyTorch's recipe for the NTK: per-sample Jacobians by `vmap(jacrev)`, then their contraction.

Kinder than the recipe in one thing: the Jacobian (6.4 GB in the two-layer case) is kept in blocks
of rows, so that the blocks below the diagonal need not be contracted but are mirrored. The blocks
are held, not formed anew for each pair: forming them is a third to a half of the recipe's time.
"""

import itertools
import os

import numpy as np
import torch  # pyright: ignore[reportMissingImports]  # in an environment of its own
from torch.func import jacrev, vmap  # pyright: ignore[reportMissingImports]

from benchmarks.peers.grid_problem import comparable
from benchmarks.peers.measure import Call, Task, serve
from benchmarks.peers.torch_grid import train_grid

BLOCK = 250  # rows


def two_layer(params, x):
    """One input (d,) to one output (1,)."""
    d, m = params["W"].shape
    return torch.relu(x @ params["W"] / d**0.5) @ params["a"] / m**0.5


def contract(jac1, jac2):
    """Sum over the outputs and over all parameters."""
    parts = [
        torch.einsum("naf,maf->nm", jac1[name].flatten(2), jac2[name].flatten(2)) for name in jac1
    ]
    return torch.stack(parts).sum(0)


def prepare(task: Task) -> Call:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if task.case == "fit_grid":
        return _grid(task)
    params = {name: torch.from_numpy(value) for name, value in task.inputs.items()}
    x = params.pop("x")
    jacobian = vmap(jacrev(two_layer), (None, 0))

    def call() -> np.ndarray:
        jacobians = [jacobian(params, rows) for rows in x.split(BLOCK)]
        result = torch.empty(len(x), len(x), dtype=x.dtype)
        for i, j in itertools.combinations_with_replacement(range(len(jacobians)), 2):
            part = contract(jacobians[i], jacobians[j])
            rows, columns = (slice(k * BLOCK, (k + 1) * BLOCK) for k in (i, j))
            result[rows, columns] = part
            result[columns, rows] = part.T
        return result.numpy()

    return call


def _grid(task: Task) -> Call:
    if task.variant == "one_thread":  # the products are small: a second thread may cost more
        torch.set_num_threads(1)
    return lambda: comparable(train_grid(task.inputs))


if __name__ == "__main__":
    serve(prepare, {"torch": torch.__version__})
