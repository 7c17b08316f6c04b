# SPDX-License-Identifier: Apache-2.0
"""Lemma 5.3: how far the hidden layer moves in all, with every error term of the proof."""

import math

import equinox as eqx

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry
from unlazy.papers.arora2019.perturbation import perturbation_bounds
from unlazy.papers.shared.conditions import check_delta


class MovementBound(eqx.Module):
    r"""A bound on $\|W(k) - W(0)\|_F$ for every k, as the sum of its leading and error terms.

    The terms are formulas; they add up to a bound where `holds` is True, and else `value` is `inf`.
    """

    leading: float  # sqrt(y^T H^-1 y), the movement of the infinitely wide network
    initial_output: float  # what fitting away u(0) adds
    initial_gram: float  # from H(0) instead of H
    feature_drift: float  # from Z(k) instead of Z(0)
    residual_drift: float  # from residuals that leave the kernel's prediction
    neuron_movement: float  # R: no neuron moves farther
    deviation: float  # Delta, on |H(k) - H| and what switching neurons add, for every k
    largest_deviation: float  # lambda_0 - mu: up to it the residual contracts

    @property
    def errors(self) -> float:
        """The sum of all terms but the leading one."""
        return self.initial_output + self.initial_gram + self.feature_drift + self.residual_drift

    @property
    def holds(self) -> bool:
        """Whether the network is wide enough for the proof: the residual contracts."""
        return self.deviation <= self.largest_deviation

    @property
    def value(self) -> float:
        """The bound, infinite where the proof does not apply."""
        return self.leading + self.errors if self.holds else math.inf


@entry
def movement_bound(
    energy: int | float,
    n: int,
    m: int,
    *,
    smallest_eigenvalue: int | float,
    init_scale: int | float,
    delta: float,
    label_norm: int | float | None = None,
) -> MovementBound:
    r"""Lemma 5.3: a bound on the movement of the hidden layer, with its error terms in numbers.

    $$\|W(k) - W(0)\|_F \le \sqrt{M}
    + \frac{\sqrt n\, \|u(0)\|}{\lambda_0}
    + \sqrt{M} \Big(\sqrt{1 + \tfrac{h}{\lambda_0}} - 1\Big)
    + \frac{z \|y\|}{\lambda_0}
    + \frac{\sqrt n\, \Delta\, r}{\mu \lambda_0}$$

    for all k, with probability 1 - delta over a Gaussian start of scale $\kappa$, the `init_scale`,
    for learning rates up to $1/\lambda_{\max}$, when $\Delta \le \lambda_0 - \mu$. Here
    $\mu = \lambda_0/4$, $M = y^\top H^{-1} y$ is the
    `energy` and $r = \|y\| + \|u(0)\|$. The rest are bounds, each of failure probability
    $\delta/3$: $\|u(0)\| \le \sqrt{3n/(2\delta)}\,\kappa$ (Markov), and, both by
    `perturbation_bounds` with the residual r, $h$ on $\|H(0) - H\|$ and $z$ on
    $\|Z(k) - Z(0)\|_F$, which gives

    $$\Delta = h + 2n z^2 + 2\sqrt n\, z^2.$$

    The first error term is the $O(n\kappa/\lambda_0)$ of the lemma, the other three its
    $\mathrm{poly}(n, 1/\lambda_0, 1/\delta)\, m^{-1/4} \kappa^{-1/2}$. No constant is hidden, and
    Theorem 3.1 is not assumed: $\Delta \le \lambda_0 - \mu$ proves the contraction by induction.
    The condition asks for $10^{16}$ neurons at ten samples with $\lambda_0 = 0.2$ and $\kappa = 1$.
    `lazy_certificate` has the same bound for one given start, where it holds far earlier.

    Source: AR-13, arXiv:1901.08584 Lemma 5.3 and Appendix D.1; the sums of the proof are evaluated
    here, and Markov's inequality for u(0) is that of the mean square, $\sqrt\delta$ for $\delta$.

    Args:
        energy: $M$, from `labels.energy`.
        n: number of samples, of unit norm.
        m: width.
        smallest_eigenvalue: $\lambda_0$ of H-infinity.
        init_scale: $\kappa$.
        delta: failure probability of the whole.
        label_norm: $\|y\|$; None takes $\sqrt n$, the largest of labels in [-1, 1].

    Example:
        >>> bound = movement_bound(
        ...     40.0, 10, 10**26, smallest_eigenvalue=0.2, init_scale=1e-3, delta=0.1)
        >>> print(bound.holds, round(bound.leading, 3), round(bound.errors, 3))
        True 6.325 0.355
    """
    _check_energy(energy)
    check_count(n, "n", most=None)
    check_count(m, "m", most=None)
    check_positive(smallest_eigenvalue, "smallest_eigenvalue")
    check_positive(init_scale, "init_scale")
    check_delta(delta)
    if label_norm is not None:
        check_positive(label_norm, "label_norm")
    norm = math.sqrt(n) if label_norm is None else float(label_norm)
    output = math.sqrt(3 * n / (2 * delta)) * init_scale
    lam0 = float(smallest_eigenvalue)
    moved = perturbation_bounds(
        n,
        m,
        residual=norm + output,
        smallest_eigenvalue=lam0,
        init_scale=init_scale,
        delta=delta / 3,
    )
    band = moved.feature_drift**2
    return movement_terms(
        energy=float(energy),
        n=n,
        label_norm=norm,
        smallest_eigenvalue=lam0,
        rate=lam0 / 4,
        initial_gram=moved.initial_gram,
        deviation=moved.initial_gram + moved.gram_drift + 2 * math.sqrt(n) * band,
        band=band,
        initial_output=output,
        residual=norm + output,
        neuron_movement=moved.neuron_movement,
    )


def movement_terms(
    *,
    energy: float,
    n: int,
    label_norm: float,
    smallest_eigenvalue: float,
    rate: float,
    initial_gram: float,
    deviation: float,
    band: float,
    initial_output: float,
    residual: float,
    neuron_movement: float,
) -> MovementBound:
    r"""The terms from what is known of a start; nothing here is random.

    `rate` is $\mu$ and `band` the sum over samples of the share of neurons that may switch, which
    is at least $\|Z(k) - Z(0)\|_F^2$. With $\|u(k) - y\| \le (1 - \eta\mu)^k r$ the sums over steps
    are geometric: $\eta \sum_k (1 - \eta\lambda_0)^k \le 1/\lambda_0$, and the residual's distance
    from the prediction sums to $\Delta r/(\mu\lambda_0)$. $H^{-1} y$ has norm at most
    $\sqrt{M/\lambda_0}$.
    """
    lam0 = smallest_eigenvalue
    if rate <= 0:  # a singular kernel: nothing contracts
        terms = ("initial_output", "initial_gram", "feature_drift", "residual_drift")
        return MovementBound(
            leading=math.sqrt(energy),
            **dict.fromkeys(terms, math.inf),
            neuron_movement=neuron_movement,
            deviation=deviation,
            largest_deviation=lam0 - rate,
        )
    ratio = initial_gram / lam0
    return MovementBound(
        leading=math.sqrt(energy),
        initial_output=math.sqrt(n) * initial_output / lam0,
        # sqrt(1 + t) - 1, in the form that keeps its digits at small t.
        initial_gram=math.sqrt(energy) * ratio / (math.sqrt(1 + ratio) + 1),
        feature_drift=math.sqrt(band) * label_norm / lam0,
        residual_drift=math.sqrt(n) * deviation * residual / (rate * lam0),
        neuron_movement=neuron_movement,
        deviation=deviation,
        largest_deviation=lam0 - rate,
    )


def _check_energy(energy: int | float) -> None:
    if not 0 <= energy < math.inf:
        raise ValueError(
            f"`energy` must be finite and >= 0, got energy={energy}. Use labels.energy(H, y); "
            "labels in conflict have no bound."
        )
