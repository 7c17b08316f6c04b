# SPDX-License-Identifier: Apache-2.0
"""Theorem 5.1: bounds on the population loss, from the labels or from a trained network."""

import math
from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from unlazy.core.checks import check_count, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import TwoLayerParams
from unlazy.papers.arora2019.rademacher import sharp_parts
from unlazy.papers.shared.activation_patterns import Inputs, check_network
from unlazy.papers.shared.conditions import check_delta

Variant = Literal["leading", "paper", "self-tuned"]
_VARIANTS = ("leading", "paper", "self-tuned")


@entry
def uniform_convergence(
    rademacher: int | float,
    n: int,
    *,
    delta: float,
    lipschitz: int | float = 1.0,
    largest_loss: int | float = 1.0,
) -> float:
    r"""How far the population loss of any function in a class may lie above its training loss.

    $$\sup_f \big(L_D(f) - L_S(f)\big) \le 2 \rho\, \mathcal R_S
    + 3c \sqrt{\frac{\log(2/\delta)}{2n}}$$

    with probability 1 - delta over the sample, for losses in $[0, c]$, `largest_loss`, that are
    $\rho$-Lipschitz in the prediction, `lipschitz`. `rademacher` is the empirical Rademacher
    complexity $\mathcal R_S$ of the class, or a bound on it.

    Source: AR-16, arXiv:1901.08584 Theorem B.1 (Mohri, Rostamizadeh and Talwalkar, 2012).

    Example:
        >>> round(uniform_convergence(0.1, 1000, delta=0.05), 4)
        0.3288
    """
    if not rademacher >= 0:
        raise ValueError(f"`rademacher` must be >= 0, got rademacher={rademacher}.")
    check_count(n, "n", most=None)
    check_delta(delta)
    check_positive(lipschitz, "lipschitz")
    check_positive(largest_loss, "largest_loss")
    return 2 * lipschitz * rademacher + 3 * largest_loss * _deviation(2 / delta, n)


@entry
def population_loss(
    energy: int | float,
    n: int,
    *,
    variant: Variant = "self-tuned",
    delta: float = 0.05,
    training_loss: int | float = 0.0,
    smallest_eigenvalue: int | float | None = None,
) -> float:
    r"""A bound on the population loss of the trained, wide network, from the labels alone.

    With $M = y^\top H^{-1} y$ the `energy`, for any loss in [0, 1] that is 1-Lipschitz in the
    prediction and zero at the label:

    - "leading": $\sqrt{2M/n}$, the term that the theorem names; not a bound by itself.
    - "paper": the paper's chain with its constants,
      $$\sqrt{\frac{2M}n} + \frac5{\sqrt n} + 3\sqrt{\frac{\log(6N/\delta)}{2n}}, \qquad
      N = \Big\lceil\sqrt{n/\lambda_0}\Big\rceil + 1:$$
      $1/\sqrt n$ for the training loss, $4/\sqrt n$ of slack for rounding $\sqrt M$ up and for the
      width, a union over $N$ radii. Valid from `chain_width` on, where the errors of finite width
      are below that slack; `population_loss_chain` has them in numbers.
    - "self-tuned": $L_S + i \sqrt{2/n} + 3\sqrt{\log(2i(i+1)/\delta)/(2n)}$ with
      $i = \max(1, \lceil\sqrt M\rceil)$,
      for the infinitely wide network (`KernelDynamics.outputs`), with no $\lambda_0$. $L_S$ is its
      training loss, zero when it interpolates.

    For labels $\pm 1$ the bounds hold for the error rate as well, through the ramp loss (Corollary
    5.2). A value above 1 says nothing, but is not clipped: it still ranks label sets. For a network
    of finite width see `population_loss_trained`.

    Source: AR-17 (a), (b) and (c), arXiv:1901.08584 Theorem 5.1; the constants of (b) follow the
    paper's proof, (c) is derived.

    Args:
        energy: $M$, from `labels.energy`; `inf`, for labels in conflict, gives `inf`.
        n: number of samples.
        variant: which bound.
        delta: failure probability; "leading" has none.
        training_loss: $L_S$, of "self-tuned" only.
        smallest_eigenvalue: $\lambda_0$ of $H$, for "paper" only: the bound is about the data
            distribution, so a number fixed before seeing the sample.

    Example:
        >>> print(population_loss(50.0, 10_000, variant="leading"))
        0.1
        >>> round(population_loss(50.0, 10_000), 3)
        0.173
    """
    check_name(variant, _VARIANTS, "variant")
    check_count(n, "n", most=None)
    check_delta(delta)
    if not energy >= 0:
        raise ValueError(f"`energy` must be >= 0, got energy={energy}. Use labels.energy(H, y).")
    if not training_loss >= 0:
        raise ValueError(f"`training_loss` must be >= 0, got training_loss={training_loss}.")
    radii = _radii(n, smallest_eigenvalue) if variant == "paper" else 0
    if math.isinf(energy):
        return math.inf
    leading = math.sqrt(2 * energy / n)
    if variant == "leading":
        return leading
    if variant == "paper":
        return leading + 5 / math.sqrt(n) + 3 * _deviation(6 * radii / delta, n)
    radius = max(1, math.ceil(math.sqrt(energy)))
    confidence = 3 * _deviation(2 * radius * (radius + 1) / delta, n)
    return training_loss + radius * math.sqrt(2 / n) + confidence


def _radii(n: int, smallest_eigenvalue: int | float | None) -> int:
    if smallest_eigenvalue is None:
        raise ValueError(
            "`smallest_eigenvalue` must be given for variant='paper', got "
            "smallest_eigenvalue=None. Use variant='self-tuned' to do without."
        )
    check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    return math.ceil(math.sqrt(n / smallest_eigenvalue)) + 1


def _deviation(ratio: float, n: int) -> float:
    return math.sqrt(math.log(ratio) / (2 * n))


@entry
def sample_size(
    energy: int | float,
    loss: int | float,
    *,
    variant: Variant = "self-tuned",
    delta: float = 0.05,
    smallest_eigenvalue: int | float | None = None,
) -> int | float:
    r"""How many samples bring the bound on the population loss down to `loss`.

    $$n = \min\{n: \texttt{population\_loss}(M_g, n) \le \epsilon\},
    \qquad \text{to leading order } 2 M_g / \epsilon^2,$$

    for a target function whose energy stays below $M_g$ whatever the sample, as `learnable` gives:
    `energy` is the square of its bound. Infinite when `energy` is. The other arguments are those of
    `population_loss`. In "paper" the rounding of $N$ makes the bound fall not quite monotonically:
    the result is an n that reaches `loss` while n - 1 does not.

    Source: AR-17, arXiv:1901.08584 Theorem 6.1 (the sample complexity of learnable functions).

    Example:
        >>> sample_size(4.0, 0.1, variant="leading")
        800
    """
    check_positive(loss, "loss")

    def reaches(n: int) -> bool:
        options = {"delta": delta, "smallest_eigenvalue": smallest_eigenvalue}
        return population_loss(energy, n, variant=variant, **options) <= loss

    if reaches(1):
        return 1
    if math.isinf(energy):
        return math.inf
    high = 2
    while not reaches(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


class TrainedBound(eqx.Module):
    """A bound on the population loss, and the parts that it is the sum of."""

    training_loss: float
    linear: float  # twice the complexity of the linearised class
    residual: float  # twice what the ReLUs that may switch add to it
    confidence: float
    distance: float  # B_i, the distance from the start rounded up to the grid
    neuron_distance: float  # R_j, that of the neuron that moved most, rounded up

    @property
    def value(self) -> float:
        """The bound."""
        return self.training_loss + self.linear + self.residual + self.confidence


@entry
def population_loss_trained(
    params0: TwoLayerParams,
    params: TwoLayerParams,
    x: Inputs,
    *,
    training_loss: int | float,
    delta: float = 0.05,
    smallest_neuron_distance: float = 1e-6,
    neuron_distance_ratio: float = 1.1,
) -> TrainedBound:
    r"""A bound on the population loss of a network after training, at any width.

    $$L_S + 2 \mathcal R(R_j, B_i) + 3\sqrt{\frac{\log(2\, i(i+1)\, j(j+1)/\delta)}{2n}}$$

    with $\mathcal R$ that of `rademacher_sharp`, $B_i = i \ge \|W - W(0)\|_F$ and
    $R_j = R_0 t^j \ge \max_r \|w_r - w_r(0)\|$, the smallest $i, j \ge 1$ that do. It holds with
    probability 1 - delta for every $W$ at once, however it was found; only the hidden layer may
    have been trained. Its residual falls like $m^{-1/2}$ and dominates at practical widths.

    Source: AR-17d, derived from arXiv:1901.08584 Theorem 5.1.

    Args:
        params0: the start, drawn independently of the sample.
        params: the trained network; its output weights are those of the start.
        x: training inputs.
        training_loss: mean loss on the sample, by a loss in [0, 1] that is 1-Lipschitz in the
            prediction, such as `losses.ramp_loss`.
        delta: failure probability.
        smallest_neuron_distance: $R_0$, fixed before training.
        neuron_distance_ratio: $t$, fixed before training. 1.1 is better than 2, because the
            residual grows like $R^2$.

    Example:
        >>> import jax, unlazy as ul
        >>> start = ul.nets.TwoLayer(3, 100).init(key=jax.random.key(0))
        >>> end = eqx.tree_at(lambda p: p.W, start, start.W + 0.01)
        >>> bound = population_loss_trained(start, end, jnp.eye(3), training_loss=0.0)
        >>> print(bound.distance, round(bound.neuron_distance, 4))
        1.0 0.0183
    """
    check_network(params0.W, x)
    check_delta(delta)
    check_positive(smallest_neuron_distance, "smallest_neuron_distance")
    if not 0 <= training_loss <= 1:
        raise ValueError(
            f"`training_loss` must be in [0, 1], got training_loss={training_loss}. "
            "Use the mean of ramp_loss or clipped_absolute_loss."
        )
    if not neuron_distance_ratio > 1:
        raise ValueError(
            "`neuron_distance_ratio` must be above 1, "
            f"got neuron_distance_ratio={neuron_distance_ratio}."
        )
    moved, neuron_moved = _movement(params0, params)
    i = max(1, math.ceil(moved))
    j, R = _rounded_up(neuron_moved, smallest_neuron_distance, neuron_distance_ratio)
    parts = sharp_parts(params0, x, i, R)
    return TrainedBound(
        training_loss=float(training_loss),
        linear=2 * parts.linear,
        residual=2 * parts.residual,
        confidence=3 * _deviation(2 * i * (i + 1) * j * (j + 1) / delta, x.shape[0]),
        distance=float(i),
        neuron_distance=R,
    )


def _movement(params0: TwoLayerParams, params: TwoLayerParams) -> tuple[float, float]:
    """The distances that the hidden layer and its farthest neuron moved."""
    if params0.W.shape != params.W.shape or not bool(jnp.all(params0.a == params.a)):
        raise ValueError(
            "`params` must have the shape and the output weights of `params0`, got "
            f"params.W.shape={params.W.shape} and params0.W.shape={params0.W.shape}. "
            "The bound is for networks whose hidden layer alone was trained."
        )
    with float64():
        dW = jnp.asarray(params.W, jnp.float64) - jnp.asarray(params0.W, jnp.float64)
        rows = jnp.linalg.norm(dW, axis=1)
        return float(jnp.linalg.norm(rows)), float(jnp.max(rows))


def _rounded_up(value: float, smallest: float, ratio: float) -> tuple[int, float]:
    """The least j >= 1 with smallest * ratio**j >= value, and that power."""
    j = 1
    if value > smallest * ratio:
        j = max(1, math.ceil(math.log(value / smallest) / math.log(ratio)) - 1)
    while smallest * ratio**j < value:
        j += 1
    return j, smallest * ratio**j
