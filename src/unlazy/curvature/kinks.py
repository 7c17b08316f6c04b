# SPDX-License-Identifier: Apache-2.0
r"""Kinks of a loss: where its gradient jumps, so that the Hessian misses curvature.

Along a line the gradient of a smooth loss changes by the integral of the Hessian. A ReLU makes it
jump on top of that, and the Hessian that JAX computes is that of the piece alone: zero for a
piecewise linear loss, whatever its shape. What remains of

$$\nabla L(b) - \nabla L(a) - \tfrac{b - a}{6} \big( \nabla^2 L(a) + 4 \nabla^2 L(\tfrac{a + b}{2})
+ \nabla^2 L(b) \big) v$$

when the interval shrinks to rounding is the jump. Simpson's rule explains a smooth loss up to the
fifth power of the interval, so that a weak kink shows beside strong smooth terms. `max(z, 0)**3`,
or a smooth function written with `jnp.where`, has no kink, although it is made of operations that
choose.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.extend.core import JaxprEqn
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.convolutions import looped
from unlazy.core.jaxprs import equations, is_float, programs_in
from unlazy.curvature.objective import Objective
from unlazy.taylor.linear_rules import LINEAR, SOLVING
from unlazy.taylor.smooth_rules import SMOOTH

_LINES = 2  # random ones, each to both sides
_OCTAVES = 34  # distances on each side, by factors of 2
_HALVINGS = 42
_PIECES = 24  # of one side of a line on which jumps are added up
# Functions with a point at which they are not differentiable are looked at, too.
_ROOTS = frozenset({"sqrt", "rsqrt", "cbrt", "pow"})
_SMOOTH = (frozenset({*LINEAR, *SMOOTH, *SOLVING}) - _ROOTS) | {"stop_gradient", "scatter-add"}

What = Literal["loss", "gradient", "Hessian"]


class Kink(eqx.Module):
    """A place where the loss, its gradient or its Hessian jumps."""

    distance: float  # from the point, along a random line; 0 if it goes through the point
    jump: float  # its size across the kink, of the gradient as a norm
    what: What

    def __str__(self) -> str:
        where = f"at distance {self.distance:.2g}" if self.distance else "at this point"
        size = "" if self.what == "Hessian" else f" by {self.jump:.2g}"
        return f"the {self.what} jumps{size} {where}"


class _Sample(NamedTuple):
    """On a line at t: loss over reach, then gradient; and their derivatives along the line."""

    t: Any
    values: Any
    slopes: Any


class _Interval(NamedTuple):
    a: _Sample
    middle: _Sample
    b: _Sample


class _Line(eqx.Module):
    """The loss on the line through the point, t from -1 to 1 for moves of its own size."""

    objective: Objective
    direction: Float[Array, " p"]

    def __call__(self, t: Float[Array, ""]) -> _Sample:
        flat, unravel = ravel_pytree(self.objective.trained)
        point, v = unravel(flat + t * self.direction), unravel(self.direction)
        (value, gradient), (slope, product) = jax.jvp(
            jax.value_and_grad(self.objective), (point,), (v,)
        )
        reach = jnp.linalg.norm(self.direction)

        def stacked(number: Array, tree: Any) -> Float[Array, " q"]:
            parts = (number[None] / reach, ravel_pytree(tree)[0])
            return jnp.concatenate([part.astype(flat.dtype) for part in parts])

        return _Sample(t, stacked(value, gradient), stacked(slope, product))


def kink_here(objective: Objective, *, key: PRNGKeyArray) -> Kink | None:
    """A kink that goes through the point itself, to rounding: from both sides of it."""
    step, threshold = 2.0 ** (1 - _OCTAVES), _rounding(objective)
    for line in _lines(objective, key):
        far, left, here, right, beyond = (_at(line, k * step) for k in (-8, -1, 0, 1, 8))
        for a, b in ((left, here), (here, right)):
            jump = b.values - a.values - step * (a.slopes + b.slopes) / 2
            if _norm(jump) > threshold * _scale(a, b):
                return _kink(line, 0.0, jump)
        change, further = (_norm(b.slopes - a.slopes) for a, b in ((left, right), (far, beyond)))
        # What changes at a finite rate changes eight times as much over eight times the way.
        if change > math.sqrt(threshold) * _norm(right.slopes) and change > further / 2:
            return Kink(0.0, change, "Hessian")
    return None


def kink_near(objective: Objective, *, key: PRNGKeyArray) -> Kink | None:
    """A kink that random lines cross within about the size of the parameters, or 1 for zeros.

    Each octave of the distance on each side is followed by itself, from the point outwards: the
    smooth terms are largest far away, and the kinks that make a maximum may be close.
    """
    threshold = _rounding(objective)
    for line in _lines(objective, key):
        for octave in range(1 - _OCTAVES, 0):
            for side in (1, -1):
                found = _shrunk(line, side * 2.0**octave, threshold)
                if found is not None:
                    return _kink(line, found.a.t, _misfit(found))
    return None


@eqx.filter_jit
def jumps(
    objective: Objective, direction: Float[Array, " p"]
) -> tuple[Float[Array, "pieces p"], Float[Array, "pieces p"]]:
    """The jumps of the gradient on each piece of the two lines from the point along `direction`.

    Pieces are ordered outwards. Smooth terms contribute the fifth power of a piece.
    """

    def outwards(side: int) -> Float[Array, "pieces p"]:
        line = _Line(objective, side * direction)
        _, values, slopes = jax.lax.map(looped(line), jnp.linspace(0, 1, 2 * _PIECES + 1))
        explained = (slopes[:-2:2] + 4 * slopes[1::2] + slopes[2::2]) / (6 * _PIECES)
        misfits = values[2::2] - values[:-2:2] - explained
        return jnp.where(jnp.isfinite(misfits), misfits, 0)[:, 1:]

    return outwards(1), outwards(-1)


def may_kink(objective: Objective) -> bool:
    """Whether the program of the gradient holds an operation that is not known to be smooth."""
    closed = jax.make_jaxpr(jax.grad(objective))(objective.trained)
    return any(_may_kink(eqn) for eqn in equations(closed.jaxpr))


def _may_kink(eqn: JaxprEqn) -> bool:
    if any(programs_in(eqn)):
        return False  # what they hold is looked at
    source, result = (any(map(is_float, atoms)) for atoms in (eqn.invars, eqn.outvars))
    if not result and eqn.primitive.name == "convert_element_type":
        return source
    return source and eqn.primitive.name not in _SMOOTH


def _lines(objective: Objective, key: PRNGKeyArray) -> Iterator[_Line]:
    flat, _ = ravel_pytree(objective.trained)
    size = jnp.sqrt(flat.size) + jnp.linalg.norm(flat)
    for key_line in jr.split(key, _LINES):
        v = jr.normal(key_line, flat.shape, flat.dtype)
        yield _Line(objective, size * v / jnp.linalg.norm(v))


@eqx.filter_jit
def _sample(line: _Line, t: Float[Array, ""]) -> _Sample:
    return line(t)


def _at(line: _Line, t: float) -> _Sample:
    # One compiled program for all places; the arithmetic on top of it is NumPy's.
    found = jax.tree.map(np.asarray, _sample(line, jnp.asarray(t, line.direction.dtype)))
    return found._replace(t=t)


def _shrunk(line: _Line, t: float, threshold: float) -> _Interval | None:
    """The interval from t to 2 t halved to rounding, always to the half that is explained less.

    None as soon as the slopes explain all of it, which smooth losses reach in a few halvings.
    """
    interval = _Interval(*(_at(line, at) for at in (t, 1.5 * t, 2 * t)))
    for _ in range(_HALVINGS):
        if _relative_misfit(interval) <= threshold:
            return None
        halves = itertools.pairwise(interval)
        split = (_Interval(a, _at(line, (a.t + b.t) / 2), b) for a, b in halves)
        interval = max(split, key=_relative_misfit)
    return interval if _relative_misfit(interval) > threshold else None


def _relative_misfit(interval: _Interval) -> float:
    scale = _scale(interval.a, interval.b)
    size = _norm(_misfit(interval)) / scale if scale else 0.0
    return size if math.isfinite(size) else 0.0


def _misfit(interval: _Interval) -> Float[np.ndarray, " q"]:
    """What the slopes do not explain of the change from a to b, by Simpson's rule."""
    a, middle, b = interval
    return b.values - a.values - (b.t - a.t) * (a.slopes + 4 * middle.slopes + b.slopes) / 6


def _norm(vector: Float[np.ndarray, " q"]) -> float:
    return float(np.linalg.norm(vector))


def _scale(a: _Sample, b: _Sample) -> float:
    return sum(_norm(part) for part in (a.values, a.slopes, b.values, b.slopes))


def _rounding(objective: Objective) -> float:
    """Relative size of a jump that is not rounding of what the loss computes in."""
    eps = float(jnp.finfo(jax.eval_shape(objective, objective.trained).dtype).eps)
    return eps**0.625  # 2e-10 in float64: each of a million samples and neurons counts


def _kink(line: _Line, t: float, jump: Float[np.ndarray, " q"]) -> Kink:
    reach = _norm(np.asarray(line.direction))
    of_loss, of_gradient = abs(float(jump[0])), _norm(jump[1:])
    if of_loss > of_gradient:
        return Kink(abs(t) * reach, of_loss * reach, "loss")
    return Kink(abs(t) * reach, of_gradient, "gradient")
