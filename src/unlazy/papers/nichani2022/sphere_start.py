# SPDX-License-Identifier: Apache-2.0
"""Checks of starts with weights on a sphere, and the zonal coefficients of their activation."""

import functools
import math

import numpy as np
from jaxtyping import Float64

from unlazy.activations import Activation
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.quadratic_fit import check_norms, check_twins
from unlazy.special import gegenbauer_coefficients, generic_shift, harmonic_dimension
from unlazy.special.shifts import ShiftReport


def check_sphere_start(net: TwoLayer, params0: TwoLayerParams, x: Inputs | None) -> float:
    r"""Raise unless this is a start on a sphere; returns the norm of its inputs.

    It is $\sqrt d / \kappa$ for a start of radius $\kappa$: then pre-activations have variance 1.
    """
    check_twins(net, params0, "sphere")
    norms = np.linalg.norm(np.asarray(params0.W, np.float64), axis=1)
    worst = int(np.argmax(np.abs(norms / net.init_scale - 1)))
    if abs(norms[worst] / net.init_scale - 1) > 1e-5:
        raise ValueError(
            f"`params0` must have weights of norm init_scale = {net.init_scale:g}, got a norm of "
            f"{norms[worst]:.6g} in row {worst}. Make the network with init='sphere'."
        )
    radius = math.sqrt(net.inputs) / net.init_scale
    if x is not None:
        check_norms(x, net.inputs, radius, "sqrt(d)/init_scale")
    return radius


def zonal_coefficients(
    sigma: Activation, derivative: int, d: int, degrees: list[int], *, learned: int
) -> Float64[np.ndarray, " q"]:
    r"""The $c_l$ of a derivative at pre-activations of variance 1; raises where one vanishes.

    $$c_l = \mathbb E[\sigma^{(j)}(\sqrt d\, t)\, P_l(t)]$$

    with j the order of the `derivative`, for the `degrees` l that a construction divides by.
    `generic_shift` is asked for `learned`, the degree k of the low part.

    Source: NB-10 and section 8, item 7, arXiv:2206.03688 Assumption 3.
    """
    report = _report(sigma, d, learned, derivative)
    for lost in report.vanishing:
        if lost.degree in degrees:
            better = report.suggested
            advice = f"shift={sigma.shift + better:g}" if better else "another activation"
            raise ValueError(
                f"`net` must have an activation whose derivative of order {derivative} has a "
                f"component of degree l={lost.degree}, got activation={sigma.name!r} with "
                f"shift={sigma.shift:g}, where sqrt(N_l) |c_l| = {abs(lost.value):.2g}. "
                f"Try {advice}."
            )
    c = gegenbauer_coefficients(sigma, d, max(degrees), derivative)[degrees]
    return c / np.sqrt([harmonic_dimension(d, l) for l in degrees])


@functools.lru_cache(maxsize=64)  # it looks at some dozens of shifts
def _report(sigma: Activation, d: int, degree: int, derivative: int) -> ShiftReport:
    return generic_shift(sigma, d, degree, derivatives=(derivative,))
