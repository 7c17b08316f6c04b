# SPDX-License-Identifier: Apache-2.0
"""The polynomial degrees in a label vector, and what each of them costs the kernel."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from unlazy.core.checks import check_count, check_inputs, check_labels, check_unit_rows
from unlazy.core.drawing import COLORS, Axes
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.panels import panel
from unlazy.kernels import relu_gram
from unlazy.labels.energies import energy as label_energy
from unlazy.linalg import eigh

_RANK_TOLERANCE = 1e-9  # of the largest eigenvalue; a direction below it is rounding


class DegreeSpectrum(eqx.Module):
    """Orthogonal parts of a label vector: of degree 0, 1, ... and, last, the rest."""

    parts: Float64[np.ndarray, "n q"]
    shares: Float64[np.ndarray, " q"]  # of the squared norm; they sum to one
    random_shares: Float64[np.ndarray, " q"]  # what random labels have in the mean
    dimensions: Int[np.ndarray, " q"]  # of the spaces projected on; they sum to n
    energies: Float64[np.ndarray, " q"]  # y_k^T H^-1 y_k of each part under H-infinity

    @property
    def hidden_share(self) -> float:
        """Share of the odd degrees from 3 on, to which the kernel is blind."""
        return float(self.shares[3:-1:2].sum())

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of each degree, beside what random labels have there.

        Hatched bars are the odd degrees from 3 on, which the kernel does not see.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.

        Example:
            >>> t = np.linspace(0, 6, 50)
            >>> circle = np.stack([np.cos(t), np.sin(t)], axis=1)
            >>> ax = degree_spectrum(circle, circle[:, 0] ** 3, degree=3).plot()
            >>> print(ax.get_title())
            10.3% of the labels hidden from the kernel
        """
        degrees = np.arange(len(self.shares))
        with panel(ax) as ax:
            bars = ax.bar(degrees - 0.2, self.shares, 0.4, color=COLORS[0], label="these labels")
            ax.bar(degrees + 0.2, self.random_shares, 0.4, color="#bbbbbb", label="random labels")
            for bar in bars[3:-1:2]:
                bar.set(hatch="////", edgecolor="white")
            ax.set_xticks(degrees, [*map(str, degrees[:-1]), "rest"])
            ax.set(xlabel="polynomial degree", ylabel="share of the squared labels")
            ax.set_title(f"{100 * self.hidden_share:.3g}% of the labels hidden from the kernel")
            ax.grid(visible=False, axis="x")
            ax.legend()
        return ax


@entry
def degree_spectrum(
    x: Float[Array | np.ndarray, "n d"], y: Float[Array | np.ndarray, " n"], *, degree: int = 6
) -> DegreeSpectrum:
    r"""Split labels by polynomial degree, with the share and the cost of each degree.

    $$y = \sum_{k=0}^{q} y_k + y_{>q}, \qquad y_k = (Q_k - Q_{k-1})\, y$$

    $Q_k$ is the orthogonal projection on the values at the samples of all polynomials of degree at
    most k on the sphere; the step from $Q_{k-1}$ to $Q_k$ uses the Gegenbauer kernel of degree k,
    the reproducing kernel of the spherical harmonics. So $y_k$ is what polynomials of degree k
    explain and lower ones do not; a polynomial of degree at most q leaves no rest.

    A part that weighs little may cost much: `energies` holds $M_k = y_k^\top H^{-1} y_k$ of each,
    and $\sqrt M \le \sum_k \sqrt{M_k}$. The kernel does not see odd degrees from 3 on,
    `hidden_share`: labels with such a part have an energy that grows with n. Appending a constant
    coordinate to the inputs before normalising restores them.

    Each space explains a little of anything, noise and higher degrees too, in proportion to its
    dimension: compare `shares` with `random_shares`. Once there are as many polynomials as samples,
    everything is explained; in high dimension that happens at degree 2.

    Source: AR-115, beside arXiv:1901.08584 section 6.

    Args:
        x: inputs of unit norm, at least two columns.
        y: labels.
        degree: the highest to tell apart. Each costs an eigendecomposition, about 9 n^3
            operations, until all of the n dimensions are used.

    Warns:
        UnlazyWarning: a part cannot be interpolated, because of duplicate rows; its energy is
            `inf`.

    Example:
        >>> t = np.linspace(0, 6, 50)
        >>> circle = np.stack([np.cos(t), np.sin(t)], axis=1)
        >>> spectrum = degree_spectrum(circle, circle[:, 0] ** 2, degree=3)
        >>> print(np.round(spectrum.shares.sum(), 6), spectrum.dimensions)
        1.0 [ 1  2  2  2 43]
    """
    check_inputs(x)
    check_unit_rows(x)
    check_count(degree, "degree", most=max(len(x), 100))  # n directions in all
    check_labels(y, x.shape[0])
    if x.shape[1] < 2:
        raise ValueError(f"`x` must have at least 2 columns, got x.shape={x.shape}.")
    labels = np.asarray(y, np.float64)
    bases = _bases(np.asarray(x, np.float64), degree)
    parts = np.stack([Q @ (Q.T @ labels) for Q in bases], axis=1)
    parts = np.concatenate([parts, (labels - parts.sum(axis=1))[:, None]], axis=1)
    used = np.array([Q.shape[1] for Q in bases])
    dimensions = np.append(used, len(labels) - used.sum())
    parts[:, dimensions == 0] = 0.0  # what is left there is rounding
    weights = np.sum(parts**2, axis=0)
    H = relu_gram(x)
    return DegreeSpectrum(
        parts=parts,
        shares=weights / (weights.sum() or 1.0),
        random_shares=dimensions / len(labels),
        dimensions=dimensions,
        energies=np.array([label_energy(H, part) for part in parts.T]),
    )


def _bases(x: Float64[np.ndarray, "n d"], degree: int) -> list[np.ndarray]:
    """Orthonormal bases of what each degree adds to the ones below."""
    n, d = x.shape
    with float64():
        rows = jnp.asarray(x)
        K = np.clip(
            np.asarray(jnp.matmul(rows, rows.T, precision=jax.lax.Precision.HIGHEST)), -1, 1
        )
    before, kernel = np.ones((n, n)), K
    bases, span = [], np.zeros((n, 0))
    for k in range(degree + 1):
        bases.append(_new_directions(before, span))
        span = np.concatenate([span, bases[-1]], axis=1)
        # Gegenbauer polynomials, normalised to 1 at 1: the recurrence gives degree k + 2.
        after = ((2 * k + d) * K * kernel - (k + 1) * before) / (k + d - 1)
        before, kernel = kernel, after
    return bases


def _new_directions(kernel: Float64[np.ndarray, "n n"], span: Float64[np.ndarray, "n q"]):
    """An orthonormal basis of the kernel's range, less `span`."""
    n, q = span.shape
    if q == n:
        return np.zeros((n, 0))
    # Twice, since one projection leaves a rounding error in the span.
    for _ in range(2):
        kernel = kernel - span @ (span.T @ kernel)
        kernel = kernel - (kernel @ span) @ span.T
    eigen = eigh((kernel + kernel.T) / 2)
    keep = eigen.values > _RANK_TOLERANCE * n
    return np.asarray(eigen.vectors)[:, keep][:, : n - q]
