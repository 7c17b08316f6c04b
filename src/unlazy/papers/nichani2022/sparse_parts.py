# SPDX-License-Identifier: Apache-2.0
"""Lemma 1: a movement whose quadratic Taylor term is a sum of powers of linear forms."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.activations import Activation
from unlazy.core.checks import check_count
from unlazy.core.entries import entry
from unlazy.data import target
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.nichani2022.sphere_start import check_sphere_start, zonal_coefficients
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.quadratic_fit import QuadraticFit, checked_terms, report
from unlazy.special import gegenbauer, gegenbauer_power, harmonic_dimension


@entry
def sparse_part(
    net: TwoLayer,
    params0: TwoLayerParams,
    alphas: Sequence[int | float] | Float[Array | np.ndarray, " q"],
    betas: Float[Array | np.ndarray, "q d"],
    powers: Sequence[int],
    x: Inputs | None = None,
) -> QuadraticFit:
    r"""The movement $W_Q$ of Lemma 1, whose quadratic term is a sum of powers.

    The sum is $\sum_i \alpha_i (\beta_i^\top x)^{p_i}$, with the rows of `betas` of any norm and
    all `powers` at least 2, for a start with init="sphere" of radius $\kappa$, its init_scale, and
    an activation with a second derivative. For one term, $\beta$ a unit vector and
    $\sqrt d\, t = \beta^\top x$,

    $$h(w) = \alpha \sum_l \frac{q_l}{c_l(\sigma'')} P_l(\beta^\top w), \qquad
    (\sqrt d\, t)^{p-2} = \sum_{l \le p-2} q_l P_l(t), \qquad
    c_l(\sigma'') = \mathbb E[\sigma''(\sqrt d\, t)\, P_l(t)],$$

    $$w_r = \Big(\frac{2\sqrt m}{g}\, h_+(w_{0,r})\Big)^{1/2} \beta, \qquad
    w_{r+m/2} = \Big(\frac{2\sqrt m}{g}\, h_-(w_{0,r})\Big)^{1/2} \beta$$

    on the $g$ pairs of twins that the term has for itself, m/2 of them if it is alone: pairs are
    dealt out in turn. Then $f_Q = (\beta^\top x)^2\, \frac1g \sum_r \sigma''(w_{0,r}^\top x)\,
    h(w_{0,r})$ has the right mean where $\|x\| = \sqrt d / \kappa$, its error falls like
    $m^{-1/2}$, and

    $$\|W_Q\|_{2,4}^4 \to 8 R \sum_{i \le R} \mathbb E h_i^2, \qquad
    \mathbb E h_i^2 = \alpha_i^2 \sum_l \frac{q_l^2}{c_l^2 N(d, l)}.$$

    Source: NB-40, arXiv:2206.03688 Lemma 1, reconstructed; there all powers are k + 1.

    Raises:
        ValueError: a $c_l(\sigma'')$ that is needed vanishes: the message names l and a shift of
            the activation that helps.

    Example:
        >>> import jax, unlazy as ul
        >>> sigma = ul.activation("sigmoid", shift=1.5)
        >>> net = ul.nets.TwoLayer(10, 2000, sigma, init="sphere")
        >>> params = net.init(key=jax.random.key(0))
        >>> x = ul.data.sphere(50, 10, radius=10**0.5, key=jax.random.key(1))
        >>> fit = sparse_part(net, params, [1.0], np.eye(10)[:1], [2], x)
        >>> print(round(fit.norm_limit**4, 1), fit.rms_error < 0.1)
        2028.4 True
    """
    radius = check_sphere_start(net, params0, x)
    for power in powers:
        check_count(power, "powers", least=2)
    terms = checked_terms(net, alphas, betas, powers)
    m, d, groups = net.width, net.inputs, len(terms)
    units = np.asarray(params0.W, np.float64)[: m // 2] / net.init_scale
    dW, limit = np.zeros((m, d)), 0.0
    for g, (alpha, beta, power) in enumerate(terms):
        rows, length = np.arange(g, m // 2, groups), float(np.linalg.norm(beta))
        weights = zonal_inverse(net.activation, d, power - 2)
        weights = weights * alpha * length**power * (radius / math.sqrt(d)) ** (power - 2)
        h = weights @ gegenbauer(units[rows] @ (beta / length), d, power - 2)
        share = 2 * math.sqrt(m) / len(rows)
        for side, sign in ((0, 1.0), (m // 2, -1.0)):
            size = np.sqrt(share * np.maximum(sign * h, 0))
            dW[rows + side] = size[:, None] * beta / length
        dimensions = [harmonic_dimension(d, l) for l in range(power - 1)]
        limit += 4 * m / len(rows) * float(np.sum(weights**2 / dimensions))
    f = target("ridge-sum", alphas=alphas, betas=betas, powers=powers)
    norm = limit**0.25
    return report(net, params0, dW, f, x, limit=norm, bound=norm)


def zonal_inverse(sigma: Activation, d: int, power: int) -> Float64[np.ndarray, " q"]:
    r"""The $q_l / c_l(\sigma'')$ that turn $\sigma''$ into a power, zero where $q_l$ is.

    $$\mathbb E_w\Big[\sigma''(w^\top x) \sum_l \frac{q_l}{c_l} P_l(\beta^\top w)\Big]
    = (\beta^\top x)^p, \qquad \|x\| = \sqrt d$$

    Source: NB-40, arXiv:2206.03688 Lemma 1, by Funk and Hecke's formula (NB-10).
    """
    q = d ** (power / 2) * gegenbauer_power(d, power)
    degrees = np.flatnonzero(q).tolist()
    q[degrees] /= zonal_coefficients(sigma, 2, d, degrees, learned=power + 1)
    return q
