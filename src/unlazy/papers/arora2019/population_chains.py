# SPDX-License-Identifier: Apache-2.0
"""Appendix D.3: Theorem 5.1 for a network of finite width, with every error term in numbers."""

import math

import equinox as eqx

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry
from unlazy.papers.arora2019.movement_bounds import movement_bound
from unlazy.papers.shared.conditions import check_delta
from unlazy.papers.shared.rademacher import rademacher_probable

_MOST_DOUBLINGS = 900  # well within float64, which ends at 2^1024

# The parts that follow from the bound on the movement.
_OF_THE_MOVEMENT = "movement", "rounding", "features", "switching", "confidence", "radius", "radii"


class PopulationChain(eqx.Module):
    """The bound of Theorem 5.1 at one width, as the sum of its parts.

    Where the network is too narrow for Lemma 5.3, the parts that grow out of it are infinite.
    """

    training_loss: float
    leading: float  # sqrt(2 M / n)
    movement: float  # from the error terms of Lemma 5.3
    rounding: float  # from the radius, rounded up to an integer
    features: float  # from |Z(0)|_F, which may exceed its mean
    switching: float  # from neurons that may switch
    confidence: float  # of uniform convergence, at all radii at once
    radius: float  # B_i, the distance from the start that is allowed
    radii: float  # N, how many of them there are

    @property
    def width_errors(self) -> float:
        """What a finite width and a start of its own add."""
        return self.movement + self.features + self.switching

    @property
    def value(self) -> float:
        """The bound on the population loss."""
        known = self.training_loss + self.leading + self.rounding + self.confidence
        return known + self.width_errors

    @property
    def is_wide_enough(self) -> bool:
        """Whether all errors fit into the 4/sqrt(n) that `population_loss` has for "paper"."""
        return self.rounding + self.width_errors <= 4 * self.training_loss


@entry
def population_loss_chain(
    energy: int | float,
    n: int,
    m: int,
    *,
    smallest_eigenvalue: int | float,
    init_scale: int | float,
    delta: float = 0.05,
) -> PopulationChain:
    r"""Theorem 5.1 at a finite width: a bound on the population loss, without hidden constants.

    $$L_D \le \frac1{\sqrt n} + 2 \mathcal R(i, R)
    + 3\sqrt{\frac{\log(6N/\delta)}{2n}}, \qquad
    i = \lceil B \rceil \le N = \Big\lceil \sqrt{n/\lambda_0} + B - \sqrt M \Big\rceil$$

    with $B$ the bound on the movement and $R$ that on a neuron's, both by `movement_bound` at
    $\delta/6$, and $\mathcal R$ the Rademacher complexity by `papers.shared.rademacher_probable`,
    Lemma 5.4, at $\delta/6$. Another $\delta/3$ is for inputs that are degenerate (Definition 5.1,
    `nondegeneracy`), the last $\delta/3$ for the N radii, which are fixed before the sample is
    seen. It holds for labels in [-1, 1], losses in [0, 1] that are 1-Lipschitz in the prediction
    and zero at the label, and networks that are trained until $\|y - u\| \le 1$.

    As the width grows and $\kappa$ falls, it tends to $\sqrt{2M/n}$ plus terms of order
    $\sqrt{\log(n/(\lambda_0\delta))/n}$, as the theorem says. The widths at which that happens are
    astronomical: `chain_width`.

    Source: AR-17b, arXiv:1901.08584 Theorem 5.1 and Appendix D.3.

    Args:
        energy: $M$, from `labels.energy`, at most $n/\lambda_0$.
        n: number of samples, of unit norm.
        m: width.
        smallest_eigenvalue: $\lambda_0$, a number fixed before seeing the sample.
        init_scale: $\kappa$; the theorem takes about $\lambda_0\delta/n$.
        delta: failure probability of the whole.

    Example:
        >>> sizes = dict(smallest_eigenvalue=0.1, init_scale=1e-5, delta=0.1)
        >>> chain = population_loss_chain(20.0, 1000, 10**60, **sizes)
        >>> print(round(chain.leading, 3), round(chain.value, 3), chain.is_wide_enough)
        0.2 0.498 True
        >>> population_loss_chain(20.0, 1000, 10**9, **sizes).value
        inf
    """
    check_count(n, "n", most=None)
    check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    check_delta(delta)
    moved = movement_bound(
        energy,
        n,
        m,
        smallest_eigenvalue=smallest_eigenvalue,
        init_scale=init_scale,
        delta=delta / 6,
    )
    largest = math.sqrt(n / smallest_eigenvalue)
    if moved.leading > largest * (1 + 1e-9):
        raise ValueError(
            f"`energy` must be at most n / smallest_eigenvalue={largest**2:.6g}, "
            f"got energy={energy}. Labels in [-1, 1] cost no more."
        )
    known = {"training_loss": 1 / math.sqrt(n), "leading": math.sqrt(2 * energy / n)}
    if not moved.holds:
        return PopulationChain(**known, **dict.fromkeys(_OF_THE_MOVEMENT, math.inf))
    radius, radii = (max(1, math.ceil(end + moved.errors)) for end in (moved.leading, largest))
    sizes = {"neuron_distance": moved.neuron_movement, "init_scale": init_scale}
    complexity = rademacher_probable(n, m, distance=radius, delta=delta / 6, **sizes)
    per_distance = math.sqrt(2 / n)  # twice 1/sqrt(2n)
    features = radius * per_distance * (2 * math.log(12 / delta) / m) ** 0.25
    return PopulationChain(
        **known,
        movement=moved.errors * per_distance,
        rounding=(radius - moved.value) * per_distance,
        features=features,
        # The rest of the complexity; rounding may take it below zero.
        switching=max(2 * complexity - radius * per_distance - features, 0.0),
        confidence=3 * math.sqrt(math.log(6 * radii / delta) / (2 * n)),
        radius=float(radius),
        radii=float(radii),
    )


@entry
def chain_width(
    n: int,
    *,
    smallest_eigenvalue: int | float,
    init_scale: int | float,
    delta: float = 0.05,
) -> float:
    r"""The width from which the chain of Theorem 5.1 has errors of the order that it states.

    $$\min\big\{m : \text{all errors of the width} + \text{rounding} \le 4/\sqrt n\big\}$$

    for the costliest labels, $M = n/\lambda_0$. It stands for the theorem's
    $\kappa^{-2}\, \mathrm{poly}(n, 1/\lambda_0, 1/\delta)$, which the paper does not state: from
    this width on `population_loss(variant="paper")` is valid. It is found by doubling and is exact
    within a factor 2. It is infinite when $\kappa$ is too large for any width: fitting away the
    initial output then moves the weights too far.

    Source: AR-17b, arXiv:1901.08584 Theorem 5.1 and Appendix D.3. Arguments are those of
    `population_loss_chain`.

    Example:
        >>> print(f"{chain_width(100, smallest_eigenvalue=0.1, init_scale=1e-5):.0e}")
        3e+39
    """
    sizes = {"smallest_eigenvalue": smallest_eigenvalue, "init_scale": init_scale, "delta": delta}
    check_count(n, "n", most=None)
    check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    energy = n / smallest_eigenvalue

    def reaches(doublings: int) -> bool:
        return population_loss_chain(energy, n, 2**doublings, **sizes).is_wide_enough

    low, high = 0, _MOST_DOUBLINGS
    if not reaches(high):
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return float(2**high)
