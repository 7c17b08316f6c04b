# SPDX-License-Identifier: Apache-2.0
"""Second-order certificates: gradient and smallest curvature, on the scale of the width."""

from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_positive
from unlazy.core.drawing import COLORS, Axes
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.loss_calls import Loss
from unlazy.core.panels import panel
from unlazy.core.trained import LayeredParams, Trained
from unlazy.curvature.hessian import ExtremeEigenvalues, smoothed_ends, spectrum_ends
from unlazy.curvature.kinks import Kink, kink_here, kink_near, may_kink
from unlazy.curvature.objective import Objective, float64_objective
from unlazy.curvature.smoothed import Smoothing, smoothed

Verdict = Literal[
    "second-order stationary", "saddle", "not stationary", "undecided", "not twice differentiable"
]


class Certificate(eqx.Module):
    """What `certify` found; print it for a summary."""

    loss: float
    gradient_norm: float
    curvature: ExtremeEigenvalues
    width: int | None  # m; None where there is none, and then nothing is scaled
    gradient_tolerance: float
    curvature_tolerance: float
    verdict: Verdict
    gradient_error: float = 0.0  # of the draws, where the loss is smoothed
    smoothing: Smoothing | None = None
    kink: Kink | None = None  # one on which the verdict rests

    @property
    def scaled_gradient(self) -> float:
        r"""$\|g\| m^{1/4}$, comparable over widths."""
        return self.gradient_norm * (self.width or 1) ** 0.25

    @property
    def scaled_curvature(self) -> float:
        r"""$\lambda_{\min} \sqrt m$, comparable over widths."""
        return self.curvature.smallest * (self.width or 1) ** 0.5

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw gradient and negative curvature in units of their tolerances, with the verdict.

        A bar that ends beyond 1 is out of tolerance: a gradient that is not zero, or a direction
        in which the loss curves down. The scale is linear up to 1 and logarithmic from there.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.

        Example:
            >>> loss = lambda w: w[0] ** 2 - w[1] ** 2
            >>> saddle = certify(loss, jnp.zeros(2), curvature_tolerance=0.5, key=jax.random.key(0))
            >>> print([float(bar.get_width()) for bar in saddle.plot().patches])
            [0.0, 4.0]
        """
        gradient = self.scaled_gradient / self.gradient_tolerance
        curvature = -self.scaled_curvature / self.curvature_tolerance
        values = [gradient, curvature]
        with panel(ax, 4.8, 2.2) as ax:
            colors = [COLORS[1] if value > 1 else COLORS[0] for value in values]
            bars = ax.barh(["gradient", "negative\ncurvature"], values, color=colors)
            ax.bar_label(bars, [f" {value:.3g} " for value in values], fontsize=8)
            ax.axvline(1, color="#444444", ls="--", lw=1)
            ax.set_xscale("symlog", linthresh=1)
            ax.margins(x=0.25)
            ax.grid(visible=False, axis="y")
            ax.invert_yaxis()
            ax.set(xlabel="in units of the tolerance", title=self.verdict)
        return ax

    def __str__(self) -> str:
        ends = self.curvature
        method = "dense spectrum" if ends.dense else f"Lanczos, {ends.products} products"
        off = "" if self.smoothing is None else f" +- {self.gradient_error:.1g}"
        lines = [
            f"{self.verdict}: loss {self.loss:.6g}, {ends.parameters} parameters",
            f"  {'||g||':13}{self.gradient_norm:11.4g}{off}",
            f"  {'lmin':13}{ends.smallest:11.4g} +- {ends.smallest_error:.1g} ({method})",
            f"  {'lmax':13}{ends.largest:11.4g} +- {ends.largest_error:.1g}",
        ]
        if self.width:
            lines[2:2] = [f"  {'||g|| m^1/4':13}{self.scaled_gradient:11.4g}"]
            lines[4:4] = [f"  {'lmin sqrt(m)':13}{self.scaled_curvature:11.4g}"]
        if self.kink is not None:
            lines += [f"  kink: {self.kink}; the Hessian has no part in it"]
        if self.smoothing is not None:
            lines += [f"  smoothed by noise of standard deviation {self.smoothing}"]
        g, h = self.gradient_tolerance, self.curvature_tolerance
        return "\n".join([*lines, f"  tolerances: gradient {g:g}, curvature {h:g}"])


@entry
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
    smoothing: Smoothing | None = None,
    draws: int = 1024,
    key: PRNGKeyArray,
) -> Certificate:
    r"""Certify whether a point is second-order stationary, a saddle, or neither.

    $$\|\nabla L\| \, m^{1/4} \le \varepsilon_g, \qquad
    \lambda_{\min}(\nabla^2 L) \sqrt m \ge -\varepsilon_h$$

    The powers of the width $m$ make tolerances mean the same at every width: good movements have
    $\|W\|_F \sim m^{1/4}$, so that $\lambda_{\min}$ shrinks like $m^{-1/2}$.

    Verdicts: "not stationary", the gradient is above its tolerance; "saddle", it is below and the
    curvature is proved to be below its own (a maximum counts); "second-order stationary",
    otherwise, when Lanczos has converged to within the tolerance (this is evidence) or the spectrum
    is dense (this is proof, up to rounding); else "undecided": allow more `steps`.

    The Hessian gives the curvature of a loss whose gradient is continuous. The gradient of a ReLU
    network jumps, and the curvature sits in the jumps: `z/2 - mean(relu(z + rho))` is linear
    between the kinks and a maximum. So where random lines through the point meet a kink within
    about the size of the parameters, "second-order stationary" becomes "not twice differentiable",
    and if a kink passes through the point itself, this is the verdict in any case.
    `max(z, 0)**3`, and smooth functions that are written with `jnp.where`, have no kink.

    With `smoothing` the certificate is about the loss averaged over Gaussian noise in the trained
    parameters, $E_\rho L(\theta + \sigma\rho)$, which has derivatives of all orders. Loss,
    gradient and curvature are then means over `draws`, and a verdict counts their errors: twice the
    spread of the means, plus what the kinks on random lines out to six standard deviations would
    add if no draw met them. The level is about 95% for kinks that the draws or the lines meet; a
    strong kink that few directions lead to may escape both. Where the errors leave it open the
    verdict is "undecided": errors fall with the root of the draws.

    Other arguments are as for `extreme_eigenvalues`. `width` is m; by default the `width` of a
    learner's parameters that have one, as those of `TwoLayer` do, or the number of rows of `params`
    if that is one matrix. Without a width the tolerances are for the plain numbers.

    Source: BL-23 and BL-30; for smoothing LG-15 and LG-24, arXiv:1811.04918 section 6.

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
    check_count(draws, "draws", least=8)
    check_key(key)
    width = _width(params) if width is None else width
    if width is not None:
        check_count(width, "width", most=None)
    root = (width or 1) ** 0.5
    tolerances = _Tolerances(gradient_tolerance / root**0.5, curvature_tolerance / root)
    with float64(), jax.numpy_dtype_promotion("standard"):
        objective = float64_objective(loss, params, data, trained)
        if smoothing is None:
            found = _plain(objective, steps, dense, tolerances, key)
        else:
            found = _smoothed(objective, smoothing, draws, steps, dense, tolerances, key)
    return Certificate(
        *(found.loss, found.gradient_norm, found.ends, width),
        *(gradient_tolerance, curvature_tolerance, found.verdict),
        *(found.gradient_error, smoothing, found.kink),
    )


class _Tolerances(NamedTuple):
    gradient: float  # of the plain norm
    curvature: float


class _Found(NamedTuple):
    loss: float
    gradient_norm: float
    ends: ExtremeEigenvalues
    verdict: Verdict
    gradient_error: float = 0.0
    kink: Kink | None = None


def _plain(
    objective: Objective, steps: int, dense: bool | None, limits: _Tolerances, key: PRNGKeyArray
) -> _Found:
    value, norm = (float(part) for part in _value_and_gradient_norm(objective))
    _check_loss(value, norm)
    ends = spectrum_ends(objective, steps, dense, key)
    verdict, kink = _verdict(norm <= limits.gradient, ends, limits.curvature), None
    if may_kink(objective):
        key_here, key_near = jr.split(jr.fold_in(key, 1))
        kink = kink_here(objective, key=key_here)
        if kink is None and verdict == "second-order stationary":
            kink = kink_near(objective, key=key_near)
        if kink is not None and kink.what == "Hessian" and verdict == "not stationary":
            kink = None  # the gradient, on which the verdict rests, exists
    verdict = verdict if kink is None else "not twice differentiable"
    return _Found(value, norm, ends, verdict, kink=kink)


def _smoothed(
    objective: Objective,
    smoothing: Smoothing,
    draws: int,
    steps: int,
    dense: bool | None,
    limits: _Tolerances,
    key: PRNGKeyArray,
) -> _Found:
    key_draws, key_ends, key_proof = jr.split(key, 3)
    found = smoothed(objective, smoothing, draws, key=key_draws)
    _check_loss(found.loss, found.gradient_norm)
    ends = smoothed_ends(objective, found.hessian, steps, dense, key_ends)
    norm, error = found.gradient_norm, found.gradient_error
    if abs(norm - limits.gradient) <= error:
        verdict = "undecided"
    else:
        proved = min(
            ends.smallest + ends.smallest_error,
            found.hessian.proved_curvature(steps=steps, key=key_proof),
        )
        verdict = _verdict(norm <= limits.gradient, ends, limits.curvature, proved)
    return _Found(found.loss, norm, ends, verdict, error)


def _check_loss(value: float, norm: float) -> None:
    if not (np.isfinite(value) and np.isfinite(norm)):
        raise ValueError(
            "`loss` must be finite with a finite gradient at `params`, "
            f"got loss={value}, gradient norm {norm}."
        )


@eqx.filter_jit
def _value_and_gradient_norm(objective: Objective):
    value, gradient = jax.value_and_grad(objective)(objective.trained)
    return value, jnp.linalg.norm(ravel_pytree(gradient)[0])


def _verdict(
    stationary: bool, ends: ExtremeEigenvalues, tolerance: float, proved: float | None = None
) -> Verdict:
    if not stationary:
        return "not stationary"
    # `smallest` is an upper bound of the smallest eigenvalue, hence proof, unless it is sampled.
    if (ends.smallest if proved is None else proved) < -tolerance:
        return "saddle"
    # A loose residual only says that some eigenvalue is near, not that it is the smallest.
    converged = ends.dense or ends.smallest_error <= tolerance
    if converged and ends.smallest - ends.smallest_error >= -tolerance:
        return "second-order stationary"
    return "undecided"


def _width(params: Any) -> int | None:
    if isinstance(params, LayeredParams):
        return getattr(params, "width", None)
    return int(np.shape(params)[0]) if eqx.is_array_like(params) and np.ndim(params) == 2 else None
