# SPDX-License-Identifier: Apache-2.0
"""Section 2.1 and Theorem 3: what a residual network saves, in samples and in computing time."""

import math

import equinox as eqx

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry
from unlazy.papers.allenzhu_li2019.conditions import resnet_sample_sizes
from unlazy.papers.shared import series_complexity, taylor_series

_HIGHEST = 10_000  # degree of a power, whose coefficients are a list


class ComposedSampleSizes(eqx.Module):
    """Sample sizes for a polynomial of linear functions, as decimal logarithms."""

    log10_resnet: float  # by the complexity of the base signal
    log10_one_shot: float  # by that of the composed function


@entry
def composed_sample_sizes(
    d: int, degree: int = 10, *, delta: int | float = 1.0, constant: int | float = 2.0
) -> ComposedSampleSizes:
    r"""Samples for two linear functions and a power of each: in two layers against in one.

    $$H_r(x) = h_r + \alpha h_r^q, \qquad h_r = \langle w_r, x\rangle, \quad \|w_r\| = \sqrt d,
    \quad \|x\| = 1, \quad r \le 2$$

    $$N_{\mathrm{res}} = \frac{(k\, C_s(F))^2}{\min(1, \delta^2)} \sim d, \qquad
    N_{\mathrm{one}} = \frac{(k\, C_s(G \circ F))^2}{\min(1, \delta^2)} \sim d^q$$

    A residual network pays for the functions $\sqrt{2d}\, z$ of the base signal. A learner that is
    not hierarchical, such as a kernel or a two-layer network, pays for $(\sqrt{2d}\, z)^q$. Powers
    stand for any polynomial of that degree with bounded coefficients. The constants that the paper
    hides are taken as 1.

    Source: RN-13 and RN-28, arXiv:1905.10337 section 2.1, where q = 10; the second number is an
    upper bound of earlier work, and its exponent is that of the number of monomials.

    Args:
        d: inputs.
        degree: q.
        delta: the risk, which must be above the least one of `resnet_theory` for the first number.
        constant: $C^*$ of the complexities.

    Raises:
        ValueError: `d` or `degree` is not a count, `delta` or `constant` is not positive.

    Example:
        >>> sizes = composed_sample_sizes(1000)
        >>> print(round(sizes.log10_resnet, 1), round(sizes.log10_one_shot, 1))
        5.1 36.3
    """
    check_count(d, "d", most=None)
    check_count(degree, "degree", most=_HIGHEST)
    check_positive(delta, "delta")
    known = [_log10_size(power, d, constant) for power in (1, degree)]
    return ComposedSampleSizes(*(2 * (size - min(0.0, math.log10(delta))) for size in known))


def _log10_size(power: int, d: int, constant: int | float) -> float:
    """The logarithm of k C_s of a power at the radius sqrt(2 d), which may be beyond floats."""
    radius = (math.log10(2) + math.log10(d)) / 2
    phi = taylor_series([0.0] * power + [1.0])
    known = series_complexity([phi], log10_radius=radius, constant=constant)
    return math.log10(2) + known.log10_c_s


class ResNetTimes(eqx.Module):
    """Computing time for the hard class, up to constants, as decimal logarithms."""

    log10_resnet: float  # T_res, operations of SGD on the residual network
    log10_features: float  # D, a number of features that is not enough for linear regression

    @property
    def power(self) -> float:
        r"""The p with $D = T_{\mathrm{res}}^p$; the theorem's example has p = 2."""
        return self.log10_features / self.log10_resnet


@entry
def resnet_times(
    d: int, k: int, *, alpha: int | float, m: int, free: int | None = None
) -> ResNetTimes:
    r"""Computing time for $x_{i_r} + \alpha \chi_S(x)$: residual network against fixed features.

    $$T_{\mathrm{res}} = N_{\mathrm{res}}\, m (d + 3k), \qquad
    D = \frac{1}{1000} \binom{d_1}{k}$$

    with $N_{\mathrm{res}} = k^2 d/\alpha^8$ steps of `resnet_sample_sizes`, each of one sample. Any
    linear regression on D features leaves a risk of $\alpha^2/16$ in 99% of the targets, and takes
    a time of D at least. For fixed k the time of the network is a fixed power of d, whatever the
    degree k of the parity, and D is $d^k$. The constants that the paper hides are taken as 1.

    Source: RN-29 and RN-4, arXiv:1905.10337 Theorem 3 and section 7.2; the paper says that $T$ is a
    polynomial, and the cost per sample is that of the bottleneck form.

    Args:
        d: inputs.
        k: the degree of the parity, and the outputs.
        alpha: its size.
        m: the width, a polynomial of the other numbers in the theorem.
        free: $d_1$, inputs that S is taken from; None for all.

    Raises:
        ValueError: `k` exceeds the number of inputs, or a number is not positive.

    Example:
        >>> times = resnet_times(10**4, 30, alpha=0.4, m=10**4)
        >>> print(round(times.log10_resnet, 1), round(times.log10_features, 1))
        18.1 84.6
    """
    check_count(m, "m", most=None)
    sizes = resnet_sample_sizes(d, k, alpha=alpha, free=free)
    step = math.log10(m) + math.log10(d + 3 * k)
    return ResNetTimes(sizes.log10_resnet + step, sizes.log10_kernel)
