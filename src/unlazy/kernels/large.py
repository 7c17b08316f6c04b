# SPDX-License-Identifier: Apache-2.0
"""Kernel regression on millions of samples: iterations on tiles that are never stored."""

import math
import warnings
from collections.abc import Iterator
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import (
    as_array,
    check_count,
    check_inputs,
    check_labels,
    check_name,
    check_positive,
)
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.core.float64 import float64
from unlazy.core.summaries import counted, name_of
from unlazy.kernels.checkpoints import Checkpoint, problem_digest
from unlazy.kernels.landmarks import LandmarkPreconditioner
from unlazy.kernels.precision import checked_kernel
from unlazy.kernels.streaming import StreamedGram, in_dtype, streamed
from unlazy.kernels.tiles import Kernel
from unlazy.kernels.watching import METRICS, Pair, Watch, check_signs, checked_validation
from unlazy.linalg.iterative import Progress
from unlazy.linalg.stepwise import Iterate, first_iterate, iterates

_SHARE, _MOST_LANDMARKS, _FEWEST_LANDMARKS = 50, 20000, 500  # one sample in 50, within these


class LargeKernelRegression(eqx.Module):
    r"""Kernel ridge regression on so many samples that their Gram matrix can never be stored.

    $$f(x) = k(x, X)\, \alpha, \qquad (k(X, X) + \text{ridge}\, I)\, \alpha = y$$

    by conjugate gradients for all columns of y at once. Each product evaluates the tiles on and
    above the diagonal in float32 (on a GPU from products of rows in bfloat16 halves), and uses them
    up on the device; vectors and sums are in float64. The preconditioner is made of `landmarks`
    samples. Memory: the samples in float32 twice, some ten blocks of the shape of y in float64, and
    float64 matrices of landmarks by landmarks: six while they are made, one or two afterwards.
    `KernelRegression` is exact, and the better choice while the matrix fits.

    Args:
        kernel: `kernel(x1, x2=None)` of shape (n1, n2), a function that JAX can compile, such as
            `functools.partial(ntk, depth=3)`; `dtype="float32"` is added where it has a `dtype`.
        ridge: added to the diagonal, as it is.
        landmarks: samples that the preconditioner is made of. None takes one sample in 50, but at
            least 500, or all of fewer samples, and at most 20000. More of them make iterations
            fewer and the start longer.

    Source: AR-12, arXiv:1901.08584 section 5, in the limit of many steps; the preconditioner is
    that of Falkon, arXiv:1705.10958, with all samples as centres.

    Example:
        >>> from unlazy.kernels import relu_gram
        >>> fitted = LargeKernelRegression(relu_gram).fit(np.eye(2), np.array([1.0, -1.0]))
        >>> print(fitted.predict(np.eye(2)).round(5))
        [ 1. -1.]
    """

    kernel: Kernel
    ridge: int | float = 0.0
    landmarks: int | None = None

    @entry
    def __check_init__(self):
        if not (self.ridge >= 0 and math.isfinite(self.ridge)):
            raise ValueError(f"`ridge` must be >= 0 and finite, got ridge={self.ridge}.")
        if self.landmarks is not None:
            check_count(self.landmarks, "landmarks")

    @entry
    def fit(
        self,
        x: Float[Array | np.ndarray, "n d"],
        y: Float[Array | np.ndarray, "n *c"],
        *,
        tolerance: float = 1e-3,
        max_iterations: int = 200,
        validation: Pair | None = None,
        metric: str = "squared",
        patience: int = 5,
        checkpoint: Path | str | None = None,
        mesh: Mesh | None = None,
        progress: Progress | None = None,
    ) -> "FittedLargeRegression":
        """Iterate until the residual, or the error on other samples, falls no further.

        Args:
            x: samples in the rows.
            y: outputs, in columns if there are several.
            tolerance: relative residual at which to stop, in every column.
            max_iterations: products at most.
            validation: other samples and their outputs, predicted after every iteration; those
                coefficients are kept that predict them best.
            metric: what counts there: "squared", the mean squared error, or "classes", the share
                of rows whose largest output (the sign of a single one, whose labels must have both
                signs) is not that of the label.
            patience: iterations without a better prediction after which to stop.
            checkpoint: a folder in which the state is kept, once a minute and at the end. The same
                call goes on from there; another problem's state is refused. With another
                `validation` or `metric` it goes on too, and errors are told anew from there.
            mesh: devices to spread the tiles over; by default the first one does all.
            progress: called as `progress(done, expected)`, in tiles; what is expected is an
                estimate from the residuals so far.

        Warns:
            UnlazyWarning: the residual has not reached the tolerance, and no validation sample
                ended the fit.
        """
        check_positive(tolerance, "tolerance")
        check_count(max_iterations, "max_iterations")
        check_count(patience, "patience")
        check_name(metric, METRICS, "metric")
        columns = checked_columns(x, y)
        check_signs(columns, metric)
        watch = Watch(checked_validation(validation, x, y), metric, patience)
        solver = LargeSolver.start(x, self, mesh=mesh)
        kept = solver.checkpoint(checkpoint, columns, purpose="a fit")
        here = watch.restored(kept.load(), solver.gram) or first_iterate(columns, solver.inverse)
        expected = Expected(here, tolerance, max_iterations)
        following = solver.iterates(here, expected, progress)
        try:
            # Before the first step too: a finished fit that is called again stays as it is.
            while not (here.is_solved(tolerance) or here.steps >= max_iterations or watch.is_tired):
                here = next(following)
                watch.look(here, solver.gram)
                if kept.is_due:
                    kept.save(watch.state(here))
        finally:
            kept.save(watch.state(here))
        solved = here.is_solved(tolerance)
        if not (solved or watch.is_tired):
            _warn(watch.least_residual, tolerance, here.steps)
        best, taken = watch.chosen(here)
        values = np.asarray(best).reshape(np.shape(y))
        return FittedLargeRegression(solver.gram, values, taken, *watch.seen(), solved)


class FittedLargeRegression(eqx.Module):
    """A fitted `LargeKernelRegression`, and how it went.

    The coefficients are those of the iteration that predicted the validation samples best, or,
    without such samples, that left the smallest residual.
    """

    gram: StreamedGram
    coefficients: Float64[np.ndarray, "n *c"]
    iterations: int  # that the coefficients took
    residuals: Float64[np.ndarray, " k"]  # the largest of all columns, after each one looked at
    errors: Float64[np.ndarray, " k"]  # on the validation samples; nan without them
    seconds: Float64[np.ndarray, " k"]  # each iteration took
    converged: bool  # whether the residual reached the tolerance

    def __repr__(self) -> str:
        """In a line: the kernel, the samples, and how far the iterations came."""
        done = "converged" if self.converged else "not converged"
        shape, labels = (self.gram.n, self.gram.x.shape[1]), self.coefficients.shape
        return (
            f"{type(self).__name__}({name_of(self.gram.kernel)} of samples of shape {shape}, "
            f"labels of shape {labels}, {done}, {counted(self.iterations, 'iteration')}, least "
            f"residual {np.nanmin(self.residuals, initial=np.inf):.2g})"
        )

    @entry
    def predict(self, x: Float[Array | np.ndarray, "t d"]) -> Float64[np.ndarray, "t *c"]:
        """Predictions at other samples."""
        check_inputs(x, allow_zero_rows=True)
        d = self.gram.x.shape[1]
        if np.shape(x)[1] != d:
            raise ValueError(f"`x` must have {d} columns, as in the fit, got {np.shape(x)[1]}.")
        columns = self.coefficients.reshape(len(self.coefficients), -1)
        found = np.asarray(self.gram.cross(as_array(x), columns))
        return found.reshape(len(found), *self.coefficients.shape[1:])


class LargeSolver(eqx.Module):
    """Iterations for one matrix: that of the samples, and the ridge."""

    gram: StreamedGram
    inverse: LandmarkPreconditioner
    ridge: float

    @classmethod
    def start(
        cls,
        x: Float[Array | np.ndarray, "n d"],
        setting: LargeKernelRegression,
        *,
        mesh: Mesh | None = None,
    ) -> "LargeSolver":
        """Prepare the preconditioner."""
        with float64():
            wide = in_dtype(setting.kernel, jnp.dtype("float64"))
            exact = checked_kernel(wide, jnp.asarray(x[:2], jnp.float64))
        gram = streamed(setting.kernel, as_array(x), mesh=mesh, exact=exact)
        _check_size(gram)
        usual = min(max(gram.n // _SHARE, _FEWEST_LANDMARKS), _MOST_LANDMARKS)
        landmarks, ridge = min(setting.landmarks or usual, gram.n), float(setting.ridge)
        return cls(gram, LandmarkPreconditioner.from_samples(gram, landmarks, ridge=ridge), ridge)

    def iterates(
        self, start: Iterate, expected: "Expected", progress: Progress | None
    ) -> Iterator[Iterate]:
        """The iterates after `start`, without end."""

        def matmat(V: Float64[Array, "n c"]) -> Float64[Array, "n c"]:
            told = None if progress is None else expected.reporter(progress)
            return self.gram.matmat(V, told) + self.ridge * V

        for here in iterates(matmat, self.inverse, start):
            expected.update(here)
            yield here

    def checkpoint(
        self,
        folder: Path | str | None,
        y: Float64[np.ndarray, "n c"],
        *,
        purpose: str = "bounds of the energy",
    ) -> Checkpoint:
        """The checkpoint of this matrix with these labels; states of another purpose differ."""
        if folder is None:
            return Checkpoint(None, "")
        few = np.asarray(self.gram.exact(self.gram.x[: min(3, self.gram.n)]))
        values = " ".join(f"{value:.5g}" for value in few.reshape(-1))
        settings = f"{values} {self.ridge!r} {len(self.inverse.chosen)}"
        return Checkpoint(folder, problem_digest(self.gram.x, y, settings, purpose=purpose))


class Expected:
    """How many iterations the residual will take to fall to the tolerance at its mean rate."""

    def __init__(self, start: Iterate, tolerance: float, most: int) -> None:
        """At `most` so many."""
        self.first = self.done = start.steps
        self.tolerance, self.most, self.all = tolerance, most, most
        self.before = float(np.max(start.residuals()))

    def update(self, here: Iterate) -> None:
        """Expect anew."""
        self.done, now = here.steps, float(np.max(here.residuals()))
        fallen = math.log(self.before / now) if 0 < now < self.before else 0.0
        wanted = math.log(max(self.before / self.tolerance, 1.0))
        count = math.ceil((self.done - self.first) * wanted / fallen) if fallen else self.most
        self.all = max(self.done + 1, min(self.first + count, self.most))

    def reporter(self, progress: Progress) -> Progress:
        """Progress of one product as progress of all."""

        def told(tiles: int, total: int) -> None:
            progress(self.done * total + tiles, self.all * total)

        return told


def _warn(residual: float, tolerance: float, steps: int) -> None:
    warnings.warn(
        f"The fit has not converged: its relative residual is {residual:.2g} at best, not "
        f"{tolerance:.2g}, after {steps} iterations. Allow more iterations, give a ridge, or "
        "change the number of landmarks.",
        UnlazyWarning,
        stacklevel=user_level(),
    )


def _check_size(gram: StreamedGram) -> None:
    """Raise where squares of samples leave the range of the tiles, but for a matrix of zeros."""
    mean, limits = float(np.mean(np.asarray(gram.diagonal))), np.finfo(np.float32)
    least, most = float(limits.tiny / limits.eps), float(limits.max * limits.eps)
    if not (least <= abs(mean) <= most) and np.any(np.asarray(gram.x)):
        raise ValueError(
            "`x` must be of a size that float32 holds under `kernel`, got a mean of "
            f"{mean:.3g} on the diagonal of its matrix. Scale `x`, or the kernel."
        )


def checked_columns(
    x: Float[Array | np.ndarray, "n d"], y: Float[Array | np.ndarray, "n *c"]
) -> Float64[np.ndarray, "n c"]:
    """The labels in columns, in float64; raise unless they go with the samples."""
    check_inputs(x, allow_zero_rows=True)
    check_labels(y, np.shape(x)[0])
    return np.asarray(y, np.float64).reshape(np.shape(x)[0], -1)
