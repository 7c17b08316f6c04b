# SPDX-License-Identifier: Apache-2.0
"""Lemma 6.2, existence: hidden weights whose three-layer pseudo network is a given concept."""

import math
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import check_finite, check_key, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import ThreeLayerParams
from unlazy.nets.checking import check_kind
from unlazy.papers.allenzhu_li_liang2019.concept_classes import ThreeLayerConcept
from unlazy.papers.allenzhu_li_liang2019.indicator_errors import bounded_indicator, indicator_bias
from unlazy.papers.allenzhu_li_liang2019.indicator_to_function import (
    IndicatorFunction,
    Method,
    indicator_function,
)
from unlazy.papers.allenzhu_li_liang2019.information_out_of_randomness import (
    RandomInformation,
    ThreeLayerStart,
    check_learner_scale,
    random_information,
)
from unlazy.papers.allenzhu_li_liang2019.two_layer_existence import errors
from unlazy.papers.shared.start_scales import check_given_scale, squares


class ThreeLayerWeights(eqx.Module):
    r"""Movements whose three-layer pseudo network is the target, up to the widths.

    V* has rank p1 and is kept as $\sum_t \text{left}_t\, \text{right}_t^\top$; `dense_V` forms it.
    W* moves the last coordinate only, but for concepts with `w4`. Arrays are float64. Without
    points the errors are nan, and so is the correlation where outputs or target do not vary, as at
    a single point.

    In place of the $\phi_{1,j}$ stand the functions that the bounded h of `first` build. `bias` is
    the largest difference of the two over the inner products that inputs can have, divided by the
    largest $|\phi_{1,j}|$. It does not depend on the width.
    """

    dW: Float64[Array, "m1 d"]
    left: Float64[np.ndarray, "p1 m2"]
    right: Float64[np.ndarray, "p1 m1"]  # signs
    balance: float  # kappa
    norm_W_2_inf: float
    norm_V_2_inf: float
    first: tuple[IndicatorFunction, ...]  # the bounded h for phi_1
    bias: Float64[np.ndarray, " p2"]  # of each h
    information: RandomInformation
    outputs: Float64[np.ndarray, "n *c"]  # g^(0)(x; W*, V*) at the points given
    max_error: float
    rms_error: float
    correlation: float  # of the outputs with the target

    def dense_V(self) -> Float64[Array, "m2 m1"]:
        """V* as a matrix; it may be large."""
        with float64():
            return jnp.asarray(self.left.T @ self.right)


@entry
def three_layer_weights(
    start: ThreeLayerParams | ThreeLayerStart,
    concept: ThreeLayerConcept,
    x: Float[Array | np.ndarray, "n d"] | None = None,
    *,
    tau: float = 0.6,
    last: float = 0.5,
    error: int | float = 0.05,
    limit: int | float | None = None,
    output_scale: int | float = 1.0,
    method: Method = "minimum-norm",
    variance: Literal["reduced", "paper"] = "reduced",
    first: Sequence[IndicatorFunction] | None = None,
    balance: float | None = None,
    chunks: int = 1,
    key: PRNGKeyArray,
) -> ThreeLayerWeights:
    r"""Hidden weights W* and V* whose three-layer pseudo network approximates a concept.

    With $z_{i,j}$ and $C'$ of `random_information` for the $\phi_{1,j}$, $h_\Phi$ of
    `indicator_function` for $z \mapsto \Phi(C' z)$, $h_{2,j}$ for $\phi_{2,j}$ and random signs s,

    $$V^*_{i,j'} = \frac{a_i}{\kappa m_2}\, h_\Phi\Big( \sum_j v^*_{1,j} z_{i,j},
    \sqrt{m_2}\, b_{2,i} \Big)\, s_{j'}, \qquad
    W^*_{j'} = \frac{\kappa\, s_{j'}}{m_1 x_d} \sum_j v^*_{2,j}\,
    h_{2,j}\big( \sqrt{m_1} \langle w_{j'}, w^*_{2,j}\rangle, \sqrt{m_1} b_{1,j'} \big)\, e_d$$

    for each term; terms are added, each with signs of its own, and so are outputs, with
    $a_{r,i} a^*_r$ for $a_i$, all over $s^2$ for output weights of scale s. Then
    $g^{(0)}(x; W^*, V^*) \approx f^*(x)$, up to the bias of the bounded h and an error that falls
    with the widths. A non-linear $\Phi$ multiplies the energy of degree i by $C'^{2i}$, about 300
    each: beyond $\Phi(z) = z$ the widths needed are out of reach. C' grows with the bound of h: at
    a bias of .05 it is 17 for the identity, 39 for exp, 62 for sin, 107 for $z^2$, 417 for tanh and
    518 for $z^3$, and the width $m_2$ needed grows like its square.

    In the generalised class $w^*_{4,j}$ takes the place of $e_d/x_d$ in W*, and z carries the
    products with $\langle w^*_{3,j}, x\rangle$: see `random_information`.

    Source: LG-45, arXiv:1811.04918 Lemma 6.2, with Remark 4.2.

    Args:
        start: the network at its start, of multiplier 1 and init="learner", whose mean squares are
            checked: $1/m_1$ for W and $b_1$, $1/m_2$ for V and $b_2$, $s^2$ for a.
        concept: the target, with `w1` orthogonal to $e_d$ unless it has `w3`.
        x: points of unit norm with last coordinate `last`, where the error is measured.
        tau: share of the neurons that carry information.
        last: $x_d$.
        error: the bias allowed: the largest $|\phi_\varepsilon - \phi|$ for any $\phi_{1,j}$, over
            the largest $|\phi|$. The limits are the least ones that keep it.
        limit: where the argument of the first-layer h is clipped, in place of those limits.
        output_scale: s, the init_scale of the network, 1 in the paper. Refused where the mean
            square of the output weights contradicts it: for Gaussian ones with probability 1e-9.
        method: of `indicator_function`, for $h_\Phi$ and $h_2$.
        variance: "paper" is the formula above. "reduced" puts $\sqrt{\pi/2}\, \mathrm{sign}(a_i)$
            for $a_i$ in V*, with the same mean and half the variance, and takes the known mean of
            $h_\Phi$ for the average over neurons: about a third of the squared error.
        first: the bounded h for $\phi_{1,j}$, in place of those that `error` and `limit` give.
        balance: $\kappa$; by default such that the rows of V* are at most $\sqrt{m_1}/m_2$ long.
        chunks: of `random_information`.
        key: for the signs.

    Example:
        >>> import unlazy as ul
        >>> e, one = np.eye(3), np.ones((1, 1))
        >>> concept = ThreeLayerConcept(
        ...     np.ones(1), ["identity"], one, one, ["identity"], ["sin"], e[:1], e[1:2])
        >>> params = ul.nets.ThreeLayer(3, (100, 400)).init(key=jr.key(0))
        >>> found = three_layer_weights(params, concept, key=jr.key(1))
        >>> print(found.left.shape, found.right.shape, found.norm_V_2_inf <= 10 / 400 + 1e-12)
        (1, 400) (1, 100) True
        >>> print(found.first[0].limits[1], found.bias.round(3))
        1.875 [0.046]
    """
    check_key(key)
    check_name(variance, ["reduced", "paper"], "variance")
    a = _checked(start, concept, output_scale)
    check_positive(last, "last")
    # The largest product of a unit input with a unit direction that leaves its last entry out.
    reach = math.sqrt(max(1 - float(last) ** 2, 0.0)) if concept.w3 is None else 1.0
    if first is None:
        first = [
            bounded_indicator(phi, error=error, limit=limit, reach=reach) for phi in concept.inner1
        ]
    info = random_information(
        start, first, concept.w1, x, times=concept.w3, tau=tau, last=last, chunks=chunks
    )
    b2 = np.asarray(start.b2, np.float64)
    left = _left(info, concept, a, b2, method, variance, float(output_scale))
    W0, b1 = np.asarray(start.W, np.float64), np.asarray(start.b1, np.float64)
    signs = jr.rademacher(key, (len(concept.outer), len(W0)), dtype=jnp.int8)
    right = np.asarray(signs, np.float64)
    if balance is None:
        balance = float(np.max(np.abs(left))) * left.shape[1] * math.sqrt(len(left)) or 1.0
    check_positive(balance, "balance")
    left = left / balance
    dW = balance * _second(W0, b1, right, concept, method, last) / len(W0)
    outputs = _outputs(info, a, left, right, b2, W0, b1, dW, x)
    # Measured against the concept: an h that was given may be made for another function.
    pairs = zip(first, concept.inner1, strict=True)
    bias = np.array([indicator_bias(h, phi, reach=reach) for h, phi in pairs])
    known = {"first": tuple(first), "bias": bias, "information": info}
    return _report(dW, left, right, balance, known, outputs, concept, x)


def _left(
    info: RandomInformation,
    concept: ThreeLayerConcept,
    a: Float64[np.ndarray, "k m2"],
    b2: Float64[np.ndarray, " m2"],
    method: Method,
    variance: str,
    output_scale: float,
) -> Float64[np.ndarray, "p1 m2"]:
    """The left vectors of V*, at balance 1."""
    m2, a = len(b2), a / output_scale
    w = a if variance == "paper" else math.sqrt(math.pi / 2) * np.where(a < 0, -1.0, 1.0)
    shares = np.sum(w * a, axis=0)  # never negative
    sums = concept.v1 @ info.z.T
    values = []
    for t, Phi in enumerate(concept.outer):
        h = indicator_function(Phi.scaled(info.scale), method=method)
        value = h(sums[t], math.sqrt(m2) * b2)
        if variance == "reduced":
            value = value + h.mean - np.sum(shares * value) / np.sum(shares)
        values.append(value)
    return np.atleast_2d(concept.a).T @ w * np.stack(values) / (m2 * output_scale)


def _second(
    W0, b1, right, concept: ThreeLayerConcept, method: Method, last: float
) -> Float64[np.ndarray, "m1 d"]:
    """The rows of W*, at balance 1 and without the mean over neurons."""
    root = math.sqrt(len(W0))
    directions = root * (W0 @ concept.w2.T)
    hs = [indicator_function(phi, method=method) for phi in concept.inner2]
    values = np.stack([h(directions[:, j], root * b1) for j, h in enumerate(hs)])
    constant = np.tile(np.eye(W0.shape[1])[-1] / last, (len(hs), 1))  # <constant, x> = 1
    along = constant if concept.w4 is None else concept.w4
    return ((right.T @ concept.v2) * values.T) @ along


def _outputs(info, a, left, right, b2, W0, b1, dW, x) -> Float64[np.ndarray, "n k"]:
    """g^(0), with the signs of the start."""
    if x is None:
        return np.zeros((0, a.shape[0]))
    x = np.asarray(x, np.float64)
    masks = x @ W0.T + b1 >= 0, info.hidden + b2 >= 0
    return low_rank_outputs(masks, a, left, right, dW, x)


def low_rank_outputs(masks, a, left, right, dW, x) -> Float64[np.ndarray, "n k"]:
    """g^(b,b) for the masks of both layers, through the low rank of V*: nothing is m1 by m2."""
    inner = (masks[0] * (x @ dW.T)) @ right.T  # (n, p1)
    outer = np.stack([(masks[1] * row) @ a.T for row in left])  # (p1, n, k)
    return np.einsum("tnk,nt->nk", outer, inner)


def _report(dW, left, right, balance, known, outputs, concept, x) -> ThreeLayerWeights:
    lengths = np.sqrt(np.sum((left.T @ (right @ right.T)) * left.T, axis=1))
    outputs = outputs.reshape(len(outputs), *concept.a.shape[:-1])
    target = None if x is None else concept(np.asarray(x, np.float64))
    worst, rms = errors(outputs, target)
    correlation = math.nan
    if target is not None and np.ptp(outputs) and np.ptp(target):
        correlation = float(np.corrcoef(outputs.ravel(), target.ravel())[0, 1])
    with float64():
        return ThreeLayerWeights(
            *(jnp.asarray(dW), left, right, float(balance)),
            norm_W_2_inf=float(np.max(np.linalg.norm(dW, axis=1))),
            norm_V_2_inf=float(np.max(lengths)),
            **known,
            outputs=outputs,
            max_error=worst,
            rms_error=rms,
            correlation=correlation,
        )


def _checked(
    start: ThreeLayerParams | ThreeLayerStart, concept: ThreeLayerConcept, output_scale: int | float
) -> Float64[np.ndarray, "k m2"]:
    check_kind(start, ThreeLayerParams, ThreeLayerStart, name="start")
    check_kind(concept, ThreeLayerConcept, name="concept")
    a = np.atleast_2d(np.asarray(start.a, np.float64))
    k, d = np.atleast_2d(concept.a).shape[0], concept.w1.shape[1]
    if np.shape(start.W)[1] != d or a.shape != (k, np.shape(start.b2)[0]):
        raise ValueError(
            f"`start` must be of a network with {d} inputs and {k} outputs, as the concept, "
            f"got W.shape={np.shape(start.W)} and a.shape={np.shape(start.a)}."
        )
    # The scales of b2 and a; `random_information` looks at the others.
    check_positive(output_scale, "output_scale")
    for name, value in (("b2", start.b2), ("a", start.a)):
        check_finite(value, f"start.{name}")
    check_learner_scale(squares(start.b2), a.shape[1], "b2", "m2")
    check_given_scale(
        squares(a),
        float(output_scale),
        "output_scale",
        of="the output weights of `start`",
        advice="Pass the init_scale of the network, over sqrt(m2) for init='experiment'.",
    )
    return a
