# SPDX-License-Identifier: Apache-2.0
"""What each sample costs: the label energy that leaving it out saves."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from unlazy.core.checks import as_array, check_count, check_gram, check_labels
from unlazy.core.drawing import COLORS, Axes
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyWarning
from unlazy.core.float64 import float64
from unlazy.core.panels import log_if_positive, next_look, panel
from unlazy.core.summaries import counted
from unlazy.labels.energies import energy as label_energy
from unlazy.labels.energies import null_tolerance
from unlazy.linalg import cholesky, eigh


class LeaveOneOut(eqx.Module):
    """The label energy, and what each sample adds to it."""

    energy: float
    costs: Float64[np.ndarray, " n"]  # decrease of the energy when the row is left out
    surprises: Float64[np.ndarray, "n *c"]  # label minus what the other rows predict for it

    def __repr__(self) -> str:
        """In a few lines: the energy, the costs, and the most expensive rows."""
        rows = ", ".join(map(str, self.most_expensive(min(5, len(self.costs)))))
        lines = [
            f"energy {self.energy:.4g} of {counted(len(self.costs), 'row')}",
            f"costs from {self.costs.min():.4g} to {self.costs.max():.4g}; most expensive: {rows}",
        ]
        return f"{type(self).__name__}(" + "\n  ".join(lines) + ")"

    @entry
    def most_expensive(self, count: int) -> Int[np.ndarray, " k"]:
        """The `count` rows that cost most, the most expensive first; ties by row number."""
        check_count(count, "count")
        return np.argsort(-self.costs, kind="stable")[:count]

    @entry
    def plot(self, ax: Axes | None = None, *, names: int = 5) -> Axes:
        """Draw what each row costs, the most expensive first, with the numbers of the first few.

        Rows whose labels conflict cost infinitely much; crosses on top stand for them.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            names: how many rows have their numbers beside them.

        Example:
            >>> found = leave_one_out(jnp.diag(jnp.array([4.0, 0.25])), jnp.array([1.0, -1.0]))
            >>> ax = found.plot(names=1)
            >>> print(ax.get_lines()[0].get_ydata(), ax.texts[0].get_text())
            [4.   0.25] row 1
        """
        check_count(names, "names", least=0)
        order = self.most_expensive(len(self.costs))
        costs, rank = self.costs[order], np.arange(1, len(order) + 1)
        is_finite = np.isfinite(costs)
        with panel(ax) as ax:
            ax.plot(rank[is_finite], costs[is_finite], marker="o", ms=3, label="cost of a row",
                    **next_look(ax))  # fmt: skip
            log_if_positive(ax, "x", "y")
            if not is_finite.all():
                ax.plot(rank[~is_finite], np.full(int(np.sum(~is_finite)), 0.97), marker="x",
                        ls="none", color=COLORS[1], transform=ax.get_xaxis_transform(),
                        label="infinite: labels in conflict")  # fmt: skip
                ax.legend(loc="lower left")
            for place in np.flatnonzero(is_finite)[:names]:
                ax.annotate(f"row {order[place]}", (rank[place], costs[place]), fontsize=7.5,
                            xytext=(2, 4), textcoords="offset points", rotation=30)  # fmt: skip
            ax.margins(y=0.15)
            ax.set(xlabel="row, the most expensive first", ylabel="label energy that it adds")
            ax.set_title(f"label energy {self.energy:.4g}")
        return ax


@entry
def leave_one_out(
    H: Float[Array | np.ndarray, "n n"], y: Float[Array | np.ndarray, "n *c"]
) -> LeaveOneOut:
    r"""What each sample costs the kernel: a detector of wrong labels.

    $$M - M_{-i} = \frac{\alpha_i^2}{(H^{-1})_{ii}}, \qquad
    y_i - f_{-i}(x_i) = \frac{\alpha_i}{(H^{-1})_{ii}}, \qquad \alpha = H^{-1} y$$

    exactly, with $M_{-i}$ the label energy and $f_{-i}$ the interpolant without row i; costs are
    summed over the columns of `y`. One inverse serves all rows, in about n^3 operations and the
    memory of a second `H`.

    A row that depends on others under the kernel (a duplicate with an equal label) costs nothing.
    Rows whose labels conflict cost `inf`, as `labels.energy` does with them, and a warning names
    them; the costs of the other rows are then computed without the rows in conflict. Raises as
    `labels.energy` does.

    Source: AR-114, beside arXiv:1901.08584 Theorem 5.1.

    Example:
        >>> result = leave_one_out(jnp.diag(jnp.array([4.0, 0.25])), jnp.array([1.0, -1.0]))
        >>> print(result.energy, result.costs, result.most_expensive(1))
        4.25 [0.25 4.  ] [1]
    """
    H, y = as_array(H, "H"), as_array(y, "y")
    check_gram(H)
    check_labels(y, H.shape[0])
    labels = np.asarray(y, np.float64)
    # A multiple of a row has the same costs. At unit norm, a small row does not look dependent.
    with float64():
        size = np.sqrt(np.maximum(np.asarray(jnp.diagonal(H), np.float64), 0))
        size = np.where(size > 0, size, 1.0)
        unit = jnp.asarray(H, jnp.float64) / size[:, None] / size[None, :]
    by_row = size.reshape(-1, *[1] * (labels.ndim - 1))
    n = H.shape[0]
    tolerance = null_tolerance(n, H.dtype, size=1.0, largest=float(n))  # of a unit diagonal
    factor = cholesky(unit)
    if factor is not None and factor.smallest_eigenvalue() > tolerance:
        with float64():
            alpha = np.asarray(factor.solve(labels / by_row))
            diagonal = np.asarray(_inverse_diagonal(factor.L))
        energy = float(np.sum(alpha * labels / by_row))
        result = _result(energy, alpha, diagonal, np.zeros(n, bool))
    else:
        energy = label_energy(H, labels)  # warns of conflicts
        result = _singular(np.asarray(unit), labels / by_row, energy, tolerance)
    return LeaveOneOut(result.energy, result.costs, result.surprises * by_row)


def _result(energy: float, alpha, diagonal, free) -> LeaveOneOut:
    """Costs from the solution and the inverse's diagonal; rows that are `free` cost nothing."""
    by_row = np.where(free, 1.0, diagonal).reshape(-1, *[1] * (alpha.ndim - 1))
    surprises = np.where(free.reshape(by_row.shape), 0.0, alpha / by_row)
    costs = np.sum((alpha * surprises).reshape(len(diagonal), -1), axis=1)
    return LeaveOneOut(energy, np.maximum(costs, 0.0), surprises)


@jax.jit
def _inverse_diagonal(L: Float64[Array, "n n"]) -> Float64[Array, " n"]:
    identity = jnp.eye(L.shape[0], dtype=L.dtype)
    return jnp.sum(jsl.solve_triangular(L, identity, lower=True) ** 2, axis=0)


def _singular(
    H: Float64[np.ndarray, "n n"], y: np.ndarray, energy: float, tolerance: float
) -> LeaveOneOut:
    """Costs by the pseudo-inverse, which serves the rows that no null vector touches."""
    eigen = eigh(H)
    vectors, null = np.asarray(eigen.vectors), eigen.values <= tolerance
    outside = vectors[:, null] @ (vectors[:, null].T @ y)
    in_conflict = np.linalg.norm(outside.reshape(len(y), -1), axis=1) > 1e-7 * np.linalg.norm(y)
    if np.isinf(energy) and in_conflict.any():
        return _without(H, y, in_conflict)
    inverse = np.where(null, 0.0, 1 / np.where(null, 1.0, eigen.values))
    alpha = vectors @ (inverse.reshape(-1, *[1] * (y.ndim - 1)) * (vectors.T @ y))
    diagonal = (vectors**2) @ inverse
    # A row that a null vector touches is a combination of others: leaving it out saves nothing.
    free = np.sum(vectors[:, null] ** 2, axis=1) > 1e-10
    return _result(energy, alpha, diagonal, free)


def _without(H: np.ndarray, y: np.ndarray, in_conflict: np.ndarray) -> LeaveOneOut:
    costs = np.where(in_conflict, np.inf, 0.0)
    surprises = np.where(in_conflict.reshape(-1, *[1] * (y.ndim - 1)), np.nan, y * 0.0)
    keep = np.flatnonzero(~in_conflict)
    if keep.size:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnlazyWarning)  # the conflict has been reported
            rest = leave_one_out(H[np.ix_(keep, keep)], y[keep])
        costs[keep], surprises[keep] = rest.costs, rest.surprises
    return LeaveOneOut(float("inf"), costs, surprises)
