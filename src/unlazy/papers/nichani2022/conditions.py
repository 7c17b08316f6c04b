# SPDX-License-Identifier: Apache-2.0
"""What the lemmas and theorems ask of samples and width, and what they promise."""

import math
import sys
from dataclasses import dataclass, fields

from unlazy.core.checks import MOST_TERMS, check_count, check_positive
from unlazy.core.entries import entry
from unlazy.papers.shared.conditions import Condition, Prescription
from unlazy.special import harmonic_count


@dataclass(frozen=True)
class GoodDirectionsConstants:
    """The constants that the statements hide; each multiplies its rate."""

    samples: int | float = 1.0  # Theorem 1
    low_samples: int | float = 1.0  # Lemma 2
    width: int | float = 1.0  # Lemma 2 and Theorem 2
    network_width: int | float = 1.0  # Lemma 3, Theorems 1 and 4
    sparse_error: int | float = 1.0  # Lemma 1
    low_error: int | float = 1.0  # Lemma 2
    risk: int | float = 1.0  # Theorem 4

    @entry
    def __post_init__(self):
        for field in fields(self):
            check_positive(getattr(self, field.name), field.name)


class GoodDirectionsTheory(Prescription):
    """What the statements promise, and their conditions; `print` shows them as a table."""

    rank: float  # n_k, the number of good directions
    sparse_error: float  # Lemma 1, largest error of f_Q(W_Q)
    sparse_norm: float  # Lemma 1, ||W_Q||_{2,4}^4
    low_error: float  # Lemma 2, mean square error of f_L(W_L)
    r1: float  # Theorem 2, R1 to R4 at W*
    r2: float
    r3: float
    r4: float
    risk: float  # Theorem 4, the population loss of the network
    samples: float  # Theorem 1
    kernel_samples: float  # Remark 1, what the NTK needs
    quadratic_samples: float  # Remark 1, what f_L and f_Q together need
    conditions: tuple[Condition, ...]


@entry
def good_directions_theory(
    d: int,
    k: int,
    *,
    n: int,
    m: int,
    accuracy: int | float,
    terms: int = 1,
    constants: GoodDirectionsConstants | None = None,
) -> GoodDirectionsTheory:
    r"""Conditions and promises of Lemmas 1 to 3, Theorems 1, 2 and 4 and Remark 1.

    For a part of degree k that is dense, K = `terms` powers of degree k + 1, and $\varepsilon$ =
    `accuracy`:

    - Lemma 1: $|f_Q(x; W_Q) - f_{sp}(x)| \le K d^k m^{-1/2}$ and
      $\|W_Q\|_{2,4}^4 \le K^2 d^{k-1}$; the error is at most $\varepsilon$ where
      $m \ge K^2 d^{2k} \varepsilon^{-2}$.
    - Lemma 2: $\mathbb E (f_L(x; W_L) - f_k(x))^2 \le d^k / n$, where $n \ge d^k \log d$ and
      $m \ge d^{10k}$.
    - Theorem 2, where both lemmas hold:

    $$R_1(W^*), R_3(W^*) \le K m^{-1/2} d^{(k-1)/2}, \qquad R_2(W^*) \le 1, \qquad
    R_4(W^*) \le K^4 d^{2(k-1)}$$

    - Lemma 3, Corollary 1 and Theorem 4, which are about the network itself:

    $$m \ge n^4 d^{26(k+1)/3} \varepsilon^{-22/3}, \qquad
    L \le \varepsilon + K \sqrt{d^k / n}$$

    - Theorem 1: all of these, and $n \ge d^k \max(K^2 \varepsilon^{-2}, \log d)$.
    - Remark 1: the NTK needs $d^{k+1}$ samples, both terms together $K^2 d^k$.

    Constants that the paper hides are taken as 1: rates, never certified bounds.

    Source: NB-38, NB-40 to NB-42, NB-18 and section 8, item 12, arXiv:2206.03688. The two widths,
    the rates $d^k/n$ and $\sqrt{d^k/n}$ and Remark 1 are the paper's; which statement asks for
    which width, and the powers of K in Lemma 1 and Theorems 2 and 4, are reconstructed. The
    samples of Theorem 1 are as a later paper states them; their factor $K^2$ is ours.

    Args:
        d: inputs.
        k: degree of the dense part.
        n: samples.
        m: width.
        accuracy: $\varepsilon$.
        terms: K, the number of powers in the sparse part.
        constants: the hidden ones; None for 1.

    Raises:
        ValueError: a count is no positive integer or is beyond the range of floats, or `accuracy`
            is not positive.

    Example:
        >>> theory = good_directions_theory(100, 1, n=1000, m=10_000, accuracy=0.5)
        >>> print(theory.rank, theory.samples, theory.kernel_samples, round(theory.risk, 2))
        101.0 460.51701859880916 10000.0 0.82
        >>> [condition.text.split(":")[0] for condition in theory.failed]
        ['Lemma 3', 'Lemma 2', 'Lemma 1']
    """
    c = GoodDirectionsConstants() if constants is None else constants
    check_count(d, "d", least=2)
    check_count(k, "k", most=MOST_TERMS)
    for name, count in {"n": n, "m": m, "terms": terms}.items():
        check_count(count, name, most=None)
        if count > sys.float_info.max:
            raise ValueError(
                f"`{name}` must be in the range of floats, got 10^{math.log10(count):.0f}."
            )
    check_positive(accuracy, "accuracy")
    eps, K, width = float(accuracy), float(terms), float(m)
    dense = _power(d, k)
    asked = _power(K / eps, 2)
    harmful = K * _power(d, (k - 1) / 2) / math.sqrt(width)
    return GoodDirectionsTheory(
        rank=_as_float(harmonic_count(d, k)),
        sparse_error=c.sparse_error * K * dense / math.sqrt(width),
        sparse_norm=_power(K, 2) * _power(d, k - 1),
        low_error=c.low_error * dense / n,
        r1=harmful,
        r2=1.0,
        r3=harmful,
        r4=_power(K, 4) * _power(d, 2 * (k - 1)),
        risk=eps + c.risk * K * math.sqrt(dense / n),
        samples=c.samples * dense * max(asked, math.log(d)),
        kernel_samples=_power(d, k + 1),
        quadratic_samples=_power(K, 2) * dense,
        conditions=(
            Condition(
                "Lemma 1: K^2 d^(2k) eps^-2 <= m",
                _power(c.sparse_error, 2) * asked * _power(d, 2 * k),
                width,
            ),
            Condition("Lemma 2: d^k log d <= n", c.low_samples * dense * math.log(d), float(n)),
            Condition("Lemma 2: d^(10k) <= m", c.width * _power(d, 10 * k), width),
            Condition(
                "Lemma 3: n^4 d^(26(k+1)/3) eps^(-22/3) <= m",
                c.network_width * _power(n, 4) * _power(d, 26 * (k + 1) / 3) * _power(eps, -22 / 3),
                width,
            ),
            Condition(
                "Theorem 1: d^k max(K^2 eps^-2, log d) <= n",
                c.samples * dense * max(asked, math.log(d)),
                float(n),
            ),
        ),
    )


def _power(base: int | float, exponent: int | float) -> float:
    """A power that is infinite where Python's raises."""
    try:
        return float(base) ** exponent
    except OverflowError:
        return math.inf


def _as_float(count: int) -> float:
    return float(count) if count <= sys.float_info.max else math.inf
