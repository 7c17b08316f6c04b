# SPDX-License-Identifier: Apache-2.0
"""Lemma C.1: how far a moved residual network is from the one with the signs of its start."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import check_positive
from unlazy.core.entries import entry
from unlazy.nets import ResNet3Params
from unlazy.papers.allenzhu_li2019.gradients import ResNet3Gradient
from unlazy.papers.allenzhu_li2019.hidden_layers import (
    HiddenLayers,
    Movement,
    groups_of_rows,
    hidden_layers,
    movement,
    with_one,
)
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.conditions import Condition, Prescription


class ResNetCoupling(Prescription):
    """The seven terms of the lemma against their bounds; `print` shows them as a table."""

    tau_w: float  # spectral norm of the movement of W, biases included, and at least 1
    tau_v: float  # that of V
    conditions: tuple[Condition, ...]  # (a) to (g), the largest over the points


@entry
def resnet_coupling(
    params0: ResNet3Params,
    dparams: ResNet3Params | ResNet3Gradient,
    x: Inputs,
    *,
    sigma_w: int | float,
    sigma_v: int | float,
) -> ResNetCoupling:
    r"""Measure the terms that the proof of the theorem neglects, against their bounds.

    For a start $(W_0, V_0)$ and a movement (W, V) of spectral norms $\tau_w \ge 1$ and $\tau_v$,
    with $x_a = (x, 1)$ and $z = (\mathrm{out}_1(x), 1)$, the largest over the rows of `x` of

    - (a) $\|D_{W_0} - D_W\|_0 \le m^{2/3} (\tau_w/\sigma_w)^{2/3}$
    - (b) $\|A D_W W_0 x_a\| \le \tau_w (\tau_w/\sigma_w)^{1/3} m^{-1/6} + \sqrt k \sigma_w$
    - (c) $\|\mathrm{out}_1\| \le \tau_w$
    - (d) $\|D_{V_0,W} - D_{V,W}\|_0 \le m (\tau_v/\sigma_v)^{2/3}$
    - (e) $\|A D_{V,W} V_0 z\| / (\|\mathrm{out}_1\| + 1) \le \tau_v (\tau_v/\sigma_v)^{1/3}$
    - (f) $\|A D_{V,W} V_0\| \le \tau_v (\tau_v/\sigma_v)^{1/3}$
    - (g) $\|A D_{V,W} (V_0 + V) z\| / (\|\mathrm{out}_1\| + 1) \le \tau_v$

    The constants that the paper hides are taken as 1: `excess` of a condition is the constant that
    it needs. The lemma is for every movement of these norms, with high probability over the start;
    what is measured is for the given one, such as `increment` of `resnet_sgd`.

    Source: RN-26, RN-52 and RN-53, arXiv:1905.10337 Lemma C.1; (b) has the term $\sqrt k \sigma_w$
    of its proof.

    Args:
        params0: the start, of `nets.ResNet3` in its bottleneck form with init="theory".
        dparams: what is added to it; A is not moved.
        x: the points.
        sigma_w: of the start's W and b1, the network's `sigma_w`.
        sigma_v: of the start's V and b2, times $\sqrt m$: the network's `sigma_v`.

    Raises:
        ValueError: shapes do not fit, `dparams` moves A, or V is not moved at all.

    Example:
        >>> import jax
        >>> import unlazy as ul
        >>> net = ul.nets.ResNet3(4, 400, 1, sigma_v=3.0)
        >>> params, x = net.init(key=jax.random.key(0)), jax.numpy.eye(4)
        >>> step = ul.papers.allenzhu_li2019.resnet3_gradient(net, params, x, x[:, :1])
        >>> coupling = resnet_coupling(params, step, x, sigma_w=net.sigma_w, sigma_v=net.sigma_v)
        >>> print(coupling.conditions[0].text, coupling.conditions[0].excess < 0.5)
        (a) flips of the first layer True
    """
    check_positive(sigma_w, "sigma_w")
    check_positive(sigma_v, "sigma_v")
    start = hidden_layers(params0, "params0")
    moved = movement(dparams, start, "dparams")
    tau_w = max(1.0, float(np.linalg.norm(moved.W, 2)))
    tau_v = float(np.linalg.norm(moved.V, 2))
    if tau_v == 0:
        raise ValueError("`dparams` must move V or b2: the bounds are in terms of its norm.")
    m, inputs = start.W.shape[0], start.W.shape[1] - 1
    groups = [_terms(measure(start, moved, xa), start) for xa in groups_of_rows(x, m, inputs)]
    largest = np.max(np.concatenate(groups), axis=0)
    bounds = _bounds(len(start.A), m, tau_w, tau_v, float(sigma_w), float(sigma_v))
    conditions = tuple(
        Condition(text, float(value), bound)
        for (text, bound), value in zip(bounds.items(), largest, strict=True)
    )
    return ResNetCoupling(tau_w=tau_w, tau_v=tau_v, conditions=conditions)


class Measured(NamedTuple):
    """A moved network at some points, with the signs before and after."""

    first0: Float64[np.ndarray, "n m"]  # W_0 (x, 1)
    first: Float64[np.ndarray, "n m"]  # (W_0 + W)(x, 1)
    out1: Float64[np.ndarray, "n k"]
    z: Float64[np.ndarray, "n k1"]  # (out_1, 1)
    second0: Float64[np.ndarray, "n m"]  # V_0 z
    second: Float64[np.ndarray, "n m"]  # (V_0 + V) z
    out: Float64[np.ndarray, "n k"]


def measure(start: HiddenLayers, moved: Movement, xa: Float64[np.ndarray, "n d1"]) -> Measured:
    """The hidden layers and outputs of the moved network, and what the start gives there."""
    first0 = xa @ start.W.T
    first = first0 + xa @ moved.W.T
    out1 = np.maximum(first, 0) @ start.A.T
    z = with_one(out1)
    second0 = z @ start.V.T
    second = second0 + z @ moved.V.T
    out = out1 + np.maximum(second, 0) @ start.A.T
    return Measured(first0, first, out1, z, second0, second, out)


def _terms(at: Measured, start: HiddenLayers) -> Float64[np.ndarray, "n 7"]:
    """The left sides of (a) to (g) at every point."""
    D_W, D_V = at.first >= 0, at.second >= 0
    size = 1 + np.linalg.norm(at.out1, axis=1)
    products = np.einsum("rj,nj,js->nrs", start.A, D_V, start.V, optimize=True)
    columns = [
        np.sum((at.first0 >= 0) != D_W, axis=1),
        np.linalg.norm((D_W * at.first0) @ start.A.T, axis=1),
        size - 1,
        np.sum((at.second0 >= 0) != D_V, axis=1),
        np.linalg.norm((D_V * at.second0) @ start.A.T, axis=1) / size,
        np.linalg.norm(products, 2, axis=(1, 2)),
        np.linalg.norm(at.out - at.out1, axis=1) / size,
    ]
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)


def _bounds(
    k: int, m: int, tau_w: float, tau_v: float, sigma_w: float, sigma_v: float
) -> dict[str, float]:
    share = (tau_v / sigma_v) ** (1 / 3)
    spread = (tau_w / sigma_w) ** (1 / 3)
    return {
        "(a) flips of the first layer": m ** (2 / 3) * spread**2,
        "(b) |A D_W W_0 (x, 1)|": tau_w * spread * m ** (-1 / 6) + math.sqrt(k) * sigma_w,
        "(c) |out_1|": tau_w,
        "(d) flips of the second layer": m * share**2,
        "(e) |A D_VW V_0 z| / (|out_1| + 1)": tau_v * share,
        "(f) |A D_VW V_0|": tau_v * share,
        "(g) |A D_VW (V_0 + V) z| / (|out_1| + 1)": tau_v,
    }
