# SPDX-License-Identifier: Apache-2.0
"""What a kernel predicts for training by gradient descent, in closed form."""

import math
import warnings
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import (
    as_array,
    check_finite,
    check_gram,
    check_labels,
    check_positive,
    check_real,
)
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.core.float64 import float64
from unlazy.kernels import KernelOperator
from unlazy.linalg.eigen import Eigen, eigh, gram_eigenvalues
from unlazy.linalg.lanczos import Quadrature, krylov_quadrature

__all__ = ["KernelDynamics"]


def __dir__() -> list[str]:
    return __all__


Steps = int | float | np.number | np.ndarray | Sequence
"""One step number or many; `math.inf` is the limit."""


class KernelDynamics(eqx.Module):
    r"""Full-batch gradient descent under a fixed kernel, solved by its eigendecomposition.

    The outputs on the training set start at zero and follow

    $$u(k+1) = u(k) - \eta H (u(k) - y), \qquad
    \|y - u(k)\|^2 = \sum_i (1 - \eta\lambda_i)^{2k} (v_i^\top y)^2,$$

    gradient descent with learning rate $\eta$ on the loss $\frac12 \sum_i (u_i - y_i)^2$, a sum and
    not a mean. For a network whose initial output $u(0)$ is not small, pass $y - u(0)$ as labels.
    With labels of shape (n, c) every squared quantity is summed over the columns.

    Source: AR-8 to AR-10, AR-12 and AR-13, arXiv:1901.08584 sections 4 and 5.

    Example:
        >>> flow = KernelDynamics.from_gram(jnp.diag(jnp.array([2.0, 1.0])), jnp.ones(2))
        >>> print(flow.learning_rate, flow.loss([0, 1, 2]))
        0.5 [1.      0.125   0.03125]
    """

    eigenvalues: Float64[np.ndarray, " r"]  # of H, largest first; Ritz values from an operator
    eigenvectors: Float64[Array, "n r"]  # in the columns
    projections: Float64[np.ndarray, "r *c"]  # v_i . y
    learning_rate: float
    error: float = 0.0  # estimate, relative to the initial loss and to the final movement

    @classmethod
    @entry
    def from_gram(
        cls,
        H: Float[Array | np.ndarray, "n n"],
        y: Float[Array | np.ndarray, "n *c"],
        *,
        learning_rate: float | None = None,
    ) -> "KernelDynamics":
        """Decompose a symmetric positive semi-definite `H`, in about 9 n^3 operations.

        A `learning_rate` of None means 1/lambda_max, the largest for which no component overshoots.

        Warns:
            UnlazyWarning: `learning_rate` is above 2/lambda_max, where the dynamics diverge.
        """
        H = as_array(H, "H")
        check_gram(H)
        return cls.from_eigen(eigh(H), y, learning_rate=learning_rate)

    @classmethod
    @entry
    def from_eigen(
        cls,
        eigen: Eigen,
        y: Float[Array | np.ndarray, "n *c"],
        *,
        learning_rate: float | None = None,
    ) -> "KernelDynamics":
        """Use an eigendecomposition that is at hand; otherwise as `from_gram`."""
        values, y = gram_eigenvalues(eigen.values), as_array(y, "y")
        check_labels(y, len(values))
        rate = _checked_rate(learning_rate, float(values[0]))
        with float64():
            projections = np.asarray(eigen.vectors.T @ jnp.asarray(y, jnp.float64))
        return cls(values, eigen.vectors, projections, rate)

    @classmethod
    @entry
    def from_operator(
        cls,
        H: KernelOperator,
        y: Float[Array | np.ndarray, "n *c"],
        *,
        learning_rate: float | None = None,
        tolerance: float = 1e-8,
        max_basis: int = 1000,
    ) -> "KernelDynamics":
        r"""Predict without the matrix, by Lanczos quadrature started at the labels.

        The eigenpairs are then Ritz pairs of the Krylov space of `y`, which represent the whole
        spectrum as Gauss nodes represent an integral. The loss, `movement` and `outputs` are exact
        for as many steps as there were Lanczos steps and converge fast beyond, while only the
        extreme eigenvalues are those of $H$. The space belongs to these labels: `with_labels` needs
        `from_gram`.

        Args:
            H: operator of a positive semi-definite Gram matrix.
            y: labels.
            learning_rate: None means 1/lambda_max.
            tolerance: of loss and movement, relative to the initial loss and the final movement.
            max_basis: dimension of the Krylov space at most; each takes a vector of memory.

        Warns:
            UnlazyWarning: `learning_rate` is above 2/lambda_max; the tolerance was not reached.
        """
        n = H.shape[0]
        check_labels(y, n)
        rule = krylov_quadrature(
            H.tiles.products(),
            np.asarray(y, np.float64).reshape(n, -1),
            _watched_curves,
            # A random column finds lambda_max even when the labels have no part there.
            companion=np.random.default_rng(0).standard_normal((n, 1)),
            tolerance=tolerance,
            max_basis=max_basis,
        )
        _warn_if_unsettled(rule)
        values = gram_eigenvalues(rule.nodes, n, eps=H.tiles.eps)
        rate = _checked_rate(learning_rate, float(values[0]))
        projections = rule.projections.reshape(-1, *np.shape(y)[1:])
        with float64():
            vectors = jnp.asarray(rule.vectors)
        return cls(values, vectors, projections, rate, rule.change)

    @entry
    def with_labels(self, y: Float[Array | np.ndarray, "n *c"]) -> "KernelDynamics":
        """The same kernel and learning rate for other labels, with no new decomposition.

        Not for dynamics from an operator, whose space is for their own labels only.
        """
        n, r = self.eigenvectors.shape
        if r < n:
            raise ValueError(
                "`with_labels` must have all eigenvectors, got dynamics from an operator with "
                f"{r} of {n}. Call from_operator with the new labels, or from_gram."
            )
        eigen = Eigen(self.eigenvalues, self.eigenvectors)
        return self.from_eigen(eigen, y, learning_rate=self.learning_rate)

    @property
    def energies(self) -> Float64[np.ndarray, " r"]:
        r"""Share of the labels on each eigenvector, $(v_i^\top y)^2 / \|y\|^2$; sums to one."""
        squares = self._squares
        total = squares.sum()
        return squares / total if total > 0 else squares

    @entry
    def residual(self, steps: Steps) -> Float64[np.ndarray, "*shape"]:
        r"""$\|y - u(k)\|$ at each of `steps`."""
        return np.asarray(np.sqrt(self._squared_residual(steps)))

    @entry
    def loss(self, steps: Steps) -> Float64[np.ndarray, "*shape"]:
        r"""$\frac12 \|y - u(k)\|^2$ at each of `steps`: a sum over the samples."""
        return np.asarray(self._squared_residual(steps) / 2)

    @entry
    def outputs(
        self, step: int | float, cross_gram: Float[Array | np.ndarray, "t n"] | None = None
    ) -> Float64[np.ndarray, "t *c"]:
        r"""Outputs after `step` steps, on the training set or on the points of `cross_gram`.

        $$f_k(x) = h(x)^\top V \operatorname{diag}\Big(\frac{1 - (1-\eta\lambda)^k}{\lambda}\Big)
        V^\top y$$

        The rows of `cross_gram` are $h(x)$, the kernel between a point and the training set. With
        `math.inf` steps this is the interpolating predictor $h(x)^T H^{-1} y$.
        """
        learnt = 1 - self._decay(step)
        with float64():
            if cross_gram is None:
                return np.asarray(self.eigenvectors @ _scale_rows(learnt, self.projections))
            _check_cross_gram(cross_gram, self.eigenvectors.shape[0])
            weights = _scale_rows(self._divided(learnt), self.projections)
            coefficients = self.eigenvectors @ weights
            return np.asarray(jnp.asarray(cross_gram, jnp.float64) @ coefficients)

    @entry
    def movement(self, step: int | float) -> float:
        r"""Distance $\|W(k) - W(0)\|_F$ that the linearised network has moved after `step` steps.

        $$\|W(k) - W(0)\|_F^2
        = \sum_i \frac{(1 - (1-\eta\lambda_i)^k)^2}{\lambda_i} (v_i^\top y)^2$$

        It never decreases for learning rates up to 1/lambda_max. `movement(math.inf)` is
        $\sqrt{y^\top H^{-1} y}$ when the labels can be interpolated. Otherwise `labels.energy` is
        infinite, while parts of the labels where the kernel vanishes move nothing.
        """
        learnt = 1 - self._decay(step)
        return float(np.sqrt(np.sum(self._divided(learnt) * learnt * self._squares)))

    @entry
    def steps_to(self, relative_loss: float) -> int | float:
        """Number of steps until the loss is at most `relative_loss`, in (0, 1], of the initial one.

        It is `math.inf` if the loss never is, because labels lie where the kernel vanishes. Raises
        for learning rates of 2/lambda_max or more, for which the loss need not fall.
        """
        if not 0 < relative_loss <= 1:
            raise ValueError(
                f"`relative_loss` must be in (0, 1], got relative_loss={relative_loss}."
            )
        if self.learning_rate * self.eigenvalues[0] >= 2:
            raise ValueError(
                "`learning_rate` must be below 2/lambda_max for the loss to fall, got "
                f"learning_rate={self.learning_rate:.4g} and "
                f"2/lambda_max={2 / self.eigenvalues[0]:.4g}."
            )
        goal = relative_loss * float(self.loss(0))
        if float(self.loss(math.inf)) > goal:
            return math.inf
        high = 1
        while float(self.loss(high)) > goal:
            high *= 2
        low = high // 2  # not reached at `low`, or `low` is 0
        if float(self.loss(0)) <= goal:
            return 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if float(self.loss(middle)) <= goal else (middle, high)
        return high

    @property
    def _squares(self) -> Float64[np.ndarray, " r"]:
        return (self.projections**2).reshape(len(self.eigenvalues), -1).sum(axis=1)

    def _squared_residual(self, steps: Steps) -> Float64[np.ndarray, "*shape"]:
        check_real(steps, "steps")
        k = np.asarray(steps, np.float64)
        if np.any(k < 0) or np.any(np.isnan(k)):
            raise ValueError(f"`steps` must be >= 0, got steps={steps}.")
        # A block of steps at a time: 10^4 samples times 10^4 steps would take 0.8 GB at once.
        flat = k.reshape(-1)
        size = max(1, 2**24 // len(self.eigenvalues))
        blocks = [flat[start : start + size] for start in range(0, flat.size, size)]
        with np.errstate(over="ignore"):  # above 2/lambda_max the prediction does diverge
            values = [self._log_decay_power(2 * block) @ self._squares for block in blocks]
        return np.concatenate([np.zeros(0), *values]).reshape(k.shape)

    def _log_decay_power(self, exponents: Float64[np.ndarray, " t"]) -> np.ndarray:
        r"""$|1 - \eta\lambda_i|^e$ for each exponent (row) and eigenvalue (column)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = self.learning_rate * self.eigenvalues
            # log1p keeps the digits of small eta lambda; log(0) is -inf, a weight of zero.
            log_factor = np.where(rate < 0.5, np.log1p(-rate), np.log(np.abs(1 - rate)))
            power = exponents[:, None] * log_factor[None, :]
        # At k = 0 nothing has moved, and a vanishing eigenvalue never moves: 0 * inf counts as 0.
        power = np.where(np.isnan(power), 0.0, power)
        return np.exp(power)

    def _decay(self, step: int | float) -> Float64[np.ndarray, " r"]:
        r"""$(1 - \eta\lambda_i)^k$, with its sign."""
        if not (step >= 0 and (math.isinf(step) or step == int(step))):
            raise ValueError(f"`step` must be an integer >= 0 or inf, got step={step}.")
        size = self._log_decay_power(np.array([float(step)]))[0]
        overshoots = self.learning_rate * self.eigenvalues > 1
        odd = math.isfinite(step) and int(step) % 2 == 1
        return np.where(overshoots & odd, -size, size)

    def _divided(self, learnt: Float64[np.ndarray, " r"]) -> Float64[np.ndarray, " r"]:
        """`learnt / eigenvalue`, zero where the eigenvalue is."""
        positive = self.eigenvalues > 0
        return np.where(positive, learnt / np.where(positive, self.eigenvalues, 1), 0)


def _check_cross_gram(cross_gram: Float[Array | np.ndarray, "t n"], n: int) -> None:
    if np.ndim(cross_gram) != 2 or np.shape(cross_gram)[1] != n:
        raise ValueError(
            f"`cross_gram` must have shape (t, {n}), one row a new point and one column a training "
            f"sample, got cross_gram.shape={np.shape(cross_gram)}."
        )
    check_finite(cross_gram, "cross_gram")


def _scale_rows(scale: Float64[np.ndarray, " n"], rows: Float64[np.ndarray, "n *c"]) -> Array:
    return jnp.asarray(scale.reshape(-1, *[1] * (rows.ndim - 1)) * rows)


def _watched_curves(
    nodes: Float64[np.ndarray, " r"], projections: Float64[np.ndarray, "r c"]
) -> Float64[np.ndarray, " w"]:
    """The values that must settle: the loss over many decades of steps, and the final movement."""
    rate = np.clip(nodes / max(float(nodes[0]), float(np.finfo(np.float64).tiny)), 0.0, 1.0)
    squares = np.sum(projections**2, axis=1)
    steps = 2.0 ** np.arange(0, 24, 2)
    with np.errstate(divide="ignore"):
        decay = np.exp(2 * steps[:, None] * np.log1p(-rate)[None, :])
    # The initial loss is added so that changes count relative to it: 1e-12 need not be exact.
    losses = np.sum(squares) + decay @ squares
    positive = rate > len(rate) * np.finfo(np.float64).eps
    movement = np.sqrt(np.sum(squares[positive] / rate[positive]))
    return np.append(losses, movement)


def _warn_if_unsettled(rule: Quadrature) -> None:
    if not rule.converged:
        warnings.warn(
            f"The Krylov space of dimension {len(rule.nodes)} is too small: loss or movement still "
            f"changed by a share {rule.change:.2g}. Give a larger `max_basis` or `tolerance`.",
            UnlazyWarning,
            stacklevel=user_level(),
        )


def _checked_rate(learning_rate: float | None, largest: float) -> float:
    """The learning rate, by default 1/lambda_max; warns if it is unstable."""
    learning_rate = 1 / largest if learning_rate is None else learning_rate
    check_positive(learning_rate, "learning_rate")
    learning_rate = float(learning_rate)
    if learning_rate * largest > 2:
        warnings.warn(
            f"learning_rate={learning_rate:.4g} is above 2/lambda_max={2 / largest:.4g}: the "
            f"linear dynamics diverge. Use 1/lambda_max={1 / largest:.4g}, or None.",
            UnlazyWarning,
            stacklevel=user_level(),
        )
    return learning_rate
