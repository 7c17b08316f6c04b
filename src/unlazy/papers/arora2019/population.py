# SPDX-License-Identifier: Apache-2.0
"""From the label energy to a bound on the loss over the whole population, and to a sample size."""

import math
from typing import Literal

from unlazy.core.checks import check_count, check_name, check_positive
from unlazy.core.entries import entry
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

    with probability 1 - delta over the sample, for losses in $[0, c]$ that are $\rho$-Lipschitz in
    the prediction.

    Source: AR-16, arXiv:1901.08584 Theorem B.1 (Mohri, Rostamizadeh and Talwalkar, 2012).

    Args:
        rademacher: empirical Rademacher complexity $\mathcal R_S$ of the class, or a bound on it.
        n: number of samples.
        delta: failure probability.
        lipschitz: $\rho$.
        largest_loss: $c$.

    Raises:
        ValueError: `rademacher` is negative, `delta` is not in (0, 1) or another number not
            positive.

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
      width, a union over $N$ radii. Valid once the errors of finite width are below that slack.
    - "self-tuned": $$L_S + i \sqrt{\frac2n} + 3\sqrt{\frac{\log(2i(i+1)/\delta)}{2n}}, \qquad
      i = \max(1, \lceil\sqrt M\rceil),$$
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

    Raises:
        ValueError: a number is out of range, or `smallest_eigenvalue` is missing for "paper".

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
    if variant == "paper":
        if smallest_eigenvalue is None:
            raise ValueError(
                "`smallest_eigenvalue` must be given for variant='paper', got "
                "smallest_eigenvalue=None. Use variant='self-tuned' to do without."
            )
        check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    if math.isinf(energy):
        return math.inf
    leading = math.sqrt(2 * energy / n)
    if variant == "leading":
        return leading
    if variant == "paper":
        assert smallest_eigenvalue is not None
        radii = math.ceil(math.sqrt(n / smallest_eigenvalue)) + 1
        return leading + 5 / math.sqrt(n) + 3 * _deviation(6 * radii / delta, n)
    radius = max(1, math.ceil(math.sqrt(energy)))
    confidence = 3 * _deviation(2 * radius * (radius + 1) / delta, n)
    return training_loss + radius * math.sqrt(2 / n) + confidence


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

    for a target function whose energy stays below $M_g$ whatever the sample, as `learnable` gives.

    Source: AR-17, arXiv:1901.08584 Theorem 6.1 (the sample complexity of learnable functions).

    Args:
        energy: $M_g$, a bound on $y^\top H^{-1} y$ for all n; the square of what `learnable` gives.
        loss: $\epsilon$.
        variant: as in `population_loss`. In "paper" the rounding of $N$ makes the bound fall not
            quite monotonically: the result is an n that reaches `loss` while n - 1 does not.
        delta: failure probability.
        smallest_eigenvalue: as in `population_loss`.

    Returns:
        The number of samples; `inf` when `energy` is.

    Raises:
        ValueError: `loss` is not positive, or as `population_loss`.

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


def _deviation(ratio: float, n: int) -> float:
    return math.sqrt(math.log(ratio) / (2 * n))
