# SPDX-License-Identifier: Apache-2.0
"""Lemma B.1, existence: hidden weights whose two-layer pseudo network is a given concept."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from unlazy.core.checks import check_finite, check_inputs, check_positive, check_unit_rows
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import BiasedTwoLayerParams
from unlazy.nets.checking import check_kind, check_rows
from unlazy.papers.allenzhu_li_liang2019.concept_classes import TwoLayerConcept
from unlazy.papers.allenzhu_li_liang2019.indicator_errors import indicator_bias
from unlazy.papers.allenzhu_li_liang2019.indicator_to_function import (
    IndicatorFunction,
    Method,
    indicator_function,
)
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.smooth_functions import Outputs
from unlazy.papers.shared.start_scales import check_given_scale, check_start_scale, squares

_ENTRIES = 2**24  # entries of the masks held at a time


class TwoLayerWeights(eqx.Module):
    r"""A movement whose pseudo network is the target, up to the width.

    `dW` is in float64; with x64 off JAX would round it in the next operation: work under
    `with jax.enable_x64(True)`, or on `np.asarray(result.dW)`. Without points the errors are nan.
    `bias` is the largest difference between a function of the concept and the one that the given h
    builds, over the largest value of the function; it is zero for the h of this construction.
    """

    dW: Float64[Array, "m d"]
    norm_2_inf: float  # the longest row
    norm_frobenius: float
    energies: Float64[np.ndarray, " p"]  # E h^2 per function: the width that an error needs
    bias: Float64[np.ndarray, " p"]  # of each function that an h builds
    outputs: Float64[np.ndarray, "n *c"]  # of the pseudo network at the points given
    max_error: float
    rms_error: float


@entry
def two_layer_weights(
    params0: BiasedTwoLayerParams,
    concept: TwoLayerConcept,
    x: Inputs | None = None,
    *,
    output_scale: int | float,
    method: Method = "minimum-norm",
    indicators: Sequence[IndicatorFunction] | None = None,
) -> TwoLayerWeights:
    r"""Hidden weights W* whose two-layer pseudo network approximates a concept.

    $$w^*_j = \frac{1}{m \varepsilon_a^2} \sum_r a_{r,j} \sum_i a^*_{r,i}\,
    h^{(i)}\big( \sqrt m \langle w^{(0)}_j, w^*_{1,i}\rangle, \sqrt m\, b_j \big)\, w^*_{2,i},
    \qquad g^{(b)}(x; W^*) \approx f^*(x)$$

    with $h^{(i)}$ of `indicator_function` for $\phi_i$. The error falls like $m^{-1/2}$, with the
    energies $\mathbb E h^2$ in front, and $\|W^*\|_F\, \varepsilon_a \sqrt m$ tends to a constant.

    Source: LG-42, arXiv:1811.04918 Lemma B.1.

    Args:
        params0: the start, of `nets.BiasedTwoLayer` with init="learner"; outputs as the concept's.
        concept: the target.
        x: points of unit norm where the error is measured.
        output_scale: $\varepsilon_a$, the init_scale of the network. Refused where the mean square
            of the output weights contradicts it: for Gaussian ones with probability 1e-9. So are
            hidden weights and biases whose mean square contradicts 1/m.
        method: of `indicator_function`.
        indicators: the $h^{(i)}$ themselves, one per function of the concept.

    Example:
        >>> import jax, unlazy as ul
        >>> net = ul.nets.BiasedTwoLayer(3, 4096, init_scale=0.1)
        >>> e, params = np.eye(3), net.init(key=jax.random.key(0))
        >>> concept = TwoLayerConcept(np.ones(1), ["sin"], e[:1], e[1:2])
        >>> fit = two_layer_weights(params, concept, e, output_scale=0.1)
        >>> print(fit.max_error < 0.1, fit.energies.round(2))
        True [13.62]
    """
    check_positive(output_scale, "output_scale")
    W0, b, a = _checked(params0, concept, float(output_scale))
    rows = np.zeros((0, W0.shape[1])) if x is None else _checked_points(x, W0.shape[1])
    hs = indicators
    if hs is None:
        hs = [indicator_function(phi, method=method) for phi in concept.functions]
    if len(hs) != len(concept.functions):
        raise ValueError(
            f"`indicators` must be {len(concept.functions)}, one a function, got {len(hs)}."
        )
    m = len(W0)
    directions = math.sqrt(m) * (W0 @ concept.w1.T)
    H = np.stack([h(directions[:, i], math.sqrt(m) * b) for i, h in enumerate(hs)], axis=1)
    weights = a.T @ np.atleast_2d(concept.a)
    dW = (weights * H) @ concept.w2 / (m * float(output_scale) ** 2)
    energies, bias = np.array([h.energy for h in hs]), np.zeros(len(hs))
    if indicators is not None:  # they may be clipped, or made for other functions
        bias[:] = [indicator_bias(h, f) for h, f in zip(hs, concept.functions, strict=True)]
    lengths = np.linalg.norm(dW, axis=1)
    outputs = _pseudo_output(W0, b, a, dW, rows).reshape(len(rows), *concept.a.shape[:-1])
    worst, rms = errors(outputs, None if x is None else concept(rows))
    with float64():
        sizes = jnp.asarray(dW), float(np.max(lengths)), float(np.linalg.norm(lengths))
    return TwoLayerWeights(*sizes, energies, bias, outputs, worst, rms)


def errors(outputs: np.ndarray, target: Outputs | None) -> tuple[float, float]:
    """The largest and the root mean square difference; nan without a target."""
    if target is None:
        return math.nan, math.nan
    error = outputs - target
    return float(np.max(np.abs(error))), float(np.sqrt(np.mean(error**2)))


def _pseudo_output(W0, b, a, dW, x: np.ndarray) -> Float64[np.ndarray, "n k"]:
    outputs = np.zeros((len(x), len(a)))
    step = max(1, _ENTRIES // len(W0))
    for k in range(0, len(x), step):
        rows = x[k : k + step]
        outputs[k : k + step] = ((rows @ W0.T + b >= 0) * (rows @ dW.T)) @ a.T
    return outputs


def _checked(
    params0: BiasedTwoLayerParams, concept: TwoLayerConcept, output_scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    check_kind(params0, BiasedTwoLayerParams, name="params0")
    check_kind(concept, TwoLayerConcept, name="concept")
    W0, b = np.asarray(params0.W, np.float64), np.asarray(params0.b, np.float64)
    a = np.atleast_2d(np.asarray(params0.a, np.float64))
    outputs = np.atleast_2d(concept.a).shape[0]
    if W0.shape[1] != concept.w1.shape[1] or a.shape[0] != outputs:
        raise ValueError(
            f"`params0` must be of a network with {concept.w1.shape[1]} inputs and {outputs} "
            f"outputs, as the concept, got W.shape={W0.shape} and a.shape={params0.a.shape}."
        )
    for name, value in [("W", W0), ("b", b), ("a", a)]:
        check_finite(value, f"params0.{name}")
    for name, value in [("W", W0), ("b", b)]:
        check_start_scale(
            squares(value),
            len(b) ** -0.5,
            f"params0.{name}",
            formula="1/sqrt(m)",
            advice="Pass a start of nets.BiasedTwoLayer, before any training.",
        )
    check_given_scale(
        squares(a),
        output_scale,
        "output_scale",
        of="the output weights of `params0`",
        advice="Pass the init_scale of the network, over sqrt(m) for init='experiment'.",
    )
    return W0, b, a


def _checked_points(x: Inputs, inputs: int) -> Float64[np.ndarray, "n d"]:
    check_inputs(x)
    check_rows(np.asarray(x), inputs)
    check_unit_rows(x, tolerance=1e-3)  # an error far below that of any width
    return np.asarray(x, np.float64)
