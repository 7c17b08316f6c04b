# SPDX-License-Identifier: Apache-2.0
"""Is this point a minimum? Gradient and smallest curvature, on the scale of the width."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PRNGKeyArray

from unlazy.checks import check_count, check_key, check_positive
from unlazy.kernels.empirical.model import Trained
from unlazy.landscape.hessian import ExtremeEigenvalues, spectrum_ends
from unlazy.landscape.objective import Loss, Objective, float64_objective, float64_scope
from unlazy.nets import TwoLayerParams

Verdict = Literal["second-order stationary", "saddle", "not stationary", "undecided"]


class Certificate(eqx.Module):
    """What `certify` found; print it for a summary."""

    loss: float
    gradient_norm: float
    curvature: ExtremeEigenvalues
    width: int | None  # m; None where there is none, and then nothing is scaled
    gradient_tolerance: float
    curvature_tolerance: float
    verdict: Verdict

    @property
    def scaled_gradient(self) -> float:
        r"""$\|g\| m^{1/4}$, comparable over widths."""
        return self.gradient_norm * (self.width or 1) ** 0.25

    @property
    def scaled_curvature(self) -> float:
        r"""$\lambda_{\min} \sqrt m$, comparable over widths."""
        return self.curvature.smallest * (self.width or 1) ** 0.5

    def __str__(self) -> str:
        ends = self.curvature
        method = "dense spectrum" if ends.dense else f"Lanczos, {ends.products} products"
        lines = [
            f"{self.verdict}: loss {self.loss:.6g}, {ends.parameters} parameters",
            f"  {'||g||':13}{self.gradient_norm:11.4g}",
            f"  {'lmin':13}{ends.smallest:11.4g} +- {ends.smallest_error:.1g} ({method})",
            f"  {'lmax':13}{ends.largest:11.4g} +- {ends.largest_error:.1g}",
        ]
        if self.width:
            lines[2:2] = [f"  {'||g|| m^1/4':13}{self.scaled_gradient:11.4g}"]
            lines[4:4] = [f"  {'lmin sqrt(m)':13}{self.scaled_curvature:11.4g}"]
        g, h = self.gradient_tolerance, self.curvature_tolerance
        return "\n".join([*lines, f"  tolerances: gradient {g:g}, curvature {h:g}"])


def certify(
    loss: Loss,
    params: Any,
    *,
    data: Any = None,
    trained: Trained = None,
    width: int | None = None,
    gradient_tolerance: float = 1e-3,
    curvature_tolerance: float = 1e-3,
    steps: int = 100,
    dense: bool | None = None,
    key: PRNGKeyArray,
) -> Certificate:
    r"""Whether a point is second-order stationary, and with what right that is said.

    $$\|\nabla L\| \, m^{1/4} \le \varepsilon_g, \qquad
    \lambda_{\min}(\nabla^2 L) \sqrt m \ge -\varepsilon_h$$

    The powers of the width $m$ make tolerances mean the same at every width: good movements have
    $\|W\|_F \sim m^{1/4}$, so that $\lambda_{\min}$ shrinks like $m^{-1/2}$.

    Verdicts: "not stationary", the gradient is above its tolerance; "saddle", it is below and the
    curvature is proved to be below its own (a maximum counts); "second-order stationary",
    otherwise, when Lanczos has converged to within the tolerance (this is evidence) or the spectrum
    is dense (this is proof, up to rounding); else "undecided": allow more `steps`.

    Source: BL-23 and BL-30.

    Args:
        loss: as in `hvp`.
        params: as in `hvp`.
        data: as in `hvp`.
        trained: as in `hvp`.
        width: m; by default the rows of W of a `TwoLayerParams`, or of `params` if that is one
            matrix. Without one (1 for other pytrees) the tolerances are for the plain numbers.
        gradient_tolerance: $\varepsilon_g$.
        curvature_tolerance: $\varepsilon_h$.
        steps: as in `extreme_eigenvalues`.
        dense: as in `extreme_eigenvalues`.
        key: for the random start of Lanczos.

    Example:
        >>> saddle = certify(lambda w: w[0] ** 2 - w[1] ** 2, jnp.zeros(2), key=jax.random.key(0))
        >>> print(saddle)
        saddle: loss 0, 2 parameters
          ||g||                  0
          lmin                  -2 +- 0 (dense spectrum)
          lmax                   2 +- 0
          tolerances: gradient 0.001, curvature 0.001
    """
    check_positive(gradient_tolerance, "gradient_tolerance")
    check_positive(curvature_tolerance, "curvature_tolerance")
    check_count(steps, "steps")
    check_key(key)
    width = _width(params) if width is None else width
    if width is not None:
        check_count(width, "width", most=None)
    with float64_scope():
        objective = float64_objective(loss, params, data, trained)
        value, norm = (float(part) for part in _value_and_gradient_norm(objective))
        if not (np.isfinite(value) and np.isfinite(norm)):
            raise ValueError(
                "`loss` must be finite with a finite gradient at `params`, "
                f"got loss={value}, gradient norm {norm}."
            )
        ends = spectrum_ends(objective, steps, dense, key)
    root = (width or 1) ** 0.5
    verdict = _verdict(norm * root**0.5 <= gradient_tolerance, ends, curvature_tolerance / root)
    return Certificate(value, norm, ends, width, gradient_tolerance, curvature_tolerance, verdict)


@eqx.filter_jit
def _value_and_gradient_norm(objective: Objective):
    value, gradient = jax.value_and_grad(objective)(objective.trained)
    return value, jnp.linalg.norm(ravel_pytree(gradient)[0])


def _verdict(stationary: bool, ends: ExtremeEigenvalues, tolerance: float) -> Verdict:
    if not stationary:
        return "not stationary"
    if ends.smallest < -tolerance:  # an upper bound of the smallest eigenvalue, hence proof
        return "saddle"
    # A loose residual only says that some eigenvalue is near, not that it is the smallest.
    converged = ends.dense or ends.smallest_error <= tolerance
    if converged and ends.smallest - ends.smallest_error >= -tolerance:
        return "second-order stationary"
    return "undecided"


def _width(params: Any) -> int | None:
    if isinstance(params, TwoLayerParams):
        return int(params.W.shape[0])
    return int(np.shape(params)[0]) if eqx.is_array_like(params) and np.ndim(params) == 2 else None
