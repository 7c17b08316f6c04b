# SPDX-License-Identifier: Apache-2.0
"""Bounds of the label energy on so many samples that no Gram matrix can be stored."""

import math
import warnings
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_count, check_positive
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.core.float64 import float64
from unlazy.core.panels import draw_range, panel
from unlazy.kernels.large import Expected, LargeKernelRegression, LargeSolver, checked_columns
from unlazy.kernels.least_eigenvalues import least_eigenvalue
from unlazy.kernels.tiles import Kernel
from unlazy.linalg.iterative import Progress
from unlazy.linalg.stepwise import Iterate, first_iterate

_SAFETY = 0.8  # of the tolerance, for the remainder that is computed again at the end
_RESIDUAL = 1e-3  # that progress expects


class EnergyBounds(eqx.Module):
    """Between what the label energy lies, summed over the columns of the labels."""

    lower: float
    upper: float
    samples: int
    smallest_eigenvalue: float  # the bound that `upper` follows from
    iterations: int

    @property
    def complexity(self) -> tuple[float, float]:
        r"""Bounds of $\sqrt{2\, y^\top H^{-1} y / n}$."""
        low, high = (math.sqrt(2 * value / self.samples) for value in (self.lower, self.upper))
        return low, high

    @entry
    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        r"""Draw between what the complexity $\sqrt{2\, y^\top H^{-1} y / n}$ lies.

        Several label sets may be drawn on the same `ax`, a bar each. Above 1, the dotted line, the
        complexity says nothing as a bound of the loss.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            label: what to write beside the bar.

        Example:
            >>> print(EnergyBounds(2.0, 8.0, 4, 0.1, 3).plot().get_lines()[0].get_xdata())
            [1. 2.]
        """
        with panel(ax, 4.8, 2.0) as ax:
            draw_range(ax, self.complexity, label or "these labels")
            ax.axvline(1, color="#888888", ls=":", lw=1)
            ax.set_xlabel("complexity, between its bounds")
        return ax


@entry
def energy_bounds(
    kernel: Kernel,
    x: Float[Array | np.ndarray, "n d"],
    y: Float[Array | np.ndarray, "n *c"],
    *,
    tolerance: float = 0.01,
    smallest_eigenvalue: int | float | None = None,
    landmarks: int | None = None,
    max_iterations: int = 200,
    checkpoint: Path | str | None = None,
    mesh: Mesh | None = None,
    progress: Progress | None = None,
) -> EnergyBounds:
    r"""Lower and upper bounds of the label energy, for millions of samples.

    For any $\alpha$ and its remainder $r = y - H \alpha$,

    $$y^\top H^{-1} y = \alpha^\top (y + r) + r^\top H^{-1} r, \qquad
    0 \le r^\top H^{-1} r \le \|r\|^2 / \lambda_{\min}(H).$$

    Conjugate gradients as in `kernels.LargeKernelRegression` make r small; the matrix is never
    stored. The bounds hold for the matrix as its tiles are computed, in float32. While the matrix
    fits the memory, `labels.energy` gives the value itself.

    Source: AR-11, arXiv:1901.08584 Theorem 5.1, for the energy; the identity is the solve's own.

    Args:
        kernel: as for `kernels.LargeKernelRegression`.
        x: samples in the rows.
        y: labels.
        tolerance: how far the bounds may be apart, relative to the lower one.
        smallest_eigenvalue: a lower bound of $\lambda_{\min}$, positive. None for that of
            `kernels.least_eigenvalue`, which needs rows of one norm and a network's kernel.
        landmarks: as for `kernels.LargeKernelRegression`.
        max_iterations: products at most.
        checkpoint: a folder for the state, as for `LargeKernelRegression.fit`.
        mesh: devices to spread the tiles over.
        progress: called as `progress(done, expected)`, in tiles.

    Warns:
        UnlazyWarning: the bounds are further apart than `tolerance`.

    Example:
        >>> from unlazy.kernels import relu_gram
        >>> found = energy_bounds(relu_gram, np.eye(3), np.ones(3))
        >>> bool(found.lower <= 6.0001 and 5.9999 <= found.upper <= 6.1)
        True
    """
    check_positive(tolerance, "tolerance")
    check_count(max_iterations, "max_iterations")
    columns = checked_columns(x, y)
    if smallest_eigenvalue is None:
        least = least_eigenvalue(kernel, x, mesh=mesh).bound
    else:
        check_positive(smallest_eigenvalue, "smallest_eigenvalue")
        least = float(smallest_eigenvalue)
    solver = LargeSolver.start(x, LargeKernelRegression(kernel, landmarks=landmarks), mesh=mesh)
    here = _solved(solver, columns, _Goal(tolerance, least, max_iterations), checkpoint, progress)
    lower, rest = _second_order(solver, columns, here.value)
    upper = lower + rest / least if least > 0 else math.inf
    if upper - lower > tolerance * lower:
        _warn(upper / lower - 1 if lower else math.inf, tolerance, here.steps, least)
    return EnergyBounds(lower, upper, len(columns), least, here.steps)


class _Goal(NamedTuple):
    tolerance: float
    least: float
    most: int

    def is_met(self, here: Iterate) -> bool:
        """Whether the remainder can add no more than is allowed, or no more steps are."""
        rest = float(np.sum((here.residuals() * np.asarray(here.size)) ** 2))
        allowed = _SAFETY * self.tolerance * self.least * float(np.sum(np.asarray(here.energy)))
        return rest <= allowed or here.steps >= self.most


def _solved(
    solver: LargeSolver,
    y: Float64[np.ndarray, "n c"],
    goal: _Goal,
    folder: Path | str | None,
    progress: Progress | None,
) -> Iterate:
    kept = solver.checkpoint(folder, y)
    state = kept.load()
    here = Iterate.from_arrays(state) if state else first_iterate(y, solver.inverse)
    expected = Expected(here, _RESIDUAL, goal.most)
    try:
        for here in solver.iterates(here, expected, progress):  # noqa: B020  # its successors
            if goal.is_met(here):
                break
            if kept.is_due:
                kept.save(here.arrays())
    finally:
        kept.save(here.arrays())
    return here


def _second_order(
    solver: LargeSolver, y: Float64[np.ndarray, "n c"], value: Float64[Array, "n c"]
) -> tuple[float, float]:
    """What the solution says of the energy, and the squared norm of the true remainder."""
    with float64():
        remainder = y - np.asarray(solver.gram.matmat(value))
        known = float(np.sum(np.asarray(value) * (y + remainder)))
        return max(known, 0.0), float(np.sum(remainder**2))  # no energy is below zero


def _warn(apart: float, tolerance: float, steps: int, least: float) -> None:
    why = (
        f"after {steps} iterations" if least > 0 else "the smallest eigenvalue has no bound above 0"
    )
    warnings.warn(
        f"The bounds of the label energy are apart by {apart:.2g} of it, not {tolerance:.2g}: "
        f"{why}. Allow more iterations or landmarks, give a bound of the smallest eigenvalue, or "
        "look for rows that are nearly the same.",
        UnlazyWarning,
        stacklevel=user_level(),
    )
