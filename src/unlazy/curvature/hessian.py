# SPDX-License-Identifier: Apache-2.0
"""Products with the Hessian of a loss, and the ends of its spectrum."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_key
from unlazy.core.convolutions import looped
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.loss_calls import Loss, as_pytree, check_loss_call, current_loss
from unlazy.core.panels import draw_range, panel
from unlazy.core.summaries import counted
from unlazy.core.trained import Trained, partition
from unlazy.curvature.objective import Objective, check_alike, check_scalar, float64_objective
from unlazy.curvature.smoothed import SampledHessian, Smoothing, smoothed
from unlazy.linalg.extremes import Matvec, lanczos_ends
from unlazy.taylor.movement import float64_if, is_wide

_DENSE = 2000  # parameters up to which the Hessian is formed
_COLUMNS = 64  # of a dense Hessian at once
_NOT_FINITE = "`loss` must have a finite Hessian at `params`, got nan or inf in it."


@entry
def hvp(loss: Loss, params: Any, v: Any, *, data: Any = None, trained: Trained = None) -> Any:
    r"""The Hessian of a loss times a vector, at the cost of about two gradients.

    $$\nabla^2 L(\theta)\, v = \frac{d}{dt} \nabla L(\theta + t v) \Big|_{t=0}$$

    Forward over reverse differentiation, in the dtype of the parameters. For a loss with kinks,
    such as a ReLU network's, this is the Hessian of the piece around the point. The curvature that
    sits in the kinks is not in it: `extreme_eigenvalues` and `certify` take it with `smoothing`.

    Source: Pearlmutter 1994; BL-12 and BL-30 use it.

    Args:
        loss: `loss(params)`, or `loss(params, data)` when `data` is given; a scalar. Functions and
            callable pytrees, such as `QuadraticRisk`.
        params: any pytree of arrays; integers are left alone.
        v: direction, in the structure of `params`; functions and all else that is no parameter
            may be None in it.
        data: second argument of the loss.
        trained: the parameters that count, as for `nets.partition`. The product is with their
            block of the Hessian: zero at the others, whatever `v` has there.

    Returns:
        The product, in the structure of `params`.

    Example:
        >>> loss = lambda p: p["a"] ** 2 * jnp.sum(p["b"])
        >>> params = {"a": jnp.array(3.0), "b": jnp.ones(2)}
        >>> v = {"a": jnp.array(1.0), "b": jnp.zeros(2)}
        >>> product = hvp(loss, params, v)
        >>> print(product["a"], product["b"])
        4.0 [6. 6.]
    """
    check_alike(v, params, "v")
    check_loss_call(loss, data)
    # Float64 parameters keep their digits whatever the global setting is.
    with float64_if(is_wide(params)):
        arrays, frozen = partition(params, trained)
        loss = current_loss(as_pytree(loss), eqx.combine(arrays, frozen), data)
        return _hvp(Objective(loss, arrays, frozen, data), params, v)


@eqx.filter_jit
def _hvp(objective: Objective, params: Any, v: Any) -> Any:
    arrays = objective.trained
    check_scalar(jax.eval_shape(objective, arrays))
    direction = jax.tree.map(
        lambda leaf, part: None if leaf is None else jnp.asarray(part, leaf.dtype),
        arrays,
        v,
        is_leaf=lambda leaf: leaf is None,
    )
    _, product = jax.jvp(jax.grad(objective), (arrays,), (direction,))
    return eqx.combine(product, jax.tree.map(_zero, params))


def _zero(leaf: Any) -> Any:
    """Zeros in place of numbers; functions, as Equinox models have them, as they are."""
    is_number = isinstance(leaf, Array | int | float | np.ndarray | np.generic)
    return jnp.zeros_like(leaf) if is_number and not isinstance(leaf, bool) else leaf


class ExtremeEigenvalues(eqx.Module):
    """Smallest and largest eigenvalue of a Hessian, with vectors and error bounds.

    Within `smallest_error` of `smallest` there is an eigenvalue. From Lanczos (`dense` False)
    `smallest` is never below the true smallest eigenvalue: a negative one is a proof of negative
    curvature, a positive one is evidence. With `dense` True the whole spectrum was computed.
    """

    smallest: float
    largest: float
    smallest_error: float
    largest_error: float
    smallest_vector: Any  # of norm 1, in the structure of the parameters
    largest_vector: Any
    parameters: int
    products: int  # with the Hessian
    dense: bool

    def __repr__(self) -> str:
        """In one line, without the vectors."""
        method = "dense spectrum" if self.dense else f"Lanczos, {self.products} products"
        return (
            f"ExtremeEigenvalues(smallest {self.smallest:.4g} +- {self.smallest_error:.1g}, "
            f"largest {self.largest:.4g} +- {self.largest_error:.1g}; "
            f"{counted(self.parameters, 'parameter')}, {method})"
        )

    @entry
    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw the two ends of the spectrum as a bar from one to the other, with their errors.

        Several points of a training may be drawn on the same `ax`, a bar each.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            label: what to write beside the bar.

        Example:
            >>> ends = extreme_eigenvalues(lambda w: w[0] ** 2, jnp.zeros(2), key=jr.key(0))
            >>> print(ends.plot(label="the end").get_yticklabels()[0].get_text())
            the end
        """
        with panel(ax, 4.8, 2.0) as ax:
            draw_range(ax, (self.smallest, self.largest), label or "spectrum",
                       errors=(self.smallest_error, self.largest_error))  # fmt: skip
            ax.axvline(0, color="#888888", ls=":", lw=1)
            ax.set_xlabel("eigenvalues of the Hessian")
        return ax

    @entry
    def failure_probability(self, relative_error: float) -> float:
        r"""Probability that `smallest` misses by that part of the spectrum's width or more.

        $$\Pr \le 1.648 \sqrt N e^{-\sqrt{\varepsilon} (2q - 1)}$$

        over the random start of Lanczos, for $N$ parameters and $q$ products; 0 for a dense one.

        Source: BL-30, after Kuczynski and Wozniakowski 1992 (quoted from memory there).
        """
        if self.dense or self.products >= self.parameters:
            return 0.0
        exponent = math.sqrt(relative_error) * (2 * self.products - 1)
        return min(1.0, 1.648 * math.sqrt(self.parameters) * math.exp(-exponent))


@entry
def extreme_eigenvalues(
    loss: Loss,
    params: Any,
    *,
    data: Any = None,
    trained: Trained = None,
    steps: int = 100,
    dense: bool | None = None,
    smoothing: Smoothing | None = None,
    draws: int = 1024,
    key: PRNGKeyArray,
) -> ExtremeEigenvalues:
    r"""The smallest and the largest eigenvalue of the Hessian of a loss.

    Lanczos with full reorthogonalisation from a random start, or the dense spectrum when there are
    few parameters. In float64 whatever the dtype of the parameters: eigenvalues near 0, which are
    what one asks about, are of the size of float32's rounding.

    The Hessian of a loss with kinks, such as a ReLU network's, is that of the piece around the
    point, and the curvature that sits in the kinks is not in it. With `smoothing` the eigenvalues
    are those of the loss averaged over Gaussian noise in the parameters,

    $$\nabla^2 E_\rho L(\theta + \sigma\rho), \qquad \rho \sim N(0, I),$$

    which has that curvature, from antithetic draws of its gradient; the errors then count the draws
    and the kinks on random lines that the draws may have missed.

    Source: BL-30; for smoothing LG-15 and LG-24, arXiv:1811.04918 section 6, by Stein's identity.

    The first four arguments are as for `hvp`. Lanczos takes `steps` products with the Hessian and
    keeps as many vectors. `dense` forms the Hessian; None means for up to 2000 parameters.
    `smoothing` is $\sigma$, a number or a tree of numbers that is a prefix of `params`; None stands
    for the Hessian at the point. `draws` counts antithetic pairs of the noise, kept in memory as
    two (draws, parameters) arrays. A warning tells if the loss casts to float32 on the way.

    Example:
        >>> loss = lambda w: w[0] ** 2 - 2 * w[1] ** 2
        >>> ends = extreme_eigenvalues(loss, jnp.zeros(2), key=jr.key(0))
        >>> print(ends.smallest, ends.largest)
        -4.0 2.0
    """
    check_count(steps, "steps")
    check_count(draws, "draws", least=8)
    check_key(key)
    with float64(), jax.numpy_dtype_promotion("standard"):
        objective = float64_objective(loss, params, data, trained)
        if smoothing is None:
            return spectrum_ends(objective, steps, dense, key)
        key_draws, key_ends = jr.split(key)
        hessian = smoothed(objective, smoothing, draws, key=key_draws).hessian
        return smoothed_ends(objective, hessian, steps, dense, key_ends)


def smoothed_ends(
    objective: Objective, hessian: SampledHessian, steps: int, dense: bool | None, key: PRNGKeyArray
) -> ExtremeEigenvalues:
    """`extreme_eigenvalues` of the smoothed loss, with the error of the draws."""
    key_start, key_error = jr.split(key)
    ends = spectrum_ends(objective, steps, dense, key_start, hessian)
    error = hessian.error(key=key_error)
    return eqx.tree_at(
        lambda e: (e.smallest_error, e.largest_error),
        ends,
        (ends.smallest_error + error, ends.largest_error + error),
    )


def spectrum_ends(
    objective: Objective,
    steps: int,
    dense: bool | None,
    key: PRNGKeyArray,
    matvec: Matvec | None = None,
) -> ExtremeEigenvalues:
    """`extreme_eigenvalues` of a float64 objective, or of `matvec`, within the float64 scope."""
    flat, unravel = ravel_pytree(objective.trained)
    matvec = objective.hessian_product if matvec is None else matvec
    if dense or (dense is None and flat.size <= _DENSE):
        values, vectors, errors = _dense_ends(matvec, flat.size)
        products, dense = flat.size, True
    else:
        start = jr.normal(key, flat.shape, jnp.float64)
        try:
            found = lanczos_ends(matvec, start, steps=steps)
        except ValueError as error:
            raise ValueError(_NOT_FINITE) from error
        values, vectors, errors = found.values, found.vectors, found.errors
        products, dense = found.products, False
    smallest, largest = (_as_params(unravel(vector), objective) for vector in vectors)
    return ExtremeEigenvalues(
        *(float(values[0]), float(values[1]), float(errors[0]), float(errors[1])),
        *(smallest, largest, flat.size, products, dense),
    )


def _dense_ends(matvec: Matvec, size: int):
    H = np.asarray(dense_hessian(matvec, size))
    if not np.isfinite(H).all():
        raise ValueError(_NOT_FINITE)
    H = (H + H.T) / 2
    values, vectors = np.linalg.eigh(H)
    ends = vectors[:, [0, -1]]
    errors = np.linalg.norm(H @ ends - ends * values[[0, -1]], axis=0)
    return values[[0, -1]], jnp.asarray(ends.T), errors


@eqx.filter_jit
def dense_hessian(matvec: Matvec, size: int) -> Float[Array, "p p"]:
    """The Hessian as a matrix, by one product per column, in blocks."""
    return jax.lax.map(looped(matvec), jnp.eye(size, dtype=jnp.float64), batch_size=_COLUMNS)


def _as_params(vector: Any, objective: Objective) -> Any:
    frozen = jax.tree.map(
        lambda leaf: jnp.zeros_like(leaf) if eqx.is_array(leaf) else leaf, objective.frozen
    )
    return eqx.combine(vector, frozen)
