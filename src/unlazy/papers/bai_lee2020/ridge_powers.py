# SPDX-License-Identifier: Apache-2.0
"""Theorem 7: movements whose quadratic Taylor term is a power, a sum of powers, or a product."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_count, check_name
from unlazy.core.entries import entry
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.bai_lee2020.sample_sizes import check_ridge_power, ridge_norm_bound
from unlazy.papers.shared.patterns import Inputs
from unlazy.papers.shared.quadratic_fit import QuadraticFit, check_start, report
from unlazy.papers.shared.ridge_readout import Method, checked_direction, relu_readout


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

    Raises:
        ValueError: the network or its start is not of that kind, the power is not admissible, or
            rows of `x` have another norm.

    Example:
        >>> import jax, unlazy as ul
        >>> net = ul.nets.TwoLayer(3, 4096, "relu3", init="symmetric")
        >>> params, x = net.init(key=jax.random.key(0)), ul.data.sphere(5, 3, key=jax.random.key(1))
        >>> fit = ridge_power(net, params, 1.0, np.array([1.0, 0.0, 0.0]), 2, x)
        >>> print(fit.max_error < 0.1, round(fit.norm_2_4**4 / np.pi, 6), fit.holds)
        True 16.0 True
    """
    check_ridge_power(power)
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

    Source: BL-39, arXiv:1910.01619 section 5 and footnote 5.

    Args:
        net: with activation="relu3", init="symmetric" and init_scale $1/B_x$.
        params0: its start.
        alphas: the factors.
        betas: the directions, one a row.
        powers: 2, 3, or even numbers from 4 on.
        x: points of norm $B_x$ where the error is measured.
        method: see `relu_readout`. "least-squares" interpolates each summand.
        ridge: for "least-squares" only.
        delta: failure probability in the bound on the norm.

    Raises:
        ValueError: as for `ridge_power`; numbers of factors, directions and powers differ, or
            there are more of them than pairs of neurons.

    Example:
        >>> import jax, unlazy as ul
        >>> net = ul.nets.TwoLayer(3, 4096, "relu3", init="symmetric")
        >>> params, x = net.init(key=jax.random.key(0)), ul.data.sphere(5, 3, key=jax.random.key(1))
        >>> ridge_sum(net, params, [1.0, -1.0], np.eye(3)[:2], [2, 4], x).max_error < 0.3
        True
    """
    terms = list(zip(alphas, betas, powers, strict=False))
    if not len(alphas) == len(betas) == len(powers) or not 1 <= len(terms) <= net.width // 2:
        raise ValueError(
            "`alphas`, `betas` and `powers` must be as many, from 1 to the number of pairs "
            f"{net.width // 2}, got {len(alphas)}, {len(betas)} and {len(powers)}."
        )
    for power in powers:
        check_ridge_power(power, "powers")
    terms = [(float(alpha), np.asarray(beta), int(power)) for alpha, beta, power in terms]
    return _sum(net, params0, terms, x, method=method, ridge=ridge, delta=delta)


@entry
def two_xor(
    net: TwoLayer,
    params0: TwoLayerParams,
    x: Inputs | None = None,
    *,
    coordinates: tuple[int, int] = (0, 1),
) -> QuadraticFit:
    r"""The movement whose quadratic term is the product of two coordinates.

    $$x_i x_j = \tfrac14 ((e_i + e_j)^\top x)^2 - \tfrac14 ((e_i - e_j)^\top x)^2, \qquad
    w^*_r = \frac{2}{m^{1/4}} \sqrt{\frac{\sqrt{2\pi}}{4}}\, (e_i \pm e_j)$$

    with the plus in the first half, where $a_r = 1$, and the minus in the second: no neuron sees
    both, and $\|W^*\|_{2,4}^4 = 8\pi$ exactly, whatever m, d and the norm of the inputs.

    Source: BL-38, arXiv:1910.01619 section 5.

    Args:
        net: with activation="relu3", init="symmetric" and init_scale $1/B_x$.
        params0: its start.
        x: points of norm $B_x$ where the error is measured.
        coordinates: i and j.

    Raises:
        ValueError: the network or its start is not of that kind, rows of `x` have another norm, or
            the coordinates are not two different ones.

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
    m, axes = net.width, np.eye(net.inputs)
    size = 2 * m**-0.25 * math.sqrt(math.sqrt(2 * math.pi) / 4)
    dW = size * np.repeat([axes[i] + axes[j], axes[i] - axes[j]], m // 2, axis=0)
    norm = (8 * math.pi) ** 0.25
    return report(net, params0, dW, lambda z: z[:, i] * z[:, j], x, limit=norm, bound=norm)


def _sum(net, params0, terms, x, *, method, ridge, delta) -> QuadraticFit:
    """The terms (alpha, beta, power), dealt out to the pairs of twins in turn."""
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
    target = _powers(terms)
    return report(net, params0, dW, target, x, limit=limit**0.25, bound=bound**0.25)


def _powers(terms) -> Callable[[Float64[np.ndarray, "n d"]], Float64[np.ndarray, " n"]]:
    def target(z):
        values = [alpha * (z @ np.asarray(beta, np.float64)) ** p for alpha, beta, p in terms]
        return np.sum(values, axis=0)

    return target
