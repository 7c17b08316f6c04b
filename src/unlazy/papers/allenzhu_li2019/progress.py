# SPDX-License-Identifier: Apache-2.0
"""Lemma C.3, Claims C.6 and C.7: what a step towards the target falls short of."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import check_positive
from unlazy.core.entries import entry
from unlazy.nets import ResNet3Params
from unlazy.papers.allenzhu_li2019.concepts import ResidualConcept
from unlazy.papers.allenzhu_li2019.coupling import measure
from unlazy.papers.allenzhu_li2019.gradients import ResNet3Gradient
from unlazy.papers.allenzhu_li2019.hidden_layers import (
    HiddenLayers,
    Movement,
    groups_of_rows,
    hidden_layers,
    movement,
)
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.conditions import Condition, Prescription


class ResNetProgress(Prescription):
    """The error term of descent towards a target, and its bounds; `print` shows a table."""

    tau_w: float  # the larger Frobenius norm of W and W*, and at least 1
    tau_v: float  # that of V and V*
    risk: float  # mean of |H - out|^2 over the points
    error: float  # mean of |Err|^2
    errors: Float64[np.ndarray, "n k"]  # Err at every point
    conditions: tuple[Condition, ...]


@entry
def resnet_progress(
    params0: ResNet3Params,
    dparams: ResNet3Params | ResNet3Gradient,
    target: ResNet3Params,
    concept: ResidualConcept,
    x: Inputs,
    *,
    sigma_v: int | float,
    constant: int | float = 2.0,
) -> ResNetProgress:
    r"""Measure how far a gradient step is from one towards the target network.

    At the movement (W, V), with $W^*, V^*$ as target and $z = (\mathrm{out}_1(x), 1)$,

    $$\mathrm{Err} = A D_{V,W}(V_0 + V)\big(A D_W (W^* - W) x_a, 0\big) + A D_W (W^* - W) x_a
    + A D_{V,W} (V^* - V) z - (H(x) - \mathrm{out}(x))$$

    so that the gradient at the label H(x) has the product
    $\langle H - \mathrm{out}, H - \mathrm{out} + \mathrm{Err}\rangle$ with
    $(W - W^*, V - V^*)$. With
    $\tilde\alpha = \alpha/(k (p_F C_s(F) + p_G C_s(G)))$, means and largest values over `x`:

    - C.3 (a) $E\|A D_W W^* x_a - F\|^2 \le \tilde\alpha^4$
    - C.3 (b) $\|A D_{V,W} V^* z - \alpha G(\mathrm{out}_1)\| / \|z\| \le
      \tilde\alpha^2 + \tau_v (\tau_v/\sigma_v)^{1/3}$
    - C.3 (c) $E\|A D_W (W^* - W) x_a - (F - \mathrm{out}_1)\|^2 \le \tilde\alpha^4$
    - C.6 $E\|\mathrm{Err}\|^2 \le (\tau_v + \alpha L_G)^2 E\|H - \mathrm{out}\|^2 +
      (\tilde\alpha^2 + \tau_v^2 (1 + B_F) + \alpha \tau_v L_G (1 + B_F))^2$, and
      $\|\mathrm{Err}\| \le \tau_w$
    - C.7 $\|\mathrm{out}_1 - F\| - 2 \|\mathrm{out} - H\| \le \tau_v (B_F + 1) + \alpha B_{FG}$

    The constants that the paper hides are taken as 1: `excess` of a condition is the constant that
    it needs. $B_F$ and $B_{FG}$ are the largest $\|F\|$ and $\|G(F)\|$ over the points, $L_G$ and
    $C_s$ are those of the concept.

    Source: RN-58, arXiv:1905.10337 Lemma C.3 and Claims C.6, C.7. The paper prints $\tilde\alpha^2$
    once in (a), where its proof has the fourth power, and $\tilde\alpha G$ in (b).

    Args:
        params0: the start, in the bottleneck form.
        dparams: the movement (W, V), such as `increment` of `resnet_sgd`; A is not moved.
        target: the movement $(W^*, V^*)$, such as `dparams` of `resnet_weights`.
        concept: what the target network is to be.
        x: the points.
        sigma_v: the network's `sigma_v`.
        constant: $C^*$ of the complexities.

    Raises:
        ValueError: shapes do not fit, or `dparams` or `target` moves A.

    Example:
        >>> import jax
        >>> import unlazy as ul
        >>> net = ul.nets.ResNet3(4, 2000, 2)
        >>> concept = ul.papers.allenzhu_li2019.parity_concept((0, 1), inputs=4, alpha=0.1)
        >>> params, x = net.init(key=jax.random.key(0)), ul.data.corners(4, scale=0.5)
        >>> fit = ul.papers.allenzhu_li2019.resnet_weights(
        ...     params, concept, sigma_w=net.sigma_w, sigma_v=net.sigma_v
        ... )
        >>> zero = jax.tree.map(lambda p: 0 * p, params)
        >>> found = resnet_progress(params, zero, fit.dparams, concept, x, sigma_v=net.sigma_v)
        >>> print(found.error < found.risk / 4)
        True
    """
    check_positive(sigma_v, "sigma_v")
    start = hidden_layers(params0, "params0")
    moved, aim = movement(dparams, start, "dparams"), movement(target, start, "target")
    m, inputs = start.W.shape[0], start.W.shape[1] - 1
    groups = [_at(start, moved, aim, concept, xa) for xa in groups_of_rows(x, m, inputs)]
    at = _Points(*(np.concatenate(part) for part in zip(*groups, strict=True)))
    tau_w, tau_v = (
        max(float(np.linalg.norm(one)), float(np.linalg.norm(other)))
        for one, other in zip(moved, aim, strict=True)
    )
    tau_w = max(1.0, tau_w)
    conditions = _conditions(at, concept, tau_w, tau_v, float(sigma_v), constant)
    return ResNetProgress(
        tau_w=tau_w,
        tau_v=tau_v,
        risk=_mean_square(at.H - at.out),
        error=_mean_square(at.err),
        errors=at.err,
        conditions=conditions,
    )


class _Points(NamedTuple):
    """The vectors of all points that the bounds are about."""

    F: Float64[np.ndarray, "n k"]
    composite: Float64[np.ndarray, "n k"]  # alpha G(F)
    H: Float64[np.ndarray, "n k"]
    out1: Float64[np.ndarray, "n k"]
    out: Float64[np.ndarray, "n k"]
    err: Float64[np.ndarray, "n k"]
    base: Float64[np.ndarray, "n k"]  # A D_W W* (x, 1) - F
    toward: Float64[np.ndarray, "n k"]  # A D_W (W* - W)(x, 1) - (F - out_1)
    second: Float64[np.ndarray, "n k"]  # A D_VW V* z - alpha G(out_1)


def _at(
    start: HiddenLayers,
    moved: Movement,
    aim: Movement,
    concept: ResidualConcept,
    xa: Float64[np.ndarray, "n d1"],
) -> _Points:
    at = measure(start, moved, xa)
    F = np.asarray(concept.base(xa[:, :-1]))
    composite = concept.alpha * np.asarray(concept.composite(F))
    H, A = F + composite, start.A
    D_W, D_V = at.first >= 0, at.second >= 0
    t = (D_W * (xa @ (aim.W - moved.W).T)) @ A.T
    through = (D_V * (t @ (start.V + moved.V)[:, :-1].T)) @ A.T
    g = (D_V * (at.z @ (aim.V - moved.V).T)) @ A.T
    made = (D_V * (at.z @ aim.V.T)) @ A.T
    return _Points(
        F=F,
        composite=composite,
        H=H,
        out1=at.out1,
        out=at.out,
        err=through + t + g - (H - at.out),
        base=(D_W * (xa @ aim.W.T)) @ A.T - F,
        toward=t - (F - at.out1),
        second=made - concept.alpha * np.asarray(concept.composite(at.out1)),
    )


def _conditions(
    at: _Points,
    concept: ResidualConcept,
    tau_w: float,
    tau_v: float,
    sigma_v: float,
    constant: int | float,
) -> tuple[Condition, ...]:
    known, alpha = concept.complexity(constant=constant), abs(concept.alpha)
    terms = known.base_terms * known.base.c_s + known.composite_terms * known.composite.c_s
    small = alpha / (known.outputs * terms)  # the paper's alpha with a tilde
    L_G, B_F = known.lipschitz, float(np.max(_norms(at.F)))
    flips = tau_v * (tau_v / sigma_v) ** (1 / 3)
    share = (tau_v + alpha * L_G) ** 2 * _mean_square(at.H - at.out)
    rest = small**2 + tau_v**2 * (1 + B_F) + alpha * tau_v * L_G * (1 + B_F)
    lengths = np.hypot(1, _norms(at.out1))
    gap = _norms(at.out1 - at.F) - 2 * _norms(at.out - at.H)
    most = tau_v * (B_F + 1) + float(np.max(_norms(at.composite)))
    return (
        Condition("C.3 (a) E|A D_W W* (x, 1) - F|^2", _mean_square(at.base), small**4),
        Condition(
            "C.3 (b) |A D_VW V* z - alpha G(out_1)| / |z|",
            float(np.max(_norms(at.second) / lengths)),
            small**2 + flips,
        ),
        Condition(
            "C.3 (c) E|A D_W (W* - W)(x, 1) - (F - out_1)|^2", _mean_square(at.toward), small**4
        ),
        Condition("C.6 E|Err|^2", _mean_square(at.err), share + rest**2),
        Condition("C.6 |Err|", float(np.max(_norms(at.err))), tau_w),
        Condition("C.7 |out_1 - F| - 2 |out - H|", max(0.0, float(np.max(gap))), most),
    )


def _norms(rows: Float64[np.ndarray, "n k"]) -> Float64[np.ndarray, " n"]:
    return np.linalg.norm(rows, axis=1)


def _mean_square(rows: Float64[np.ndarray, "n k"]) -> float:
    return float(np.mean(_norms(rows) ** 2))
