# SPDX-License-Identifier: Apache-2.0
"""Traces of functions of a matrix, estimated from random probes."""

import math
from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Float64

from unlazy.core.entries import entry
from unlazy.linalg.eigen import gram_eigenvalues
from unlazy.linalg.iterative import Matmat
from unlazy.linalg.lanczos import krylov_quadrature


class Estimate(eqx.Module):
    """A number and the standard error of its random estimate; zero where it is exact."""

    value: float
    standard_error: float


@entry
def trace_estimate(
    function: Callable[[Float64[np.ndarray, " k"]], Float64[np.ndarray, " k"]],
    matmat: Matmat,
    probes: Float64[np.ndarray, "n s"],
    *,
    tolerance: float = 1e-5,
    max_basis: int = 1000,
    eps: float = 0.0,
) -> Estimate:
    r"""Estimate $\operatorname{tr} f(H)$ from random signs (Hutchinson, by Lanczos quadrature).

    $$\operatorname{tr} f(H) = \mathbb E\, z^\top f(H) z, \qquad
    z^\top f(H) z \approx \sum_j f(\theta_j) (v_j^\top z)^2$$

    with one Krylov space for all probes. The standard error is that of the mean over the probes;
    the quadrature continues until its own error no longer matters.

    Source: AR-32, arXiv:1901.08584; the trace of the inverse is the energy of random labels.

    Args:
        function: elementwise function of an array of eigenvalues. Those that are zero up to
            rounding, of either sign, are passed as zero; if it is infinite there, so is the result.
        matmat: product with a positive semi-definite matrix.
        probes: random signs, one probe per column, at least two.
        tolerance: relative change of the estimates at which the quadrature ends.
        max_basis: dimension of the Krylov space at most.
        eps: relative rounding of the matrix's entries, as for `gram_eigenvalues`.

    Raises:
        ValueError: the matrix has an eigenvalue that is truly negative; `function` is not
            elementwise, or nan at some eigenvalue.

    Example:
        >>> H = np.diag([1.0, 2.0, 4.0])
        >>> signs = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
        >>> round(trace_estimate(np.log, lambda v: H @ v, signs).value, 9)  # log 8
        2.079441542
    """
    n = len(probes)

    def samples(nodes, projections):
        values = _values(function, gram_eigenvalues(nodes, n, eps=eps))
        # A node without a part of the probe contributes nothing, even where f is infinite.
        terms = np.where(projections == 0, 0.0, values[:, None])
        return np.sum(terms * projections**2, axis=0)

    rule = krylov_quadrature(matmat, probes, samples, tolerance=tolerance, max_basis=max_basis)
    values = samples(rule.nodes, rule.projections)
    if not np.all(np.isfinite(values)):  # f is infinite at zero, and the matrix singular
        return Estimate(float(np.sum(values)), 0.0)
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    # The last change of the quadrature is an error too, though not a random one.
    return Estimate(float(np.mean(values)), spread + rule.change * abs(float(np.mean(values))))


def _values(function, eigenvalues: Float64[np.ndarray, " k"]) -> Float64[np.ndarray, " k"]:
    with np.errstate(divide="ignore"):  # log and 1/x are infinite at zero, and so is their trace
        values = np.asarray(function(eigenvalues), np.float64)
    if values.shape != eigenvalues.shape:
        raise ValueError(
            f"`function` must be elementwise, got an array of shape {values.shape} for one of "
            f"shape {eigenvalues.shape}."
        )
    if np.any(np.isnan(values)):
        where = float(eigenvalues[np.flatnonzero(np.isnan(values))[0]])
        raise ValueError(
            f"`function` must be a number at every eigenvalue, got nan at {where:.6g}. "
            "A singular matrix has eigenvalues of zero: define it there, as scipy.special.xlogy is."
        )
    return values
