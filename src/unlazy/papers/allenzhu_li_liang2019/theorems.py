# SPDX-License-Identifier: Apache-2.0
"""Theorems 1 to 3: steps, rounds, samples and accuracies they ask for, with hidden constants 1."""

import math

import equinox as eqx

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry
from unlazy.papers.allenzhu_li_liang2019.concept_classes import ThreeLayerConcept, TwoLayerConcept
from unlazy.papers.shared.conditions import check_epsilon


class TwoLayerRates(eqx.Module):
    """The rates of Theorem 1, as decimal logarithms."""

    log10_steps: float  # T, with one fresh sample per step: a sample size, too
    log10_samples: float  # N, where the steps draw from a training set
    output_scale: float  # eps_a, the standard deviation of the output weights
    log10_c_eps: float  # the width is a polynomial in it
    log10_c_s: float
    admissible: bool  # whether epsilon is as small as the theorem assumes
    outputs: int  # k
    reason: str | None = None  # why one is infinite

    @entry
    def learning_rate(self, m: int) -> float:
        r"""The step size at width m: $\eta = 1/(\varepsilon k m)$."""
        check_count(m, "m", most=None)
        return 1 / (self.output_scale * self.outputs * m)


class ThreeLayerRates(eqx.Module):
    """The rates of Theorems 2 and 3, as decimal logarithms."""

    log10_epsilon: float  # the accuracy at which the complexities are taken
    log10_C0: float
    log10_samples: float  # of the second variant, with random signs
    log10_accuracy: float  # eps_0, the accuracy aimed at
    reason: str | None = None  # why one is infinite

    @entry
    def log10_samples_first(self, m: int, M: int | float) -> float:
        r"""The first variant: $N \ge M m^{3/2}$, M a polynomial in $C_0$ and $1/\varepsilon_0$."""
        check_count(m, "m", most=None)
        check_positive(M, "M")
        return math.log10(M) + 1.5 * math.log10(m)

    @entry
    def rounds(self, widths: tuple[int, int], *, decay: float) -> int:
        r"""The rounds of Algorithms 2 and 3: $T = \eta^{-1} \log(\log(m_1 m_2)/\varepsilon_0)$.

        With the decay $\eta$ of the multiplier per round, the multiplier ends near
        $\lambda_T = e^{-\eta T} = \varepsilon_0/\log(m_1 m_2)$.

        Source: LG-22, arXiv:1811.04918 Lemma 6.8.
        """
        for name, m in zip(("m1", "m2"), widths, strict=True):
            check_count(m, name, most=None)
        if widths[0] * widths[1] < 3:
            raise ValueError(f"`widths` must have a product of at least 3, got widths={widths}.")
        check_epsilon(decay, "decay")
        goal = math.log(math.log(widths[0] * widths[1])) - self.log10_accuracy * math.log(10)
        return math.ceil(goal / decay)


@entry
def two_layer_rates(
    concept: TwoLayerConcept, *, epsilon: float, constant: int | float = 2.0
) -> TwoLayerRates:
    r"""Rates of Theorem 1, for a concept of two-layer learners and accuracy $\varepsilon$.

    $$T \sim \frac{C_s(\phi, 1)^2\, k^3 p^2}{\varepsilon^2}, \qquad
    \varepsilon < \frac{1}{p\, k\, C_s(\phi, 1)}, \qquad
    m \ge \mathrm{poly}(C_\varepsilon(\phi, 1), 1/\varepsilon), \qquad
    \varepsilon_a = \varepsilon, \quad \eta = \frac{1}{\varepsilon k m}, \quad N \ge T^2$$

    The paper says of N that it is a polynomial. This one is that of the proof: no neuron moves
    further than $\tau = \varepsilon_a \eta T$ (Lemma B.3), and the complexities of k outputs, of
    $\varepsilon_a m \tau/\sqrt N$ each (Lemma B.5), add up to at most $\varepsilon$. All are with
    constant 1 and without logarithms, never a certified bound. `constant` is $C^*$ of
    `function_complexity`.

    Source: LG-6, arXiv:1811.04918 Theorem 1.

    Example:
        >>> import numpy as np
        >>> e = np.eye(3)
        >>> concept = TwoLayerConcept(np.ones(1), ["identity"], e[:1], e[2:])
        >>> rates = two_layer_rates(concept, epsilon=0.1, constant=1.0)
        >>> print(round(10**rates.log10_steps), rates.admissible)
        1131 True
        >>> print(rates.output_scale, round(rates.learning_rate(2000), 6))
        0.1 0.005
    """
    complexity = concept.complexity(epsilon=epsilon, constant=constant)
    p, k = len(concept.functions), _outputs(concept)
    size = math.log10(p) + math.log10(k) + complexity.log10_c_s
    steps = 2 * complexity.log10_c_s + _log(k, 3) + _log(p, 2) - 2 * math.log10(epsilon)
    return TwoLayerRates(
        log10_steps=steps,
        log10_samples=2 * steps,
        output_scale=float(epsilon),
        log10_c_eps=complexity.log10_c_eps,
        log10_c_s=complexity.log10_c_s,
        admissible=math.log10(epsilon) < -size,
        outputs=k,
        reason=complexity.reason,
    )


@entry
def three_layer_rates(
    concept: ThreeLayerConcept, *, epsilon: float, constant: int | float = 2.0
) -> ThreeLayerRates:
    r"""Rates of Theorems 2 and 3, for a concept of three-layer learners.

    $$\varepsilon = \frac{\varepsilon_0}{k\, p_1 p_2^2\, C_s(\Phi, p_2 C_s(\phi, 1))\,
    C_s(\phi, 1)^2}, \qquad C_0 = C_\varepsilon(\Phi, \sqrt{p_2}\, C_\varepsilon(\phi, 1))\,
    C_\varepsilon(\phi, 1)\, p_1 \sqrt{p_2}\, k, \qquad
    N \ge \Big(\frac{k C_0}{\varepsilon_0}\Big)^2$$

    with constant 1 and without logarithms, never a certified bound. The argument `epsilon` is
    $\varepsilon_0$, the accuracy aimed at; `constant` is $C^*$ of `function_complexity`.

    Source: LG-6, arXiv:1811.04918 Theorems 2 and 3.

    Raises:
        ValueError: `epsilon` is not in (0, 1), a series of $C_s$ diverges at the radius asked for
            or does not settle, or $\varepsilon$ is too small for a float.

    Example:
        >>> from unlazy.papers.allenzhu_li_liang2019 import product_concept
        >>> from unlazy.data import target
        >>> concept = product_concept(target("composed-sines"))
        >>> rates = three_layer_rates(concept, epsilon=0.01, constant=1.0)
        >>> print(round(rates.log10_epsilon, 1), round(rates.log10_samples, 1))
        -22.6 45.2
        >>> print(rates.rounds((1000, 1000), decay=0.02))
        362
    """
    check_epsilon(epsilon)
    start = concept.complexity(epsilon=epsilon, constant=constant)
    p1, p2, k = len(concept.outer), len(concept.inner1), _outputs(concept)
    log_eps = math.log10(epsilon) - _log(k, 1) - _log(p1, 1) - _log(p2, 2)
    log_eps -= start.log10_outer_c_s + 2 * start.inner.log10_c_s
    if log_eps == -math.inf:
        raise ValueError(
            f"`concept` must have a finite C_s, got an infinite one: {start.reason}. Give a "
            "polynomial in the place of that function, fitted by papers.shared.chebyshev_series."
        )
    if log_eps < -300:
        raise ValueError(
            "`constant` must leave epsilon within the range of floats, got "
            f"constant={constant} and log10 epsilon={log_eps:.6g}. "
            "Use a smaller constant, or a simpler concept."
        )
    # C_eps enters at the smaller epsilon, which the C_s alone have fixed.
    fine = concept.complexity(epsilon=10.0**log_eps, constant=constant)
    C0 = fine.log10_outer_c_eps + fine.inner.log10_c_eps + _log(p1, 1) + _log(p2, 0.5) + _log(k, 1)
    samples = 2 * (_log(k, 1) + C0 - math.log10(epsilon))
    return ThreeLayerRates(log_eps, C0, samples, math.log10(epsilon), fine.reason)


def _log(count: int, power: int | float) -> float:
    return power * math.log10(count)


def _outputs(concept: TwoLayerConcept | ThreeLayerConcept) -> int:
    return concept.a.shape[0] if concept.a.ndim == 2 else 1
