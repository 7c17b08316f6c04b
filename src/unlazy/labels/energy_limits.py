# SPDX-License-Identifier: Apache-2.0
"""Bounds of the label energy on so many samples that no Gram matrix can be stored."""

import math
import warnings
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import as_array, check_count, check_positive
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.errors import StoreError, UnlazyWarning, user_level
from unlazy.core.float64 import float64
from unlazy.core.panels import draw_range, panel
from unlazy.kernels.checkpoints import Checkpoint
from unlazy.kernels.landmarks import LandmarkPreconditioner
from unlazy.kernels.large import Expected, LargeKernelRegression, LargeSolver, checked_columns
from unlazy.kernels.least_eigenvalues import least_eigenvalue
from unlazy.kernels.precision import Widened, checked_kernel
from unlazy.kernels.spread import OfRows
from unlazy.kernels.streaming import StreamedGram, in_dtype, streamed
from unlazy.kernels.tiles import Kernel
from unlazy.linalg.iterative import Progress
from unlazy.linalg.stepwise import Iterate, first_iterate

_SAFETY = 0.8  # of the tolerance, for the remainder that is computed again at the end
_RESIDUAL = 1e-3  # that progress expects
_FALL = 0.25  # of the true remainder: what a solve in float32 brings at least, or it is the last
_PATIENCE = 20  # iterations in float32 without a smaller remainder
# Of an entry in float64, relative to its diagonal: a cosine of 10^3 products, off by 1e-15, moves
# the smallest angle that is not computed from the difference of the rows, 4e-3, by 2e-13.
_ENTRY = 1e-12
_TINY = float(np.finfo(np.float64).tiny)


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

    Conjugate gradients as in `kernels.LargeKernelRegression` find an $\alpha$ on float32 tiles; the
    matrix is never stored. The remainder is that of the kernel in float64, by one more product, and
    both bounds are wider by what rounding in float64 may do: they hold for the exact energy. The
    lower one is that of the best multiple of each column, $(\alpha^\top y)^2 / \alpha^\top H
    \alpha$. Where the float32 tiles are too far off, as with rows that are nearly the same, the
    solve is repeated for the remainder, and goes on with float64 tiles where that does not help.

    A product in float64 is computed from float64 copies of the samples, of 8 n d bytes. For a
    million samples of 784 features the products of rows take half a minute at the 5.5e13 float64
    operations per second of an H200, and the arithmetic of the kernel comes on top: ten seconds is
    what a product in float32 takes there. While the matrix fits the memory, `labels.energy` gives
    the value itself.

    Source: AR-11, arXiv:1901.08584 Theorem 5.1, for the energy; the identity is the solve's own.

    Args:
        kernel: as for `kernels.LargeKernelRegression`.
        x: samples in the rows.
        y: labels.
        tolerance: how far the bounds may be apart, relative to the lower one.
        smallest_eigenvalue: a lower bound of $\lambda_{\min}$, positive. None for that of
            `kernels.least_eigenvalue`, which needs rows of one norm and a network's kernel.
        landmarks: as for `kernels.LargeKernelRegression`.
        max_iterations: products of the iterations at most, in either precision.
        checkpoint: a folder for the state, as for `LargeKernelRegression.fit`.
        mesh: devices to spread the tiles over.
        progress: called as `progress(done, expected)`, in tiles.

    Warns:
        UnlazyWarning: the bounds are further apart than `tolerance`; or the kernel gives no better
            than float32 values, for whose matrix alone they then hold.

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
    search = _Search(
        solver, _in_float64(kernel, x, mesh), columns, _Goal(tolerance, least, max_iterations)
    )
    steps = search.run(solver.checkpoint(checkpoint, columns), progress)
    if not search.goal.is_reached(search.lower, search.upper):
        _warn(search, steps)
    return EnergyBounds(search.lower, search.upper, len(columns), least, steps)


def _in_float64(
    kernel: Kernel, x: Float[Array | np.ndarray, "n d"], mesh: Mesh | None
) -> StreamedGram:
    """The matrix in float64, with entries of nearly parallel rows from their difference."""
    with float64():
        wide = checked_kernel(in_dtype(kernel, jnp.dtype("float64")), jnp.asarray(x[:2], "float64"))
    if isinstance(wide, Widened):
        warnings.warn(
            "`kernel` gives float32 values: the bounds of the label energy are those of a matrix "
            "with these entries. Give its parameters in float64 for bounds of the exact energy.",
            UnlazyWarning,
            stacklevel=user_level(),
        )
    rows = as_array(x)
    return streamed(OfRows(wide, rows.shape[1:]), rows, dtype="float64", mesh=mesh)


class _Goal(NamedTuple):
    tolerance: float
    least: float
    most: int

    def is_reached(self, lower: float, upper: float) -> bool:
        """Whether the bounds are close enough."""
        return upper - lower <= self.tolerance * lower

    def is_met(self, here: Iterate, known: float) -> bool:
        """Whether the remainder can add no more than is allowed, or no more steps are."""
        energy = known + float(np.sum(np.asarray(here.energy)))
        allowed = _SAFETY * self.tolerance * self.least * energy
        return _rest(here) <= allowed or here.steps >= self.most


class _Known(NamedTuple):
    """What one vector says of the energy, by its product with the matrix in float64."""

    value: Float64[np.ndarray, "n c"]
    remainder: Float64[np.ndarray, "n c"]
    lower: float
    energy: float  # that of the identity, without the part of the remainder
    rest: float  # the squared norm of the remainder, or more
    rounding: float  # what float64 may have done to `energy`

    def upper(self, least: float) -> float:
        """No energy is above, if no eigenvalue is below `least`."""
        return self.energy + self.rounding + self.rest / least if least > 0 else math.inf

    @classmethod
    def of(
        cls,
        gram: StreamedGram,
        y: Float64[np.ndarray, "n c"],
        value: Float64[np.ndarray, "n c"],
        progress: Progress | None,
    ) -> "_Known":
        """Take the product; `value` may be any."""
        with float64():
            remainder = y - np.asarray(gram.matmat(value, progress))
        root = np.sqrt(np.asarray(gram.diagonal))
        # Entries are off by at most so much of sqrt(H_ii H_jj), and sums by less.
        total = root @ np.abs(value)
        norms = np.linalg.norm(remainder, axis=0) + _ENTRY * np.linalg.norm(root) * total
        along, square = (np.sum(value * block, axis=0) for block in (y, y - remainder))
        rounding = _ENTRY * (total**2 + np.sum(np.abs(value * y), axis=0))
        # Of all multiples of a column the best says (a'y)^2 / a'Ha, by Cauchy's inequality.
        least = np.maximum(along - rounding, 0.0) ** 2 / np.maximum(square + rounding, _TINY)
        sums = [float(np.sum(some)) for some in (least, 2 * along - square, norms**2, 2 * rounding)]
        if not all(map(math.isfinite, sums)):  # a solve that has diverged says nothing
            return cls.nothing(y)
        return cls(value, remainder, *sums)

    @classmethod
    def nothing(cls, y: Float64[np.ndarray, "n c"]) -> "_Known":
        """The vector 0, which takes no product."""
        return cls(np.zeros_like(y), y, 0.0, 0.0, float(np.sum(y**2)), 0.0)


class _Search:
    """Bounds from solves for what remains: on float32 tiles as long as they help, then float64."""

    def __init__(
        self, quick: LargeSolver, gram: StreamedGram, y: Float64[np.ndarray, "n c"], goal: _Goal
    ) -> None:
        self.solver, self.gram, self.y, self.goal = quick, gram, y, goal
        self.is_quick = True
        self.base = self.best = _Known.nothing(y)  # `base` is what the iterates add to
        self.lower, self.upper = 0.0, self.best.upper(goal.least)

    def run(self, kept: Checkpoint, progress: Progress | None) -> int:
        """Come as close as is allowed; return the number of iterations."""
        here = self._restored(kept.load()) or self._first(0)
        while True:
            expected = Expected(here, _RESIDUAL, self.goal.most)
            here = self._solved(here, expected, kept, progress)
            self._note(here, None if progress is None else expected.reporter(progress))
            if self.goal.is_reached(self.lower, self.upper) or here.steps >= self.goal.most:
                return here.steps
            if not self.best.rest <= _FALL * self.base.rest:
                if not self.is_quick or self.goal.least <= 0:
                    return here.steps  # more iterations would bring nothing
                self._slow_down()
            self.base = self.best
            here = self._first(here.steps)

    def _first(self, steps: int) -> Iterate:
        return first_iterate(self.base.remainder, self.solver.inverse)._replace(steps=steps)

    def _solved(
        self, here: Iterate, expected: Expected, kept: Checkpoint, progress: Progress | None
    ) -> Iterate:
        """Iterate until the remainder, by recursion, is small enough or falls no further."""
        smallest, start, lowest, at = here, here.steps, _rest(here), here.steps
        try:
            if self.goal.is_met(here, self.base.lower):
                return here
            for here in self.solver.iterates(here, expected, progress):  # noqa: B020  # its successors
                now = _rest(here)
                # The start itself would say nothing: after one step energy has been gained.
                if here.steps == start + 1 or now < _rest(smallest):
                    smallest = here
                if now < lowest:
                    lowest, at = now, here.steps
                if self.goal.is_met(here, self.base.lower) or here.steps >= at + _PATIENCE:
                    break
                if kept.is_due:
                    kept.save(self._state(here))
        finally:
            kept.save(self._state(here))
        return smallest._replace(steps=here.steps)

    def _note(self, here: Iterate, progress: Progress | None) -> None:
        value = self.base.value + np.asarray(here.value)
        found = _Known.of(self.gram, self.y, value, progress)
        self.lower = max(self.lower, found.lower)
        self.upper = min(self.upper, found.upper(self.goal.least))
        self.best = min(self.best, found, key=lambda known: known.rest)

    def _slow_down(self) -> None:
        """Go on in float64, with a preconditioner that knows the smallest eigenvalue."""
        self.is_quick = False
        inverse = LandmarkPreconditioner.from_samples(
            self.gram, len(self.solver.inverse.chosen), ridge=self.goal.least
        )
        self.solver = LargeSolver(self.gram, inverse, 0.0)

    def _state(self, here: Iterate) -> dict[str, np.ndarray]:
        return {**here.arrays(), "base": self.base.value, "is_quick": np.array(self.is_quick)}

    def _restored(self, state: dict[str, np.ndarray] | None) -> Iterate | None:
        """Take over what `_state` gave, and return its iterate."""
        if state is None:
            return None
        if "base" not in state:
            raise StoreError(
                "the checkpoint is that of an earlier version of energy_bounds. Give another "
                "folder, or delete it to begin anew."
            )
        if np.any(state["base"]):
            self.base = self.best = _Known.of(self.gram, self.y, state["base"], None)
            self.lower, self.upper = self.base.lower, self.base.upper(self.goal.least)
        if not state["is_quick"]:
            self._slow_down()
        return Iterate.from_arrays(state)


def _rest(here: Iterate) -> float:
    return float(np.sum((here.residuals() * np.asarray(here.size)) ** 2))


def _warn(search: _Search, steps: int) -> None:
    lower, goal, best = search.lower, search.goal, search.best
    apart = search.upper / lower - 1 if lower > 0 else math.inf
    why = f"after {steps} iterations"
    if goal.least <= 0:
        why = "the smallest eigenvalue has no bound above 0"
    elif 2 * best.rounding > search.upper - lower:
        why = f"the rounding of float64 alone may be {best.rounding:.2g}"
    elif steps < goal.most:
        why = f"{why} a remainder of norm {math.sqrt(best.rest):.2g} fell no further"
    warnings.warn(
        f"The bounds of the label energy are apart by {apart:.2g} of it, not "
        f"{goal.tolerance:.2g}: {why}. Allow more iterations or landmarks, give a bound of the "
        "smallest eigenvalue, or look for rows that are nearly the same.",
        UnlazyWarning,
        stacklevel=user_level(),
    )
