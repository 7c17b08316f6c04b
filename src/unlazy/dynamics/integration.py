# SPDX-License-Identifier: Apache-2.0
r"""Gradient flow of a linearised network on any loss, by integration, and its descent.

The flow $\dot w = -\nabla L(w)$ runs in the weights of `LinearModel`, and is stiff: eigenvalues of
a kernel span many decades. LSODA takes Adams' methods while that is cheap and implicit ones of up
to fifth order, with the exact Jacobian, once the flow is stiff; it is in SciPy. (Diffrax would be a
further dependency, and compiles for seconds before a flow that takes less.)

For a convex loss two solutions of the flow never move apart, since $L$ has monotone gradients:
$\|w(t) - \tilde w(t)\|$ does not grow. Errors of single steps therefore add up and are not
amplified. Each is at most the tolerance times the largest weights so far.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64
from scipy.integrate import solve_ivp

from unlazy.dynamics.decays import Rule
from unlazy.dynamics.linear_models import LinearModel

Total = Callable[[Array], Array]
"""The loss on the training set as a function of the outputs."""

_GROWTH = 100  # of the weights before the absolute tolerance follows them


class _Motion(NamedTuple):
    """A flow as LSODA takes it: its state is a vector, first of all the weights."""

    velocity: Callable[[float, np.ndarray], np.ndarray]
    jacobian: Callable[[float, np.ndarray], np.ndarray]
    size: int  # of the weights
    start: Float64[np.ndarray, " s"]


def integrate(
    model: LinearModel,
    total: Total,
    rule: Rule,
    times: Float64[np.ndarray, " T"],
    *,
    tolerance: float,
) -> Float64[np.ndarray, "T r *c"]:
    """The weights at these times of the flow, in any order."""
    wanted, places = np.unique(times, return_inverse=True)
    motion, w = _motion(model, total, rule), model.rest
    found = np.tile(motion.start, (len(wanted), 1))
    scale = _first_scale(model, total, rule, float(wanted[-1]))
    now, state = 0.0, motion.start
    while scale > 0 and now < wanted[-1]:  # at a scale of 0 the start is stationary
        later = np.flatnonzero(wanted > now)
        part = _advance(motion, now, state, wanted[later], tolerance, scale)
        if len(part.t):  # else the weights have outgrown the scale before the first of them
            found[later[: len(part.t)]] = part.y.T
        if part.status == 0:
            break
        now, state = float(part.t_events[0][0]), part.y_events[0][0]
        scale = float(np.linalg.norm(state[: w.size]))
    return found[places.reshape(-1), : w.size].reshape(-1, *w.shape)


def _advance(
    motion: _Motion,
    now: float,
    state: Float64[np.ndarray, " s"],
    wanted: Float64[np.ndarray, " q"],
    tolerance: float,
    scale: float,
) -> Any:
    """Integrate to the last time that is wanted, or until the weights outgrow the scale."""

    def outgrown(_: float, state: np.ndarray) -> float:
        return float(np.linalg.norm(state[: motion.size])) - _GROWTH * scale

    outgrown.terminal, outgrown.direction = True, 1  # pyright: ignore[reportFunctionMemberAccess]  # as SciPy asks
    span, tolerances = (now, wanted[-1]), {"rtol": tolerance, "atol": tolerance * scale}
    options: dict[str, Any] = {
        "events": outgrown,
        "jac": motion.jacobian,
        "t_eval": wanted,
    } | tolerances
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LSODA's, about what is raised below
            part = solve_ivp(motion.velocity, span, state, method="LSODA", **options)
    except ValueError as error:  # the weights are nan where they would outgrow the scale
        raise _not_smooth(now) from error
    if part.status < 0 or not np.all(np.isfinite(np.asarray(part.y))):
        raise _not_smooth(part.t[-1] if len(part.t) else now)
    return part


def _not_smooth(time: float) -> ValueError:
    return ValueError(
        "`loss` must have a finite gradient that varies smoothly along the flow, got one that the "
        f"integration cannot follow after time {time:.3g}. Use `at_step`, or a larger tolerance."
    )


def _motion(model: LinearModel, total: Total, rule: Rule) -> _Motion:
    """The flow; with momentum its state has the velocities too, in units of the weights."""
    rest, m = model.rest, rule.momentum
    fastest = jnp.sqrt((model.roots[0] ** 2 + model.ridge) / rule.learning_rate)

    def velocity(model: LinearModel, state: Array) -> Array:
        if m == 0:
            return -model.slope(state.reshape(rest.shape), total).reshape(-1)
        w, v = jnp.split(state, 2)
        force = -model.slope(w.reshape(rest.shape), total).reshape(-1)
        return jnp.concatenate(
            [fastest * v, force / (rule.learning_rate * fastest) - (1 - m) / rule.learning_rate * v]
        )

    # Compiled for this call alone: what the loss has closed over may differ in the next.
    compiled = eqx.filter_jit(velocity)
    jacobian = eqx.filter_jit(jax.jacfwd(velocity, argnums=1))
    return _Motion(
        lambda _, state: np.asarray(compiled(model, jnp.asarray(state))),
        lambda _, state: np.asarray(jacobian(model, jnp.asarray(state))),
        rest.size,
        np.zeros(rest.size * (1 if m == 0 else 2)),
    )


def _first_scale(model: LinearModel, total: Total, rule: Rule, end: float) -> float:
    """A size that the weights do reach: within the time in which their velocity hardly changes."""
    slope = eqx.filter_jit(lambda model, w: model.slope(w, total))
    first = slope(model, model.rest)
    speed, time = float(jnp.linalg.norm(first)), end
    while float(jnp.linalg.norm(slope(model, -time * first) - first)) > 0.1 * speed:
        time /= 4
        if time < end * 1e-30:
            raise _not_smooth(0.0)
    if not np.isfinite(speed):
        raise _not_smooth(0.0)
    if rule.momentum > 0:  # from rest the weights first move like t^2
        time = min(time, end**2 / (2 * rule.learning_rate))
    return speed * time


def descend(
    model: LinearModel, total: Total, rule: Rule, steps: Float64[np.ndarray, " T"]
) -> Float64[np.ndarray, "T r *c"]:
    """The weights after so many steps of descent, in any order."""

    @eqx.filter_jit  # for this call alone, as in `_motion`
    def advance(model: LinearModel, state: tuple[Array, Array], count: Array) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, state: _step(model, total, rule, state), state)

    wanted, places = np.unique(steps, return_inverse=True)
    state, found = (model.rest, model.rest), []
    for count in np.diff(wanted, prepend=0.0):
        state = advance(model, state, jnp.asarray(int(count)))
        found.append(np.asarray(state[0]))
    return np.array(found)[places.reshape(-1)]


def _step(
    model: LinearModel, total: Total, rule: Rule, state: tuple[Array, Array]
) -> tuple[Array, Array]:
    w, v = state
    v = rule.momentum * v - rule.learning_rate * model.slope(w, total)
    return w + v, v
