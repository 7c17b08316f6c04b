# SPDX-License-Identifier: Apache-2.0
"""Theorem 7: movements whose quadratic term is a power or a product, their norms and samples."""

import math
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import MOST_TERMS, check_count, check_finite, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.bai_lee2020.relu_features import Method, relu_readout
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.quadratic_fit import (
    QuadraticFit,
    check_start,
    checked_direction,
    checked_terms,
    report,
)


@entry
def ridge_power(
    net: TwoLayer,
    params0: TwoLayerParams,
    alpha: int | float,
    beta: Float[Array | np.ndarray, " d"],
    power: int,
    x: Inputs | None = None,
    *,
    method: Method = "hermite",
    ridge: int | float = 0.0,
    delta: int | float = 1.0,
) -> QuadraticFit:
    r"""The movement of Theorem 7, whose quadratic term is $\alpha (\beta^\top x)^p$.

    $$w^*_r = \frac{2}{m^{1/4}} \sqrt{[a_r]_+}\, \beta, \qquad
    w^*_{r+m/2} = \frac{2}{m^{1/4}} \sqrt{[a_r]_-}\, \beta, \qquad
    f^Q_{W^*}(x) = (\beta^\top x)^2 \frac2m \sum_{r \le m/2} \mathrm{relu}(w_{0,r}^\top x)\, a_r$$

    with $a_r$ of `relu_readout` for the power p - 2, so that
    $\|W^*\|_{2,4}^4 = 8\|\beta\|^4 \frac2m \sum_r a_r^2 \to 8\|\beta\|^4\, \mathbb E a^2$. The
    error falls like $m^{-1/2}$; for "least-squares" it is rounding at `x`, once m/2 exceeds their
    number.

    Source: BL-37 and BL-48, arXiv:1910.01619 Theorem 7; the factor 2 is the one that fits.

    Args:
        net: with activation="relu3", init="symmetric" and init_scale $1/B_x$.
        params0: its start.
        alpha: the factor.
        beta: the direction, of any norm.
        power: p: 2, 3, or an even number from 4 on.
        x: points of norm $B_x$ where the error is measured; "least-squares" interpolates there.
        method: "hermite", "zonal" (least norm) or "least-squares", see `relu_readout`.
        ridge: for "least-squares" only.
        delta: failure probability in the bound on the norm.

    Example:
        >>> import jax, unlazy as ul
        >>> net = ul.nets.TwoLayer(3, 4096, "relu3", init="symmetric")
        >>> params, x = net.init(key=jax.random.key(0)), ul.data.sphere(5, 3, key=jax.random.key(1))
        >>> fit = ridge_power(net, params, 1.0, np.array([1.0, 0.0, 0.0]), 2, x)
        >>> print(fit.max_error < 0.1, round(fit.norm_2_4**4 / np.pi, 6), fit.holds)
        True 16.0 True
    """
    _check_power(power)
    terms = [(alpha, beta, power)]
    return _sum(net, params0, terms, x, method=method, ridge=ridge, delta=delta)


@entry
def ridge_sum(
    net: TwoLayer,
    params0: TwoLayerParams,
    alphas: Sequence[int | float] | Float[Array | np.ndarray, " q"],
    betas: Float[Array | np.ndarray, "q d"],
    powers: Sequence[int],
    x: Inputs | None = None,
    *,
    method: Method = "hermite",
    ridge: int | float = 0.0,
    delta: int | float = 1.0,
) -> QuadraticFit:
    r"""The movement whose quadratic term is a sum of powers, each on neurons of its own.

    $$f^Q_{W^*} \approx \sum_{j=1}^q \alpha_j (\beta_j^\top x)^{p_j}, \qquad
    \|W^*\|_{2,4}^4 \to 8 q \sum_j \|\beta_j\|^4\, \mathbb E a_j^2$$

    Pairs of twins are dealt out in turn, and what a group of m/q neurons represents is scaled up by
    q: no cross terms. Every homogeneous polynomial of an admissible degree is such a sum. To put
    two movements on the same neurons instead, add them with random signs,
    `W1 + escape.flip(W2, signs)`: the cross term then falls like $m^{-1/2}$.

    Arguments are those of `ridge_power`, with one factor, one row of directions and one power per
    summand; "least-squares" interpolates each summand.

    Source: BL-39, arXiv:1910.01619 section 5 and footnote 5.

    Example:
        >>> import jax, unlazy as ul
        >>> net = ul.nets.TwoLayer(3, 4096, "relu3", init="symmetric")
        >>> params, x = net.init(key=jax.random.key(0)), ul.data.sphere(5, 3, key=jax.random.key(1))
        >>> ridge_sum(net, params, [1.0, -1.0], np.eye(3)[:2], [2, 4], x).max_error < 0.3
        True
    """
    for power in powers:
        _check_power(power, "powers")
    terms = checked_terms(net, alphas, betas, powers)
    return _sum(net, params0, terms, x, method=method, ridge=ridge, delta=delta)


@entry
def two_xor(
    net: TwoLayer,
    params0: TwoLayerParams,
    x: Inputs | None = None,
    *,
    coordinates: tuple[int, int] = (0, 1),
    form: Literal["product", "squares"] = "product",
) -> QuadraticFit:
    r"""The movement whose quadratic term is the product of two coordinates.

    $$x_i x_j = \tfrac14 ((e_i + e_j)^\top x)^2 - \tfrac14 ((e_i - e_j)^\top x)^2, \qquad
    w^*_r = \frac{2}{m^{1/4}} \sqrt{\frac{\sqrt{2\pi}}{4}}\, (e_i \pm e_j)$$

    with the plus in the first half, where $a_r = 1$, and the minus in the second: no neuron sees
    both, and $\|W^*\|_{2,4}^4 = 8\pi$ exactly, whatever m, d and the norm of the inputs. With
    form="squares" it is $x_i^2 - x_j^2$, the label of `noisy_two_xor`, by $w^*_r = 2 m^{-1/4}
    (2\pi)^{1/4} e_i$ or $e_j$, and $\|W^*\|_{2,4}^4 = 32\pi$. `net`, `params0` and `x` are as for
    `ridge_power`.

    Source: BL-38, arXiv:1910.01619 section 5.

    Example:
        >>> import jax, unlazy as ul
        >>> net = ul.nets.TwoLayer(4, 64, "relu3", init="symmetric", init_scale=0.5)
        >>> fit = two_xor(net, net.init(key=jax.random.key(0)))
        >>> print(round(fit.norm_2_4**4 / np.pi, 9))
        8.0
    """
    if len(coordinates) != 2:
        raise ValueError(f"`coordinates` must be two, got coordinates={coordinates}.")
    i, j = coordinates
    check_start(net, params0, x)
    check_count(i, "coordinates", least=0)
    check_count(j, "coordinates", least=0)
    if i == j or max(i, j) >= net.inputs:
        raise ValueError(
            f"`coordinates` must be two different ones below {net.inputs}, "
            f"got coordinates={coordinates}."
        )
    check_name(form, ["product", "squares"], "form")
    m, (u, v) = net.width, np.eye(net.inputs)[[i, j]]
    # The target is a square along the first direction less one along the second.
    directions = [(u + v) / 2, (u - v) / 2] if form == "product" else [u, v]
    size = 2 * m**-0.25 * (2 * math.pi) ** 0.25
    norm = (32 * math.pi) ** 0.25 * float(np.linalg.norm(directions[0]))

    def target(z):
        return z[:, i] * z[:, j] if form == "product" else z[:, i] ** 2 - z[:, j] ** 2

    dW = size * np.repeat(directions, m // 2, axis=0)
    return report(net, params0, dW, target, x, limit=norm, bound=norm)


@entry
def ridge_norm_bound(
    power: int,
    *,
    alpha: int | float = 1.0,
    beta_norm: int | float = 1.0,
    radius: int | float = 1.0,
    delta: int | float = 1.0,
) -> float:
    r"""Theorem 7: a 2,4 norm that suffices for the quadratic term to be $\alpha(\beta^\top x)^p$.

    $$\|W^*\|_{2,4}^4 \le \frac{32\pi}{\delta} \max((p-2)^3, 1)\, \alpha^2 B_x^{2(p-2)}
    \|\beta\|^{2p}$$

    with probability at least 1 - delta over the start, on inputs of norm $B_x$, the `radius`. With
    delta = 1 the bound is four times, or more, that of the mean. Returned is the bound on the norm
    itself, the fourth root.

    Source: BL-48, arXiv:1910.01619 Theorem 7.

    Example:
        >>> print(round(ridge_norm_bound(4) ** 4, 1))  # 256 pi
        804.2
    """
    _check_power(power)
    check_finite(alpha, "alpha")
    check_positive(beta_norm, "beta_norm")
    check_positive(radius, "radius")
    if not 0 < delta <= 1:
        raise ValueError(f"`delta` must be a probability in (0, 1], got delta={delta}.")
    growth = max((power - 2) ** 3, 1) * float(radius) ** (2 * power - 4)
    fourth = 32 * math.pi / delta * growth * float(alpha) ** 2 * float(beta_norm) ** (2 * power)
    return fourth**0.25


@entry
def ridge_width(
    n: int,
    d: int,
    power: int,
    *,
    epsilon: int | float,
    alpha: int | float = 1.0,
    beta_norm: int | float = 1.0,
    radius: int | float = 1.0,
) -> float:
    r"""Theorem 7: a width that suffices for the quadratic term to be $\alpha(\beta^\top x)^p$.

    $$m \gtrsim \frac{n d\, p^3 \alpha^2 (B_x \|\beta\|)^{2p}}{\varepsilon^2}$$

    for an error of at most `epsilon` at n inputs of norm $B_x$, the `radius`, in d dimensions.
    Constants and logarithms that the paper hides are taken as 1. The error falls like $m^{-1/2}$,
    so that the order in $\varepsilon$, $\alpha$, $B_x$ and $\|\beta\|$ is exact, and far fewer
    neurons do in practice: `ridge_power` measures the error of a given width.

    Source: BL-48, arXiv:1910.01619 Theorem 7.

    Example:
        >>> ridge_width(10, 5, 2, epsilon=0.5)
        1600.0
    """
    check_count(n, "n", most=None)
    check_count(d, "d", most=None)
    _check_power(power)
    check_finite(alpha, "alpha")
    for name, value in (("epsilon", epsilon), ("beta_norm", beta_norm), ("radius", radius)):
        check_positive(value, name)
    size = float(alpha) * (float(radius) * float(beta_norm)) ** power / float(epsilon)
    return n * d * power**3 * size**2


@entry
def quadratic_sample_size(
    *,
    norm: int | float,
    second_moment: int | float,
    radius: int | float = 1.0,
    epsilon: int | float,
) -> float:
    r"""Samples that the quadratic model needs for a gap of `epsilon`, as an order.

    $$n_Q \sim \frac{B_x^4 B_w^4 M_{x,\mathrm{op}}^2}{\varepsilon^2}$$

    for a target fitted by a movement of 2,4 `norm` $B_w$, on inputs of norm $B_x$ with the
    `second_moment_norm` $M_{x,\mathrm{op}}$. Constants and logarithms are left out.

    Source: BL-48, arXiv:1910.01619 after Theorem 6.

    Example:
        >>> quadratic_sample_size(norm=2.0, second_moment=0.5, epsilon=0.5)
        16.0
    """
    sizes = {"norm": norm, "second_moment": second_moment, "radius": radius, "epsilon": epsilon}
    for name, value in sizes.items():
        check_positive(value, name)
    size = float(radius) ** 4 * float(norm) ** 4 * float(second_moment) ** 2
    return size / float(epsilon) ** 2


class SampleSizes(eqx.Module):
    """Sample sizes up to constants and logarithms: for comparison only."""

    quadratic: float
    ntk: float

    @property
    def ratio(self) -> float:
        """The quadratic model's samples over the NTK's."""
        return self.quadratic / self.ntk


@entry
def sample_sizes(
    d: int,
    target: int | Literal["two-xor"],
    *,
    epsilon: int | float,
    alpha: int | float = 1.0,
    beta_norm: int | float = 1.0,
) -> SampleSizes:
    r"""Samples that the quadratic model and the NTK need for a gap of `epsilon`, as orders.

    $$\alpha(\beta^\top x)^p: \quad n_Q \sim \frac{p^3 \alpha^2 \|\beta\|^{2p}}{d\, \varepsilon^2},
    \quad n_L \sim \frac{p^2 \alpha^2 \|\beta\|^{2p}}{\varepsilon^2}; \qquad
    x_1 x_2: \quad n_Q \sim \frac{d}{\varepsilon^2}, \quad n_L \gtrsim \frac{d^2}{\varepsilon^2}$$

    The `target` is p, which is 2, 3, or an even number from 4 on, for a power on isotropic inputs
    of unit norm; or "two-xor", on inputs of norm $\sqrt d$. All are upper bounds without their
    constants and logarithms, so that $n_Q/n_L = p/d$ compares bounds; only the last is a lower
    bound, cited by the paper.

    Source: BL-48, arXiv:1910.01619 section 5.

    Example:
        >>> sample_sizes(100, 4, epsilon=0.1).ratio
        0.04
        >>> sample_sizes(20, "two-xor", epsilon=0.5)
        SampleSizes(quadratic=80.0, ntk=1600.0)
    """
    check_count(d, "d", most=None)
    check_finite(alpha, "alpha")
    check_positive(beta_norm, "beta_norm")
    check_positive(epsilon, "epsilon")
    if isinstance(target, str):
        check_name(target, ["two-xor"], "target")
        return SampleSizes(quadratic=d / float(epsilon) ** 2, ntk=d**2 / float(epsilon) ** 2)
    _check_power(target, "target")
    scale = (float(alpha) / float(epsilon)) ** 2 * float(beta_norm) ** (2 * target)
    return SampleSizes(quadratic=target**3 * scale / d, ntk=target**2 * scale)


def _check_power(power: int, name: str = "power") -> None:
    """Raise unless Theorem 7 covers the power: 2, 3, or even."""
    check_count(power, name, least=0, most=MOST_TERMS)
    if power < 2 or (power % 2 and power != 3):
        raise ValueError(
            f"`{name}` must be 2, 3, or an even number from 4 on, got {name}={power}. "
            "ReLU features do not see the odd powers from 3 on, and the quadratic term adds two: "
            "use a sum of admissible powers, or ExtractionNet.power with another activation."
        )


def _sum(net, params0, terms, x, *, method, ridge, delta) -> QuadraticFit:
    """The fit of the terms (alpha, beta, power), dealt out to the pairs of twins in turn."""
    check_name(method, ["hermite", "zonal", "least-squares"], "method")
    radius = check_start(net, params0, x)
    if method == "least-squares" and x is None:
        raise ValueError(f"`x` must be given for method={method!r}, got x=None.")
    m, groups = net.width, len(terms)
    W0, dW = np.asarray(params0.W, np.float64)[: m // 2], np.zeros((m, net.inputs))
    points = {"x": x, "ridge": ridge} if method == "least-squares" else {}
    limit = bound = 0.0
    for g, (alpha, beta, power) in enumerate(terms):
        beta, rows = checked_direction(beta, net.inputs), np.arange(g, m // 2, groups)
        readout = relu_readout(
            W0[rows], alpha, beta, power - 2, radius=radius, method=method, **points
        )
        share = m / 2 / len(rows)
        for side, sign in ((0, 1.0), (m // 2, -1.0)):
            size = np.sqrt(share * np.maximum(sign * readout.a, 0))
            dW[rows + side] = 2 * m**-0.25 * size[:, None] * beta
        length = float(np.linalg.norm(beta))
        limit += 8 * share * length**4 * readout.energy
        sizes = {"alpha": alpha, "beta_norm": length, "radius": radius}
        bound += share * ridge_norm_bound(power, **sizes, delta=delta) ** 4

    def target(z):
        values = [alpha * (z @ np.asarray(beta, np.float64)) ** p for alpha, beta, p in terms]
        return np.sum(values, axis=0)

    return report(net, params0, dW, target, x, limit=limit**0.25, bound=bound**0.25)
