# SPDX-License-Identifier: Apache-2.0
"""Kernel ridge regression for many ridges at once, from one eigendecomposition."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_finite, check_gram, check_labels
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.panels import log_if_positive, name_curves, next_look, panel
from unlazy.linalg import eigh, gram_eigenvalues

# In units of the kernel's mean eigenvalue; by steps of 10^(1/4), and wide enough for both ends.
_RELATIVE = 10 ** np.linspace(-10, 3, 53)


class RidgePath(eqx.Module):
    r"""Kernel ridge regression along a path of ridges, as `ridge_path` gives it.

    $$f_\lambda(x) = k(x, X)\, \alpha_\lambda + b_\lambda$$

    Source: RN-35, arXiv:1905.10337 section 8; weights, intercepts and leaving out are ours.
    """

    ridges: Float64[np.ndarray, " r"]  # lambda
    coefficients: Float64[np.ndarray, "r n *c"]  # alpha; (H + lambda I)^-1 y without weights, b
    intercepts: Float64[np.ndarray, "r *c"]  # b; 0 unless asked for
    eigenvalues: Float64[np.ndarray, " n"]  # of H, of its rows times the roots of the weights
    vectors: Float64[np.ndarray, "n n"]
    roots: Float64[np.ndarray, " n"]  # of the weights; 1 where none were given
    has_intercept: bool = eqx.field(static=True, default=False)

    @entry
    def predict(self, H_cross: Float[Array | np.ndarray, "t n"]) -> Float64[np.ndarray, "r t *c"]:
        """The outputs at samples whose kernel with the training samples is `H_cross`."""
        n, shape = len(self.vectors), np.shape(H_cross)
        if len(shape) != 2 or shape[1] != n:
            raise ValueError(
                f"`H_cross` must have shape (t, {n}), a row a sample and a column a training "
                f"sample, got H_cross.shape={shape}."
            )
        check_finite(H_cross, "H_cross")
        cross = np.asarray(H_cross, np.float64)
        found = np.moveaxis(np.tensordot(self.coefficients, cross, (1, 1)), -1, 1)
        return found + self.intercepts[:, None]

    @entry
    def errors(
        self, H_cross: Float[Array | np.ndarray, "t n"], y: Float[Array | np.ndarray, "t *c"]
    ) -> Float64[np.ndarray, " r"]:
        """The mean squared error on such samples for every ridge, summed over outputs."""
        found = self.predict(H_cross)
        if np.shape(y) != found.shape[1:]:  # else they might broadcast
            raise ValueError(
                f"`y` must have shape {found.shape[1:]}, a row for every row of `H_cross` and the "
                f"outputs that were fitted, got y.shape={np.shape(y)}."
            )
        check_finite(y, "y")
        return _mean_square(found - np.asarray(y, np.float64))

    def leave_one_out(self) -> Float64[np.ndarray, " r"]:
        r"""The mean squared error on samples left out one by one, summed over outputs.

        In closed form, by `surprises`. The mean is over the weights, where there are some. A ridge
        may be chosen by it.
        """
        weighted = self.surprises() * _columns_like(self.roots, self.coefficients[0])
        return _mean_square(weighted) * (len(self.roots) / np.sum(self.roots**2))

    def surprises(self) -> Float64[np.ndarray, "r n *c"]:
        r"""Minus the error on each sample when it is left out: label minus prediction.

        $$y_i - f_{-i}(x_i) = \frac{\beta_i}{\sqrt{w_i}\,
        [A^{-1} - A^{-1} s s^\top A^{-1} / (s^\top A^{-1} s)]_{ii}}$$

        with $A = \sqrt{W} H \sqrt{W} + \lambda I$, $s = \sqrt{w}$ and $\alpha = \sqrt{W} \beta$;
        the second term is there for an intercept alone. For a sample of weight 0 this is 0.
        """
        inverse = _inverse(self.eigenvalues, self.ridges)
        diagonal = (self.vectors**2) @ inverse  # of A^-1, a column per ridge
        if self.has_intercept:
            solved = self.vectors @ (inverse * (self.vectors.T @ self.roots)[:, None])
            diagonal = diagonal - solved**2 / (self.roots @ solved)
        scale = (self.roots**2)[:, None] * diagonal  # times w_i, since these are alpha, not beta
        used = scale > 1e-12 * diagonal.max(initial=0.0)  # an only sample says nothing of itself
        factor = np.where(used, 1 / np.where(used, scale, 1.0), 0.0).T
        return self.coefficients * factor.reshape(*factor.shape, *[1] * (self.intercepts.ndim - 1))

    @entry
    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw the leave-one-out error against the ridge, with a mark at the least.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            label: in the legend.

        Example:
            >>> path = ridge_path(np.eye(2) + 1, np.ones(2), ridges=[0.5, 100.0])
            >>> print(path.plot().get_lines()[0].get_ydata().round(2))
            [0.36 0.98]
        """
        return draw_errors(ax, self.ridges, self.leave_one_out(), label)

    def degrees_of_freedom(self) -> Float64[np.ndarray, " r"]:
        r"""$\operatorname{tr} H (H + \lambda I)^{-1}$ for every ridge, without an intercept."""
        return self.eigenvalues @ _inverse(self.eigenvalues, self.ridges)


@entry
def ridge_path(
    H: Float[Array | np.ndarray, "n n"],
    y: Float[Array | np.ndarray, "n *c"],
    ridges: Sequence[float] | Float[Array | np.ndarray, " r"] | None = None,
    *,
    weights: Float[np.ndarray, " n"] | None = None,
    intercept: bool = False,
) -> RidgePath:
    r"""Solve kernel ridge regression for a whole path of ridges, for all outputs.

    $$\min_{f, b} \sum_i w_i (f(x_i) + b - y_i)^2 + \lambda \|f\|_H^2, \qquad
    f_\lambda(x) = k(x, X)\, (H + \lambda W^{-1})^{-1} (y - b)$$

    One eigendecomposition takes some 10 n^3 operations, and each ridge one product. SGD with weight
    decay on the linear model of the kernel descends to this solution, given the time, so that this
    is the stronger baseline. For one ridge, or more samples than fit memory, use
    `KernelRegression`.

    Source: RN-35, arXiv:1905.10337 section 8.

    Args:
        H: Gram matrix of the training samples.
        y: their labels; columns are outputs.
        ridges: $\lambda$, positive; by default $10^{-10}$ to $10^3$ times the mean eigenvalue of
            `H`, by steps of $10^{1/4}$.
        weights: $w$, not negative; all 1 by default.
        intercept: whether a constant $b$ is fitted, without a penalty; else it is 0.

    Example:
        >>> path = ridge_path(np.eye(2), np.array([1.0, -1.0]), ridges=[1.0, 3.0])
        >>> print(path.predict(np.eye(2)))
        [[ 0.5  -0.5 ]
         [ 0.25 -0.25]]
    """
    check_gram(H)
    check_labels(y, np.shape(H)[0])
    chosen = None if ridges is None else np.array(ridges, np.float64)
    if chosen is not None and not (
        chosen.ndim == 1 and chosen.size and np.all((chosen > 0) & np.isfinite(chosen))
    ):
        raise ValueError(f"`ridges` must be a list of positive numbers, got ridges={ridges}.")
    roots = _roots(weights, np.shape(H)[0])
    eigen = eigh(np.asarray(H, np.float64) * roots[:, None] * roots[None, :])
    values, vectors = gram_eigenvalues(eigen.values), np.asarray(eigen.vectors)
    if chosen is None:
        chosen = np.mean(values) * _RELATIVE
    labels = np.asarray(y, np.float64)
    columns = labels.reshape(len(labels), -1) * roots[:, None]
    found, b = _solutions(values, vectors, columns, chosen, roots if intercept else None)
    outputs = np.shape(y)[1:]
    coefficients = (found * roots[None, :, None]).reshape(len(chosen), len(roots), *outputs)
    return RidgePath(
        chosen, coefficients, b.reshape(-1, *outputs), values, vectors, roots, intercept
    )


def draw_errors(
    ax: Axes | None,
    ridges: Float64[np.ndarray, " r"],
    errors: Float64[np.ndarray, " r"],
    label: str | None,
) -> Axes:
    """Errors of rows left out against the ridge, on logarithmic axes, with the least marked."""
    order, best = np.argsort(ridges), int(np.argmin(errors))
    with panel(ax) as ax:
        look = next_look(ax)
        name = "rows left out" if label is None else label
        ax.plot(ridges[order], errors[order], marker="o", ms=3, label=name, **look)
        told = f"best: ridge {ridges[best]:.3g}, error {errors[best]:.3g}"
        mark = look | {"ls": "none", "marker": "*", "ms": 11}
        ax.plot(ridges[best], errors[best], label=told, **mark)
        log_if_positive(ax, "x", "y")
        ax.set(xlabel="ridge", ylabel="leave-one-out error (mean square)")
        name_curves(ax)
    return ax


def _roots(weights: Float[np.ndarray, " n"] | None, n: int) -> Float64[np.ndarray, " n"]:
    if weights is None:
        return np.ones(n)
    w = np.asarray(weights, np.float64)
    if w.shape != (n,) or not np.all((w >= 0) & np.isfinite(w)) or not np.any(w):
        raise ValueError(
            f"`weights` must be {n} finite numbers >= 0, one above 0 at least, got "
            f"weights.shape={w.shape}."
        )
    return np.sqrt(w)


def _solutions(
    values: Float64[np.ndarray, " n"],
    vectors: Float64[np.ndarray, "n n"],
    y: Float64[np.ndarray, "n c"],
    ridges: Float64[np.ndarray, " r"],
    constant: Float64[np.ndarray, " n"] | None,
) -> tuple[Float64[np.ndarray, "r n c"], Float64[np.ndarray, "r c"]]:
    """The solutions of (H + lambda) beta + b constant = y; without a constant b is 0."""
    inverse = _inverse(values, ridges)
    rotated = vectors.T @ y
    b = np.zeros((len(ridges), y.shape[1]))
    targets = np.broadcast_to(rotated[:, None, :], (len(values), *b.shape))
    if constant is not None:
        s = vectors.T @ constant
        b = (inverse * s[:, None]).T @ rotated / (inverse.T @ s**2)[:, None]
        targets = targets - s[:, None, None] * b[None]
    shrunk = targets * inverse[:, :, None]
    found = vectors @ shrunk.reshape(len(values), -1)  # one product for all ridges and outputs
    return np.moveaxis(found.reshape(len(values), *b.shape), 1, 0), b


def _columns_like(values: Float64[np.ndarray, " n"], array: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *[1] * (array.ndim - 1))


def _inverse(
    values: Float64[np.ndarray, " n"], ridges: Float64[np.ndarray, " r"]
) -> Float64[np.ndarray, "n r"]:
    return 1 / (values[:, None] + ridges[None, :])


def _mean_square(missed: Float64[np.ndarray, "r t *c"]) -> Float64[np.ndarray, " r"]:
    return np.sum(missed.reshape(len(missed), -1) ** 2, axis=1) / missed.shape[1]
