# SPDX-License-Identifier: Apache-2.0
"""Traces of functions of a matrix, estimated from random probes."""

import math
from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Float64

from unlazy.linalg.iterative import Matmat
from unlazy.linalg.lanczos import krylov_quadrature


class Estimate(eqx.Module):
    """A number and the standard error of its random estimate; zero where it is exact."""

    value: float
    standard_error: float


def trace_estimate(
    function: Callable[[Float64[np.ndarray, " k"]], Float64[np.ndarray, " k"]],
    matmat: Matmat,
    probes: Float64[np.ndarray, "n s"],
    *,
    tolerance: float = 1e-5,
    max_basis: int = 1000,
) -> Estimate:
    r"""Estimate $\operatorname{tr} f(H)$ from random signs (Hutchinson, by Lanczos quadrature).

    $$\operatorname{tr} f(H) = \mathbb E\, z^\top f(H) z, \qquad
    z^\top f(H) z \approx \sum_j f(\theta_j) (v_j^\top z)^2$$

    with one Krylov space for all probes. The standard error is that of the mean over the probes;
    the quadrature is carried until it no longer matters.

    Source: AR-32, arXiv:1901.08584; the trace of the inverse is the energy of random labels.

    Args:
        function: of an array of eigenvalues, elementwise.
        matmat: product with a positive definite matrix.
        probes: random signs, one probe a column, at least two.
        tolerance: relative change of the estimates at which the quadrature ends.
        max_basis: dimension of the Krylov space at most.

    Example:
        >>> H = np.diag([1.0, 2.0, 4.0])
        >>> signs = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
        >>> round(trace_estimate(np.log, lambda v: H @ v, signs).value, 9)  # log 8
        2.079441542
    """

    def samples(nodes, projections):
        return np.asarray(function(nodes)) @ projections**2

    rule = krylov_quadrature(matmat, probes, samples, tolerance=tolerance, max_basis=max_basis)
    values = samples(rule.nodes, rule.projections)
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    # What the quadrature still moved by is an error too, though not a random one.
    return Estimate(float(np.mean(values)), spread + rule.change * abs(float(np.mean(values))))
