# SPDX-License-Identifier: Apache-2.0
"""The fits of each method: kernels by solves and Newton steps, f^Q by L-BFGS in one program."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import optax
from jaxtyping import Array, Bool, Float, Int

from unlazy.core.trees import global_norm
from unlazy.escape import regularizer
from unlazy.losses import PointwiseLoss
from unlazy.papers.bai_lee2020.clean_risk import QuadraticRisk

_MEMORY = 20
_SMALL = 1e-7  # gradient norm at which L-BFGS rests: beyond, its line search finds only rounding
_NEWTON_STEPS = 50
_ROUNDING = 1e-10  # relative fall of the objective below which Newton has arrived
_LENGTHS = tuple(2.0**-k for k in range(12))  # of a Newton step


class Gram(NamedTuple):
    """A kernel on the largest training set and, against it, on new points."""

    K: Float[Array, "n n"]
    K_new: Float[Array, "t n"]
    y: Float[Array, " n"]


@jax.jit
def ridge_outputs(
    gram: Gram, ns: Int[Array, " k"], ridges: Float[Array, " k"]
) -> Float[Array, "k t"]:
    """Kernel ridge regression on the first n samples, at the new points, for each n and ridge.

    Ridges are in units of the mean eigenvalue of the kernel.
    """

    def at(lane: tuple[Array, Array]) -> Float[Array, " t"]:
        used, rho = _used(gram, *lane)
        # What is not used is decoupled, with a label of 0: all fits have one shape.
        A = used[:, None] * gram.K * used[None, :] + rho * jnp.eye(len(used))
        return gram.K_new @ jsl.cho_solve(jsl.cho_factor(A, lower=True), used * gram.y)

    return jax.lax.map(at, (ns, ridges))


def _used(gram: Gram, n: Array, ridge: Array) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """Weights of 1 at the first n samples and 0 beyond, and the ridge in absolute units."""
    used = (jnp.arange(len(gram.y)) < n).astype(gram.y.dtype)
    return used, ridge * jnp.sum(used * jnp.diag(gram.K)) / jnp.sum(used)


class _Newton(NamedTuple):
    alpha: Float[Array, " n"]
    step: Int[Array, ""]
    moving: Bool[Array, ""]


@functools.partial(jax.jit, static_argnums=3)
def loss_outputs(
    gram: Gram, ns: Int[Array, " k"], ridges: Float[Array, " k"], loss: PointwiseLoss
) -> Float[Array, "k t"]:
    r"""As `ridge_outputs`, under another loss.

    Minimises $\sum_{i \le n} \ell(f_i, y_i) + \frac\rho2 \alpha^\top K \alpha$ over
    $f = K\alpha$ by Newton steps; for the squared loss that is the ridge regression.
    """

    def at(lane: tuple[Array, Array]) -> Float[Array, " t"]:
        return gram.K_new @ _newton(gram, *_used(gram, *lane), loss)

    return jax.lax.map(at, (ns, ridges))


def _newton(gram: Gram, used: Array, rho: Array, loss: PointwiseLoss) -> Float[Array, " n"]:
    K, y, lengths = gram.K, gram.y, jnp.asarray(_LENGTHS)

    def objective(alpha: Float[Array, " n"]) -> Float[Array, ""]:
        f = K @ alpha
        return jnp.sum(used * loss(f, y)) + rho / 2 * (alpha @ f)

    def goal(alpha: Float[Array, " n"]) -> Float[Array, " n"]:
        # Written with I + D^1/2 K D^1/2, which is well conditioned even where K is singular.
        f = K @ alpha
        root = used * jnp.sqrt(loss.derivative(2)(f, y))
        b = (root**2 * f - used * loss.derivative(1)(f, y)) / rho
        B = jnp.eye(len(y)) + root[:, None] * K * (root / rho)[None, :]
        return b - root * jsl.cho_solve(jsl.cho_factor(B, lower=True), root * (K @ b)) / rho

    def step(state: _Newton) -> _Newton:
        move = goal(state.alpha) - state.alpha
        reached = jax.vmap(lambda t: objective(state.alpha + t * move))(lengths)
        best = jnp.argmin(jnp.where(jnp.isfinite(reached), reached, jnp.inf))
        falls = reached[best] < objective(state.alpha) * (1 - _ROUNDING)
        alpha = jnp.where(falls, state.alpha + lengths[best] * move, state.alpha)
        return _Newton(alpha, state.step + 1, falls)

    start = _Newton(jnp.zeros_like(y), jnp.zeros((), int), jnp.ones((), bool))
    return jax.lax.while_loop(lambda s: s.moving & (s.step < _NEWTON_STEPS), step, start).alpha


@functools.partial(jax.jit, static_argnames="steps")
def quadratic_fits(
    risk: QuadraticRisk,
    start: Float[Array, "m d"],
    ns: Int[Array, " k"],
    penalties: Float[Array, " k"],
    steps: int,
) -> Float[Array, "k m d"]:
    """Movements that fit f^Q to the first n samples, for each n and penalty: one program for all.

    Samples beyond n weigh nothing, so that all fits have one shape and share their products.

    Source: BL-31.
    """

    def fit(lane: tuple[Array, Array]) -> Float[Array, "m d"]:
        used = (jnp.arange(len(risk.y)) < lane[0]).astype(risk.y.dtype)
        return _lbfgs(risk, start, used / jnp.sum(used), lane[1], steps)

    # One at a time on a CPU: there batches of small products are slow, three times as slow here.
    if jax.default_backend() == "cpu" or len(ns) == 1:
        return jax.lax.map(fit, (ns, penalties))
    return jax.vmap(fit)((ns, penalties))


def _lbfgs(risk: QuadraticRisk, start, weights, penalty, steps: int) -> Float[Array, "m d"]:
    # Not train.fit, whose loop comes back to Python: no grid of fits could be one program.
    scale = len(start) ** -0.25
    optimizer = optax.lbfgs(memory_size=_MEMORY)

    def objective(V: Float[Array, "m d"]) -> Float[Array, ""]:
        fitted = jnp.sum(weights * risk.loss(risk.outputs(scale * V), risk.y))
        return fitted + penalty * regularizer(scale * V)

    def step(state: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
        V, inner = state
        value, gradient = optax.value_and_grad_from_state(objective)(V, state=inner)
        update, inner = optimizer.update(
            gradient, inner, V, value=value, grad=gradient, value_fn=objective
        )
        after = (optax.apply_updates(V, update), inner)
        done = global_norm(gradient) <= _SMALL
        return jax.tree.map(lambda old, new: jnp.where(done, old, new), state, after), None

    V = start / scale
    with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic is not strict
        (V, _), _ = jax.lax.scan(step, (V, optimizer.init(V)), None, length=steps)
    return scale * V


def start_of(width: int, inputs: int, normal: Float[Array, "m d"]) -> Float[Array, "m d"]:
    """A small start away from the saddle at 0."""
    return 0.3 * width**-0.25 * normal / math.sqrt(inputs)
