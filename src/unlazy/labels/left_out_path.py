# SPDX-License-Identifier: Apache-2.0
"""Exact leave-one-out predictions of kernel ridge regression, for many ridges at once."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import as_array, check_gram, check_labels
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.kernels import ridge_path
from unlazy.kernels.ridge import draw_errors


class LeftOutPath(eqx.Module):
    """What kernel regression predicts for each row from all others, ridge by ridge."""

    ridges: Float64[np.ndarray, " r"]
    errors: Float64[np.ndarray, " r"]  # mean over the rows of the squared error, summed over c
    surprises: Float64[np.ndarray, "n *c"]  # label minus prediction, at the best ridge
    best: int  # the ridge of the least error

    @property
    def ridge(self) -> float:
        """The ridge of the least error."""
        return float(self.ridges[self.best])

    @property
    def error(self) -> float:
        """The least error."""
        return float(self.errors[self.best])

    @entry
    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw the leave-one-out error against the ridge, with a mark at the least.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            label: in the legend.
        """
        return draw_errors(ax, self.ridges, self.errors, label)


@entry
def leave_one_out_path(
    H: Float[Array | np.ndarray, "n n"],
    y: Float[Array | np.ndarray, "n *c"],
    ridges: Float[np.ndarray, " r"] | list[float] | None = None,
) -> LeftOutPath:
    r"""Leave-one-out errors of kernel ridge regression over a path of ridges.

    $$y_i - f_{-i}(x_i) = \frac{\alpha_i}{((H + \rho I)^{-1})_{ii}}, \qquad
    \alpha = (H + \rho I)^{-1} y$$

    exactly, with $f_{-i}$ fitted without row i. One eigendecomposition serves all ridges: each
    further one takes n^2 (c + 1) multiplications. `labels.leave_one_out` is the case of no ridge,
    for singular kernels too.

    Source: AR-114 with a ridge; the formula is that of Allen's PRESS statistic.

    Args:
        H: kernel of the samples.
        y: labels.
        ridges: positive numbers; None for 25 from 1e-8 to 10 times the mean of the diagonal of H.

    Raises:
        ValueError: a ridge is not positive, or the shapes do not fit.

    Example:
        >>> path = leave_one_out_path(np.eye(2) + 1, np.array([1.0, 1.0]), [0.5, 100.0])
        >>> print(path.ridge, path.surprises)
        0.5 [0.6 0.6]
    """
    H, y = as_array(H, "H"), as_array(y, "y")
    check_gram(H)
    check_labels(y, H.shape[0])
    if ridges is None:
        ridges = np.geomspace(1e-8, 10.0, 25) * max(float(np.mean(np.diagonal(H))), 1e-300)
    rho = np.asarray(ridges, np.float64)
    if rho.ndim != 1 or not rho.size or not np.all((rho > 0) & np.isfinite(rho)):
        raise ValueError(f"`ridges` must be positive numbers, one at least, got {ridges!r}.")
    path = ridge_path(np.asarray(H), np.asarray(y), rho)
    errors = path.leave_one_out()
    best = int(np.argmin(errors))
    return LeftOutPath(rho, errors, path.surprises()[best], best)
