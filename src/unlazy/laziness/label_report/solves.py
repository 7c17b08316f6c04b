# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of labels: their energy, that of shuffled ones, left-out predictions.

Up to `LARGEST_EIGEN` rows one eigendecomposition gives everything. Beyond, its 9 n^3 operations
are replaced by a factorisation in float32 of the kernel with a ridge, and one in float64 without,
in place of which a large kernel has iterations that the first one preconditions.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from unlazy.core.float64 import float64
from unlazy.core.machine import available_memory
from unlazy.dynamics import KernelDynamics
from unlazy.dynamics.krylov_spaces import watched_curves
from unlazy.kernels import operator, relu_gram, ridge_path
from unlazy.labels import leave_one_out_path
from unlazy.laziness.label_report.stages import Stages
from unlazy.linalg import Eigen
from unlazy.linalg.cholesky_factors import HostCholesky, cholesky_in_place
from unlazy.linalg.iterative import Progress, conjugate_gradients
from unlazy.linalg.lanczos import krylov_quadrature, top_eigen

LARGEST_EIGEN = 2000
_RIDGE_ROWS = 1000  # of a larger kernel, from which the ridge is chosen
RIDGES = np.geomspace(1e-3, 10.0, 17)  # in units of the diagonal; float32 resolves the least
_ORDERS = 200  # random orders of the labels, to tell a low energy from a lucky one
_PROBES = 8  # random sign vectors for the trace of the inverse: off by 0.1% at 7000 rows
_LEADING = 50  # eigenvalues that are shown of a large kernel
_TOLERANCE = 1e-4  # of solves; the error of an energy is about its square
_MOST_ITERATIONS = 25  # more take as long as a factorisation in float64
_LARGEST_EXACT = 6000  # rows up to which that factorisation takes a few seconds
_BYTES = 13  # per entry of the kernel: in float64, its factor in float32, and panels
# How long each stage takes at 20000 rows, in per cent.
_WEIGHTS = {"kernel": 10.0, "spectrum": 10.0, "factor": 35.0, "rows": 30.0, "solve": 15.0}


class Answers(NamedTuple):
    """What was computed from the kernel of the distinct rows and their labels."""

    energy: float  # y^T H^-1 y
    shuffled_energy: float  # its mean over all orders of the labels
    shuffled_error: float  # standard error of that, relative; zero if exact
    ridge: float  # that predicts left-out rows best
    surprises: Float64[np.ndarray, "n c"]  # label minus what the other rows predict, at the ridge
    costs: Float64[np.ndarray, " n"]  # what each row adds to y^T (H + ridge)^-1 y
    eigenvalues: Float64[np.ndarray, " k"]  # the largest, or all
    energies: Float64[np.ndarray, " k"]  # share of the labels on each eigenvector
    steps: tuple[int | float, int | float]  # of descent to 10% and to 1% of the loss
    converged: bool  # whether the energy is exact to rounding, not a lower bound
    chance: float  # share of random orders of the labels whose energy is no larger; nan if unknown


def solve_for_labels(
    x: Float64[np.ndarray, "n k"],
    y: Float64[np.ndarray, "n c"],
    progress: Progress | None = None,
    *,
    largest_eigen: int = LARGEST_EIGEN,
) -> Answers:
    """The answers for centred labels on distinct rows of unit norm."""
    stages = Stages(progress, _WEIGHTS)
    _check_memory(len(x), largest_eigen)
    tiles = operator(relu_gram, x, memory=1e15).tiles  # the budget was checked
    H = np.asarray(tiles.assemble(progress=stages.stage("kernel")))
    if len(x) <= largest_eigen:
        return _by_eigen(H, y, stages)
    return _by_factor(H, y, stages)


def _check_memory(n: int, largest_eigen: int) -> None:
    needed, available = _BYTES * n**2, available_memory()
    if n > largest_eigen and needed > available:
        most = int((available / _BYTES) ** 0.5) // 1000 * 1000
        raise ValueError(
            f"`x` must have rows for whose kernel there is memory, got {n} distinct rows, which "
            f"take {needed / 2**30:.1f} GiB of {available / 2**30:.1f}. Use most_rows={most}."
        )


def _by_eigen(H: Float64[np.ndarray, "n n"], y: np.ndarray, stages: Stages) -> Answers:
    size = float(np.mean(np.diagonal(H)))
    path = ridge_path(H, y, RIDGES * size)
    best = int(np.argmin(path.leave_one_out()))
    stages.stage("factor")(1, 1)
    values, U = path.eigenvalues, path.vectors
    values = np.maximum(values, values[0] * len(values) * np.finfo(np.float64).eps)
    with float64():
        flow = KernelDynamics.from_eigen(Eigen(values, jnp.asarray(U)), y)
    along_ones = float((U.T @ np.ones(len(y))) ** 2 @ (1 / values))
    surprises = path.surprises()[best]
    stages.stage("solve")(1, 1)
    return Answers(
        energy=float(np.sum((U.T @ y) ** 2 / values[:, None])),
        shuffled_energy=_shuffled(y, float(np.sum(1 / values)), along_ones),
        shuffled_error=0.0,
        ridge=float(path.ridges[best]),
        surprises=surprises,
        costs=np.sum(path.coefficients[best] * surprises, axis=1),
        eigenvalues=values,
        energies=flow.energies,
        steps=(flow.steps_to(0.1), flow.steps_to(0.01)),
        converged=True,
        chance=_chance(values, U, y),
    )


def _chance(
    values: Float64[np.ndarray, " n"], U: Float64[np.ndarray, "n n"], y: Float64[np.ndarray, "n c"]
) -> float:
    """The share of random orders, the given one among them, whose energy is no larger than it."""
    rng = np.random.default_rng(0)
    orders = [np.arange(len(y)), *(rng.permutation(len(y)) for _ in range(_ORDERS - 1))]
    energies = [float(np.sum((U.T @ y[order]) ** 2 / values[:, None])) for order in orders]
    return float(np.mean(np.array(energies) <= energies[0] * (1 + 1e-9)))


def _shuffled(y: np.ndarray, trace: float, along_ones: float) -> float:
    r"""The mean energy of centred labels in random order.

    $\overline{y^2} (n \operatorname{tr} H^{-1} - 1^\top H^{-1} 1) / (n - 1)$, since two labels in
    random order have the mean product $-\overline{y^2} / (n - 1)$.
    """
    n = len(y)
    return float(np.mean(np.sum(y**2, axis=1))) * (n * trace - along_ones) / (n - 1)


def _by_factor(H: Float64[np.ndarray, "n n"], y: np.ndarray, stages: Stages) -> Answers:
    n, size = len(H), float(np.mean(np.diagonal(H)))
    rng = np.random.default_rng(0)
    eigenvalues, energies, steps = _spectrum(H, y, rng, stages.stage("spectrum"))
    some = np.sort(rng.permutation(n)[:_RIDGE_ROWS])
    ridge = leave_one_out_path(H[np.ix_(some, some)], y[some], RIDGES * size).ridge
    factor = _ridge_factor(H, ridge, stages.stage("factor"))
    alpha = factor.solve(y)
    diagonal = factor.inverse_diagonal(stages.stage("rows"))
    plain = _without_ridge(H, factor, y, rng, stages.stage("solve"))
    return Answers(
        energy=plain.energy,
        shuffled_energy=_shuffled(y, plain.trace, plain.along_ones),
        shuffled_error=plain.error,
        ridge=ridge,
        surprises=alpha / diagonal[:, None],
        costs=np.sum(alpha**2, axis=1) / diagonal,
        eigenvalues=eigenvalues,
        energies=energies,
        steps=steps,
        converged=plain.converged,
        chance=math.nan,
    )


def _ridge_factor(H: Float64[np.ndarray, "n n"], ridge: float, progress: Progress) -> HostCholesky:
    shifted = H.astype(np.float32)
    shifted[np.diag_indices_from(shifted)] += np.float32(ridge)
    factor = cholesky_in_place(shifted, progress=progress)
    # The ridge is a thousandth of the diagonal at least, far above the rounding of float32.
    assert isinstance(factor, HostCholesky)
    return factor


class _Plain(NamedTuple):
    """What is computed of the kernel without a ridge."""

    energy: float  # y^T H^-1 y
    along_ones: float  # 1^T H^-1 1
    trace: float  # of H^-1
    error: float  # relative standard error of the trace
    converged: bool


def _without_ridge(
    H: Float64[np.ndarray, "n n"], factor: HostCholesky, y: np.ndarray, rng, progress: Progress
) -> _Plain:
    """By a factorisation in float64, exactly; of many rows by iterations, where these are fast."""
    n = len(H)
    sides = np.column_stack([y, np.ones(n)])
    if n > _LARGEST_EXACT:
        sides = np.column_stack([sides, rng.choice([-1.0, 1.0], (n, _PROBES))])
        found = conjugate_gradients(
            lambda V: H @ V,
            sides,
            precondition=factor.solve,
            tolerance=_TOLERANCE,
            max_iterations=_MOST_ITERATIONS,
            progress=progress,
        )
        if found.converged:
            return _plain(found.value, sides, y.shape[1], converged=True)
    else:
        found = None
    exact = cholesky_in_place(H, progress=progress)  # nobody needs `H` after this
    if isinstance(exact, HostCholesky):
        trace = float(exact.inverse_diagonal().sum()) if found is None else None
        return _plain(exact.solve(sides), sides, y.shape[1], converged=True, trace=trace)
    # Rows so near to each other that float64 cannot tell them apart: a ridge of its rounding.
    solution = factor.solve(sides) if found is None else found.value
    trace = float(factor.inverse_diagonal().sum()) if found is None else None
    return _plain(solution, sides, y.shape[1], converged=False, trace=trace)


def _plain(
    solution: np.ndarray, sides: np.ndarray, c: int, *, converged: bool, trace: float | None = None
) -> _Plain:
    products = np.sum(solution * sides, axis=0)
    energy, along_ones = float(products[:c].sum()), float(products[c])
    if trace is not None:
        return _Plain(energy, along_ones, trace, 0.0, converged)
    traces = products[c + 1 :]
    error = float(traces.std(ddof=1) / np.sqrt(len(traces)) / traces.mean())
    return _Plain(energy, along_ones, float(traces.mean()), error, converged)


def _spectrum(H: Float64[np.ndarray, "n n"], y: np.ndarray, rng, progress: Progress):
    """The leading eigenvalues, the share of the labels on each, and the steps of descent."""
    n = len(H)
    progress(0, 2)
    leading = top_eigen(
        lambda V: H @ V, rng.standard_normal((n, _LEADING + 4)), _LEADING, tolerance=1e-3
    )
    progress(1, 2)
    rule = krylov_quadrature(
        lambda V: H @ V,
        y,
        watched_curves,
        companion=rng.standard_normal((n, 1)),
        tolerance=3e-3,
        max_basis=100 + 10 * y.shape[1],
    )
    # The projected problem has the same dynamics, on as many samples as there are nodes.
    nodes = np.maximum(rule.nodes, 0.0)
    with float64():
        axes = jnp.eye(len(nodes), dtype=jnp.float64)
    flow = KernelDynamics.from_eigen(Eigen(nodes, axes), rule.projections)
    energies = np.sum((np.asarray(leading.vectors).T @ y) ** 2, axis=1) / np.sum(y**2)
    progress(2, 2)
    return leading.values, energies, (flow.steps_to(0.1), flow.steps_to(0.01))
