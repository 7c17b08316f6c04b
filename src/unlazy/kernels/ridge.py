# SPDX-License-Identifier: Apache-2.0
"""Kernel ridge regression for many ridges at once, from one eigendecomposition."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_finite, check_gram, check_labels
from unlazy.core.entries import entry
from unlazy.linalg import eigh, gram_eigenvalues

# In units of the kernel's mean eigenvalue; by steps of 10^(1/4), and wide enough for both ends.
_RELATIVE = 10 ** np.linspace(-10, 3, 53)


class RidgePath(eqx.Module):
    r"""Kernel ridge regression along a path of ridges, as `ridge_path` gives it.

    $$f_\lambda(x) = k(x, X)\, (H + \lambda I)^{-1} y$$

    Source: RN-35, arXiv:1905.10337 section 8; leaving out is ours.
    """

    ridges: Float64[np.ndarray, " r"]  # lambda
    coefficients: Float64[np.ndarray, "r n *c"]  # (H + lambda I)^-1 y
    eigenvalues: Float64[np.ndarray, " n"]  # of H, largest first
    vectors: Float64[np.ndarray, "n n"]

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
        return np.moveaxis(np.tensordot(self.coefficients, cross, (1, 1)), -1, 1)

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

        In closed form: the error on a sample left out is $\alpha_i / [(H + \lambda I)^{-1}]_{ii}$,
        with the coefficients $\alpha$ of all samples. A ridge may be chosen by it.
        """
        inverse_diagonal = (self.vectors**2) @ _inverse(self.eigenvalues, self.ridges)
        missed = self.coefficients.reshape(*inverse_diagonal.T.shape, -1)
        return _mean_square(missed / inverse_diagonal.T[:, :, None])

    def degrees_of_freedom(self) -> Float64[np.ndarray, " r"]:
        r"""$\operatorname{tr} H (H + \lambda I)^{-1}$ for every ridge."""
        return self.eigenvalues @ _inverse(self.eigenvalues, self.ridges)


@entry
def ridge_path(
    H: Float[Array | np.ndarray, "n n"],
    y: Float[Array | np.ndarray, "n *c"],
    ridges: Sequence[float] | Float[Array | np.ndarray, " r"] | None = None,
) -> RidgePath:
    r"""Solve kernel ridge regression for a whole path of ridges, for all outputs.

    $$\min_f \sum_i (f(x_i) - y_i)^2 + \lambda \|f\|_H^2, \qquad
    f_\lambda(x) = k(x, X)\, (H + \lambda I)^{-1} y$$

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
    eigen = eigh(H)
    values, vectors = gram_eigenvalues(eigen.values), np.asarray(eigen.vectors)
    if chosen is None:
        chosen = np.mean(values) * _RELATIVE
    return RidgePath(chosen, _coefficients(values, vectors, y, chosen), values, vectors)


def _coefficients(
    values: Float64[np.ndarray, " n"],
    vectors: Float64[np.ndarray, "n n"],
    y: Float[Array | np.ndarray, "n *c"],
    ridges: Float64[np.ndarray, " r"],
) -> Float64[np.ndarray, "r n *c"]:
    n, outputs = len(values), np.shape(y)[1:]
    rotated = vectors.T @ np.asarray(y, np.float64).reshape(n, -1)
    shrunk = rotated[:, None, :] * _inverse(values, ridges)[:, :, None]
    found = vectors @ shrunk.reshape(n, -1)  # one product for all ridges and outputs
    return np.moveaxis(found.reshape(n, len(ridges), *outputs), 1, 0)


def _inverse(
    values: Float64[np.ndarray, " n"], ridges: Float64[np.ndarray, " r"]
) -> Float64[np.ndarray, "n r"]:
    return 1 / (values[:, None] + ridges[None, :])


def _mean_square(missed: Float64[np.ndarray, "r t *c"]) -> Float64[np.ndarray, " r"]:
    return np.sum(missed.reshape(len(missed), -1) ** 2, axis=1) / missed.shape[1]
