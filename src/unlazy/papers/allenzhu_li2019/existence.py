# SPDX-License-Identifier: Apache-2.0
"""Lemmas E.1 and C.2: hidden weights that make a residual network a residual concept."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import ResNet3Params
from unlazy.papers.allenzhu_li2019.concepts import BiasedConcept, ResidualConcept
from unlazy.papers.allenzhu_li2019.hidden_layers import (
    HiddenLayers,
    groups_of_rows,
    hidden_layers,
    with_one,
)
from unlazy.papers.allenzhu_li_liang2019.indicator_errors import indicator_bias
from unlazy.papers.allenzhu_li_liang2019.indicator_to_function import (
    IndicatorFunction,
    Truncation,
    indicator_function,
)
from unlazy.papers.shared import PowerSeries
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.start_scales import check_given_scale, check_start_scale, squares

Indicators = dict[PowerSeries, IndicatorFunction]  # the h of every function


class ResNetWeights(eqx.Module):
    r"""A movement of the hidden layers that makes the network the target, up to its width.

    `dparams` has W*, V* with their biases, and zeros for A: add it to the start with `jax.tree.map`
    under `with jax.enable_x64(True)`. Errors are root mean squares over points and outputs. Without
    points they are nan, and `base`, `composite` and `outputs` are empty. `bias` is the largest
    difference between a function and the one that its truncated h builds, over the largest value of
    the function.
    """

    dparams: ResNet3Params
    norms: tuple[float, float]  # Frobenius, of W* and of V*, biases included
    longest: tuple[float, float]  # rows of W* and of V*
    bias: tuple[float, float]  # of the functions of F and of G, at any width; 0 if not truncated
    base: Float64[np.ndarray, "n k"]  # A D_W0 W* (x, 1), near F
    composite: Float64[np.ndarray, "n k"]  # A D_V0 V* (F(x), 1), near alpha G(F)
    outputs: Float64[np.ndarray, "n k"]
    base_error: float
    composite_error: float
    error: float  # of the outputs, against F + alpha G(F)
    start: float  # root mean square of the outputs before the movement
    flipped: float  # share of first-layer signs that the movement changes


@entry
def resnet_weights(
    params0: ResNet3Params,
    concept: ResidualConcept,
    x: Inputs | None = None,
    *,
    sigma_w: int | float,
    sigma_v: int | float,
    truncation: Truncation = "none",
) -> ResNetWeights:
    r"""Construct movements W*, V* that make a residual network approximate a residual concept.

    With biases as a last coordinate of the rows,

    $$w^*_j = \sum_r A_{r,j} \sum_i a_{r,i}\, h^{(i)}\Big( \frac{\langle w^{(0)}_j, w_{1,i}\rangle}
    {\sigma_w} \Big) w_{2,i}, \qquad A\, D_{W_0}(x)\, W^* x_a \to F(x)$$

    where $h^{(i)}$ is the "centered" `indicator_function` of $\phi_i$; V* is the same for the
    composite, times α, with $\sigma_v/\sqrt m$ for $\sigma_w$. Errors of the linear parts fall like
    $m^{-1/2}$ while the Frobenius norms tend to constants. The network itself adds its initial
    output, of size $\sigma_w$, and what flipped signs change, which grows as $\sigma_w$ falls.

    Source: RN-71, arXiv:1905.10337 Lemmas E.1 and C.2, scaled for output weights of variance 1/m.

    Args:
        params0: the start, of `nets.ResNet3` in its bottleneck form with init="theory".
        concept: the target.
        x: points where errors are measured.
        sigma_w: of the start's W and b1, the network's `sigma_w`.
        sigma_v: of the start's V and b2, times $\sqrt m$: the network's `sigma_v`. Both are refused
            if the mean squares of the start contradict them, which happens to a start of that very
            scale with probability 1e-9.
        truncation: of `indicator_function`; "tight" tames the tails of high degrees.

    Raises:
        ValueError: shapes do not fit, an entry is not finite, `sigma_w` or `sigma_v` is not that of
            `params0`, or its A has another variance than 1/m.

    Example:
        >>> import jax
        >>> import unlazy as ul
        >>> net = ul.nets.ResNet3(4, 4096, 2)
        >>> concept = ul.papers.allenzhu_li2019.parity_concept((0, 1), inputs=4, alpha=0.1)
        >>> params = net.init(key=jax.random.key(0))
        >>> x = ul.data.corners(4, scale=0.5)
        >>> fit = resnet_weights(params, concept, x, sigma_w=net.sigma_w, sigma_v=net.sigma_v)
        >>> print(fit.base_error < 0.1, fit.composite_error < 0.02)
        True True
    """
    check_positive(sigma_w, "sigma_w")
    check_positive(sigma_v, "sigma_v")
    start = _checked(params0, concept)
    _check_scales(start, float(sigma_w), float(sigma_v))
    m = start.W.shape[0]
    known = {
        phi: indicator_function(phi, method="centered", truncation=truncation)
        for phi in set(concept.base.functions + concept.composite.functions)
    }
    dW = _movement(start.W / float(sigma_w), start.A, concept.base, known)
    spread = float(sigma_v) / math.sqrt(m)
    dV = concept.alpha * _movement(start.V / spread, start.A, concept.composite, known)
    with float64():
        W, V = (jnp.asarray(moved[:, :-1]) for moved in (dW, dV))
        b1, b2 = (jnp.asarray(moved[:, -1]) for moved in (dW, dV))
        dparams = ResNet3Params(W=W, b1=b1, V=V, b2=b2, A=jnp.zeros(start.A.shape))
    of_W, of_V = (np.linalg.norm(moved, axis=1) for moved in (dW, dV))
    norms = float(np.linalg.norm(of_W)), float(np.linalg.norm(of_V))
    longest = float(np.max(of_W)), float(np.max(of_V))
    bias = _bias(concept.base, known), _bias(concept.composite, known)
    return ResNetWeights(dparams, norms, longest, bias, *_measured(start, dW, dV, concept, x))


def _checked(params0: ResNet3Params, concept: ResidualConcept) -> HiddenLayers:
    k, d = concept.base.outputs, concept.base.inputs
    if params0.W.shape[1] != d or params0.A.shape[0] != k:
        raise ValueError(
            f"`params0` must be of a bottleneck network with {d} inputs and {k} outputs, as the "
            f"concept, got W.shape={params0.W.shape} and A.shape={params0.A.shape}."
        )
    return hidden_layers(params0, "params0")


def _check_scales(start: HiddenLayers, sigma_w: float, sigma_v: float) -> None:
    m = start.A.shape[1]
    given = (("sigma_w", sigma_w, start.W, 1), ("sigma_v", sigma_v, start.V, m))
    for argument, sigma, rows, root in given:
        advice = f"Pass the {argument} of the network, which must have init='theory'."
        for part, name in ((rows[:, :-1], "weights"), (rows[:, -1], "biases")):
            of = f"the {name} of `params0` that it stands for"
            check_given_scale(squares(part), sigma, argument, of=of, advice=advice, root=root)
    advice = "Pass a start of nets.ResNet3 with init='theory'."
    check_start_scale(squares(start.A), m**-0.5, "params0.A", formula="1/sqrt(m)", advice=advice)


def _bias(concept: BiasedConcept, known: Indicators) -> float:
    hs = [known[phi] for phi in set(concept.functions)]
    return max((indicator_bias(h) for h in hs if np.isfinite(h.limits[1:]).any()), default=0.0)


def _movement(
    rows: np.ndarray, A: np.ndarray, concept: BiasedConcept, known: Indicators
) -> Float64[np.ndarray, "m d1"]:
    """The sum of the formula, for rows of standard Gaussians."""
    H = np.empty((len(rows), len(concept.functions)))
    zero = np.zeros(len(rows))
    for i, phi in enumerate(concept.functions):
        H[:, i] = known[phi](rows @ concept.w1[i], zero)
    return (A.T @ concept.a * H) @ concept.w2


def _measured(
    start: HiddenLayers, dW: np.ndarray, dV: np.ndarray, concept: ResidualConcept, x: Inputs | None
) -> tuple[Any, ...]:
    """The fields of `ResNetWeights` from `base` on."""
    if x is None:
        none = np.zeros((0, len(start.A)))
        return none, none, none, *([math.nan] * 5)
    groups = list(groups_of_rows(x, len(start.W), concept.base.inputs))
    F = np.asarray(concept.base(np.concatenate(groups)[:, :-1]))
    G = concept.alpha * np.asarray(concept.composite(F))
    ends = np.cumsum([len(xa) for xa in groups])
    parts = [
        _at(start, dW, dV, xa, F[end - len(xa) : end]) for xa, end in zip(groups, ends, strict=True)
    ]
    base, composite, outputs, before, flips = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    errors = (_rms(missed) for missed in (base - F, composite - G, outputs - F - G))
    return base, composite, outputs, *errors, _rms(before), float(np.mean(flips))


def _at(start: HiddenLayers, dW: np.ndarray, dV: np.ndarray, xa: np.ndarray, F: np.ndarray):
    """Both linear parts, the outputs after and before, and the share of flips per point."""
    z = with_one(F)
    first, second = xa @ start.W.T, z @ start.V.T
    moved = xa @ dW.T
    base = ((first >= 0) * moved) @ start.A.T
    composite = ((second >= 0) * (z @ dV.T)) @ start.A.T
    flips = np.mean((first >= 0) != (first + moved >= 0), axis=1)
    after = _outputs(first + moved, start.V + dV, start.A)
    return base, composite, after, _outputs(first, start.V, start.A), flips


def _outputs(first: np.ndarray, V: np.ndarray, A: np.ndarray) -> np.ndarray:
    out1 = np.maximum(first, 0) @ A.T
    return out1 + np.maximum(with_one(out1) @ V.T, 0) @ A.T


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
