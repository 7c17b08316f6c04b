# SPDX-License-Identifier: Apache-2.0
"""Theorem 3.1: how large the loss may be at the start, and whether it contracts at every step."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from unlazy.core.checks import check_count, check_finite, check_positive, check_real
from unlazy.core.entries import entry
from unlazy.papers.shared.conditions import check_delta


@entry
def initial_loss(
    n: int, *, init_scale: int | float, delta: float, label_norm: int | float | None = None
) -> float:
    r"""Theorem 3.1: what the loss does not exceed at the start, with probability 1 - delta.

    $$\Phi(0) \le \frac1{2\delta} \Big(\|y\|^2 + \frac{n\kappa^2}2\Big)$$

    by Markov's inequality: what is divided by $\delta$ is the mean over Gaussian starts of scale
    $\kappa$, the `init_scale`, exactly, for n samples of unit norm. The paper has $O(n/\delta)$,
    which this is for labels in [-1, 1] and $\kappa \le 1$.

    Source: AR-2, arXiv:1901.08584 Theorem 3.1; the constant is derived.

    Args:
        n: number of samples.
        init_scale: $\kappa$.
        delta: failure probability.
        label_norm: $\|y\|$; None takes $\sqrt n$, the largest of labels in [-1, 1].

    Example:
        >>> initial_loss(100, init_scale=1.0, delta=0.1)
        750.0
    """
    check_count(n, "n", most=None)
    check_positive(init_scale, "init_scale")
    check_delta(delta)
    if label_norm is not None:
        check_positive(label_norm, "label_norm")
    squared = float(n) if label_norm is None else float(label_norm) ** 2
    return (squared + n * float(init_scale) ** 2 / 2) / (2 * delta)


class Contraction(eqx.Module):
    """What the loss did at its slowest step, beside what Theorem 3.1 promises."""

    worst: float  # largest ratio of a loss to the one before, per step
    promised: float  # 1 - learning_rate * lambda_0 / 2
    step: int  # after which the worst ratio happened

    @property
    def holds(self) -> bool:
        """Whether every step contracted at least as much as promised."""
        return self.worst <= self.promised


@entry
def contraction(
    loss: Float[Array | np.ndarray, " T"],
    *,
    learning_rate: int | float,
    smallest_eigenvalue: int | float,
    steps: Int[Array | np.ndarray, " T"] | None = None,
    floor: float = 1e-8,
) -> Contraction:
    r"""Compare the losses of a run with the contraction that Theorem 3.1 promises.

    $$\Phi(k+1) \le \Big(1 - \frac{\eta\lambda_0}2\Big)\, \Phi(k) \qquad \text{for all } k \ge 0$$

    for $\Phi$ half the sum of squares, the `loss` that `gram_descent` and `train.fit` with
    `SquaredError` record, $\eta$ the `learning_rate` and $\lambda_0$ the `smallest_eigenvalue` of
    H-infinity. The theorem promises it for networks far wider than any; the check says whether a
    real one keeps it. The kernel itself does: its slowest labels contract by
    $(1 - \eta\lambda_0)^2$. A mean of squares has other rates: convert the learning rate first.

    Source: AR-48, arXiv:1901.08584 Theorem 3.1.

    Args:
        loss: at increasing steps, at least two.
        learning_rate: of descent on the sum of squares.
        smallest_eigenvalue: of H-infinity.
        steps: the steps of the losses, where not every one was recorded; between two of them the
            ratio per step is the geometric mean.
        floor: share of the first loss below which steps are left out, because rounding decides
            there. The default suits float32.

    Example:
        >>> found = contraction(np.array([8.0, 4.0, 3.0]), learning_rate=0.5, smallest_eigenvalue=1)
        >>> print(found.worst, found.promised, found.step, found.holds)
        0.75 0.75 1 True
    """
    check_positive(learning_rate, "learning_rate")
    check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    if not 0 <= floor < 1:
        raise ValueError(f"`floor` must be in [0, 1), got floor={floor!r}.")
    losses, at = _checked(loss, steps)
    ends = losses[1:] > floor * losses[0]
    if not ends[0]:  # converged in one step: nothing is slower
        ends[0] = True
    ratios = (losses[1:] / np.where(losses[:-1] > 0, losses[:-1], np.inf)) ** (1 / np.diff(at))
    slowest = int(np.argmax(np.where(ends, ratios, -np.inf)))
    return Contraction(
        worst=float(ratios[slowest]),
        promised=1 - float(learning_rate) * float(smallest_eigenvalue) / 2,
        step=int(at[slowest]),
    )


def _checked(loss, steps) -> tuple[np.ndarray, np.ndarray]:
    check_real(loss, "loss")
    check_finite(loss, "loss")
    losses = np.asarray(loss, np.float64)
    if losses.ndim != 1 or len(losses) < 2 or np.any(losses < 0) or losses[0] == 0:
        raise ValueError(
            "`loss` must be two or more losses >= 0, the first above zero, "
            f"got loss.shape={losses.shape}."
        )
    at = np.arange(len(losses)) if steps is None else np.asarray(steps)
    if at.shape != losses.shape or np.any(np.diff(at) < 1):
        raise ValueError(
            f"`steps` must be {len(losses)} increasing step numbers, one per loss, "
            f"got steps.shape={at.shape}."
        )
    return losses, at
