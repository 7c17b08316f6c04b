# SPDX-License-Identifier: Apache-2.0
"""Certificates against kernels: risks of parity targets, and how many can be learnt."""

import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float64, Int

from unlazy.core.checks import check_count, check_finite, some_rows
from unlazy.core.drawing import COLORS, Axes
from unlazy.core.entries import entry
from unlazy.core.panels import panel


class ParityCertificate(eqx.Module):
    r"""Lower bounds on the risk of every function in a span, for many targets at once.

    The targets are $\alpha \chi_S(x)$ plus anything without a component of degree k, such as
    $x_i + \alpha\chi_S(x)$, for sets S of k coordinates. A target is *bad* when no function of the
    span has a risk of at most $t \alpha^2$ on any of its outputs; the theorem has t = 1/16.
    `captured` is $P'_{SS}$, the largest share of $\chi_S$ in a function of the span that has no
    other component of degree k.

    Source: RN-22 and RN-23, arXiv:1905.10337 Theorem 2 and Lemma D.1.
    """

    sets: Int[np.ndarray, "s k"]
    captured: Float64[np.ndarray, " s"]
    inputs: int  # d, of the cube
    functions: int  # N, samples of a kernel or features
    rank: int  # of their parts of degree k: the sum of `captured` over all sets
    alpha: float
    threshold: float  # t
    redundant: Int[np.ndarray, "q 2"]  # a row, and the earlier one that gives the same function
    dropped: int  # dimensions of the span that rounding may hide; with any, little is proved

    @property
    def degree(self) -> int:
        """The number of coordinates of each set, k."""
        return self.sets.shape[1]

    @property
    def all_targets(self) -> int:
        """The number of all sets of k coordinates, in `sets` or not."""
        return math.comb(self.inputs, self.degree)

    @property
    def floor(self) -> Float64[np.ndarray, " s"]:
        r"""The bound $\alpha^2 (1 - P'_{SS})$ on the risk of each output of each target."""
        return self.alpha**2 * np.clip(1 - self.captured, 0.0, 1.0)

    @property
    def least(self) -> Float64[np.ndarray, " s"]:
        """The least risk of each target, over its outputs; here the bound."""
        return self.floor

    @property
    def bad(self) -> np.ndarray:
        """Which targets are proved bad, rounding included."""
        return self.least > self.threshold * self.alpha**2

    @property
    def undecided(self) -> np.ndarray:
        """Which targets might be bad if rounding did not hide a part of the span."""
        return ~self.bad & (self.dropped > 0)

    @property
    def fraction_bad(self) -> float:
        """The share of the targets in `sets` that are proved bad."""
        return float(np.mean(self.bad))

    @property
    def min_ratio(self) -> float:
        r"""A bound on all risks in units of $\alpha^2$, the risk if all but $\chi_S$ is learnt."""
        return float(np.min(self.least)) / self.alpha**2

    @property
    def counting_bound(self) -> float:
        r"""The most targets that are not bad, whatever the functions: $N/(1-t)$."""
        return self.functions / (1 - self.threshold)

    @property
    def counted_fraction(self) -> float:
        """The share of all targets that is bad by counting alone."""
        return max(0.0, 1 - self.counting_bound / self.all_targets)

    @property
    def _hidden(self) -> str:
        return f"Rounding hides {self.dropped} directions of the span, which may learn any target"

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        r"""Draw the least risk of every target, sorted, with the threshold and the counting bound.

        Risks are in units of $\alpha^2$. Whatever the functions, no more targets are learnt than
        the vertical line says.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
        """
        ratios = np.sort(self.least) / self.alpha**2
        share = np.arange(1, len(ratios) + 1) / len(ratios)
        allowed = min(1.0, self.counting_bound / self.all_targets)
        undecided = int(np.sum(self.undecided))
        told = f"{100 * self.fraction_bad:.3g}% of {len(self.sets)} targets are not learnt"
        with panel(ax) as ax:
            ax.plot(share, ratios, drawstyle="steps-pre", color=COLORS[0], ls="-",
                    label="least risk of a target")  # fmt: skip
            ax.axhline(self.threshold, color=COLORS[1], ls="--", label="learnt below this")
            ax.axvline(allowed, color="0.4", ls=":", label="counting: learnt, at most")
            ax.set(xlabel="share of the targets", ylabel=r"risk / $\alpha^2$", xlim=(0, 1))
            ax.set_ylim(bottom=0)
            ax.set_title(f"{told}, {undecided} undecided" if undecided else told)
            ax.legend()
        return ax

    def __repr__(self) -> str:
        """The verdict in words."""
        bad, bound = int(np.sum(self.bad)), min(self.all_targets, math.floor(self.counting_bound))
        lines = [
            f"{type(self).__name__}: {self.functions} functions on the cube in {self.inputs} "
            f"dimensions, {len(self.sets)} targets with alpha = {self.alpha:g}, "
            f"|S| = {self.degree}",
            f"  not learnt: {bad} of {len(self.sets)} ({100 * self.fraction_bad:.4g}%) have a risk "
            f"above {self.threshold:.4g} alpha^2 whatever the weights",
            f"  least risk: at least {self.min_ratio:.4g} alpha^2",
            f"  by counting: at most {bound} of all {self.all_targets} targets can be learnt",
        ]
        if np.any(self.undecided):
            lines.insert(2, f"  undecided: {int(np.sum(self.undecided))}. {self._hidden}")
        if len(self.redundant):
            rows = some_rows(self.redundant[:, 0])
            lines.append(f"  no new function: {rows} of `x`, equal or opposite to earlier ones")
        return "\n".join(lines)


class CubeCertificate(ParityCertificate):
    r"""Bounds of the least risk in a span of every target $x_i + \alpha\chi_S(x)$, $i \in S$.

    Made by `certificates.kernel` and `certificates.features`. The least risk R(S, i) lies between
    `risks` and `attained` for all errors of the functions within their accuracy; if these are small
    beside the singular values, the two differ by about `error` times `condition`. A target is bad,
    learnt or undecided. `captured` and `rank` are those of the functions as computed, and prove
    nothing while directions are dropped.

    Source: RN-21, arXiv:1905.10337 Lemma D.1.
    """

    risks: Float64[np.ndarray, "s k"]  # at most R(S, i); columns as in `sets`
    attained: Float64[np.ndarray, "s k"]  # at least R(S, i): some weights have no larger risk
    known: int  # dimensions of the span that are certain
    error: float  # norm of all errors, for functions of unit norm
    condition: float  # the largest over the smallest singular value of these dimensions

    @property
    def floor(self) -> Float64[np.ndarray, " s"]:
        r"""The bound $\alpha^2 (1 - P'_{SS})$, as far as it is proved."""
        return np.minimum(super().floor, self.least)

    @property
    def least(self) -> Float64[np.ndarray, " s"]:
        """A bound on the least risk of each target, over its outputs."""
        return np.min(self.risks, axis=1)

    @property
    def total(self) -> Float64[np.ndarray, " s"]:
        """A bound on the risk of each target, summed over its k outputs."""
        return np.sum(self.risks, axis=1)

    @property
    def learnt(self) -> np.ndarray:
        """Which targets are proved learnt by some weights on some output, rounding included."""
        return np.min(self.attained, axis=1) <= self.threshold * self.alpha**2

    @property
    def undecided(self) -> np.ndarray:
        """Which targets are neither proved bad nor proved learnt."""
        return ~self.bad & ~self.learnt

    @property
    def _hidden(self) -> str:
        most = self.known + self.dropped
        if not self.dropped:
            return f"The error of the functions, {self.error:.2g}, is too large to tell"
        return (
            f"Rounding hides {self.dropped} of the {most} directions of the span "
            f"({100 * self.dropped / most:.3g}%), which may learn any target. Where mathematics "
            "says that there are fewer, pass them as `dimension`"
        )


class DotProductCertificate(ParityCertificate):
    r"""A bound for every kernel that is a function of $\langle x, x'\rangle$, on one sample.

    Made by `certificates.dot_product`.

    Source: RN-24, arXiv:1905.10337.
    """

    uncertainty: float  # relative error of `captured`

    @property
    def floor(self) -> Float64[np.ndarray, " s"]:
        r"""The bound $\alpha^2 (1 - P'_{SS})$ on each output of each target, rounding included."""
        if self.dropped or self.uncertainty >= 1:
            return np.zeros(len(self.sets))
        return self.alpha**2 * np.clip(1 - self.captured / (1 - self.uncertainty), 0.0, 1.0)

    @entry
    def risk(self, outputs: int = 1) -> Float64[np.ndarray, " s"]:
        r"""The bound on the summed risk of outputs that each contain $\pm\alpha\chi_S$."""
        check_count(outputs, "outputs")
        return outputs * self.floor


def check_target(alpha: Any, threshold: Any) -> None:
    """Raise unless `alpha` is finite and not zero, and `threshold` in [0, 1)."""
    check_finite(alpha, "alpha")
    if alpha == 0:
        raise ValueError(f"`alpha` must not be zero, got alpha={alpha}.")
    if not (isinstance(threshold, int | float) and 0 <= threshold < 1):
        raise ValueError(f"`threshold` must be in [0, 1), got threshold={threshold!r}.")
