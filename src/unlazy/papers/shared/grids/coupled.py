# SPDX-License-Identifier: Apache-2.0
"""Ridge regression with the tangent kernel of all pairs of outputs, which is never formed.

At 1000 samples of 15 outputs the kernel has 15000 rows, and a path of ridges would need its
eigenvalues. Its product with a vector is one derivative backwards and one forwards.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from unlazy.core.compiling import jit_untuned
from unlazy.core.float64 import float64
from unlazy.papers.shared.grids.learner import Split
from unlazy.papers.shared.grids.linear import in_float64, split_sets

_TOLERANCE = 1e-8  # for the residual that the recursion carries, relative to the labels
_SOLVED = 1e-5  # for the true one, which rounding leaves up to a hundred times as large


class CoupledPath(NamedTuple):
    """The errors along a path of ridges, and how well its equations are solved."""

    weight_decay: Float64[np.ndarray, " r"]
    errors: list[Float64[np.ndarray, " r"]]  # mean squared, summed over outputs, for every set
    residuals: Float64[np.ndarray, " r"]  # true ones, relative to the labels
    iterations: int


def coupled_ridge_path(
    net: Any, params: Any, split: Split, scales: Float[np.ndarray, " r"], *, most: int = 4000
) -> CoupledPath:
    r"""Mean squared errors of the linearised network at the minimum for many weight decays.

    $$\min_\theta \frac1N \sum_i \|f(x_i) + J(x_i)\theta - y_i\|^2 + \frac\omega2 \|\theta\|^2,
    \qquad \theta = J^\top \alpha, \qquad \Big(J J^\top + \frac{N\omega}2 I\Big) \alpha = y - f$$

    with J the derivative of all outputs at all samples by all parameters: row $(i, r)$ and column
    $(j, s)$ of $J J^\top$ are $\langle\nabla f_r(x_i), \nabla f_s(x_j)\rangle$. Conjugate gradients
    serve all ridges with one product per step. `scales` are the ridges $N\omega/2$ in units of the
    mean eigenvalue of $J J^\top$. Errors are nan where a residual is above 1e-5 after `most` steps.

    Source: RN-8 and RN-35, arXiv:1905.10337 section 8; B. Jegerlehner, hep-lat/9612014, for the
    shifted systems.
    """
    with float64():
        wide = in_float64(params)
        sets = [np.asarray(part.x, np.float64) for part in split]
        labels = [np.asarray(part.y, np.float64) for part in split]
        first, every = jnp.asarray(sets[0]), jnp.asarray(np.concatenate(sets))
        ridges = np.asarray(scales, np.float64) * float(_mean_eigenvalue(net, wide, first))
        solved = _solve(net, wide, first, jnp.asarray(labels[0]), jnp.asarray(ridges), most)
        outputs = np.asarray(_predict(net, wide, first, every, solved.alpha))
        residuals = np.asarray(solved.residuals)
    errors = [
        np.where(residuals < _SOLVED, np.mean(np.sum((f - y) ** 2, axis=2), axis=1), np.nan)
        for f, y in zip(split_sets(outputs, sets, axis=1), labels, strict=True)
    ]
    return CoupledPath(2 * ridges / len(sets[0]), errors, residuals, int(solved.steps))


class _Solved(NamedTuple):
    alpha: Float64[Array, "r n c"]
    residuals: Float64[Array, " r"]
    steps: Int[Array, ""]


class _State(NamedTuple):
    """Conjugate gradients for the least ridge, and what ties those of each ridge to them."""

    r: Float64[Array, "n c"]
    p: Float64[Array, "n c"]
    square: Float64[Array, ""]  # of r
    step: Float64[Array, ""]  # gamma of the last iteration
    turn: Float64[Array, ""]  # beta of it
    alpha: Float64[Array, "q n c"]
    along: Float64[Array, "q n c"]
    zeta: Float64[Array, " q"]  # its residual is zeta r
    before: Float64[Array, " q"]
    done: Int[Array, ""]  # iterations


@jit_untuned
def _solve(net: Any, params: Any, x: Array, y: Array, ridges: Array, most: int) -> _Solved:
    with jax.default_matmul_precision("highest"):
        f, forwards, backwards = _derivatives(net, params, x)
        resid, least = y - f, jnp.min(ridges)
        shifts = ridges - least
        size = jnp.sum(resid**2)
        goal = _TOLERANCE**2 * size

        def kernel(u: Array) -> Array:
            return forwards(backwards(u)[0])

        def unfinished(state: _State) -> Array:
            return (jnp.max(state.zeta**2) * state.square > goal) & (state.done < most)

        def iterate(state: _State) -> _State:
            return _iterate(state, kernel(state.p) + least * state.p, shifts, goal)

        zeros, ones = jnp.zeros((len(ridges), *y.shape)), jnp.ones(len(ridges))
        one = jnp.ones(())
        begin = _State(
            *(resid, resid, size, one, 0 * one, zeros, zeros + resid[None], ones, ones),
            done=jnp.zeros((), jnp.int32),
        )
        end = jax.lax.while_loop(unfinished, iterate, begin)

        def left(pair: tuple[Array, Array]) -> Array:
            alpha, ridge = pair
            return jnp.sqrt(jnp.sum((resid - kernel(alpha) - ridge * alpha) ** 2) / size)

        return _Solved(end.alpha, jax.lax.map(left, (end.alpha, ridges)), end.done)


def _iterate(state: _State, Ap: Array, shifts: Array, goal: Array) -> _State:
    step = state.square / jnp.sum(state.p * Ap)
    # A finished system stays as it is: its zeta would underflow.
    moving = state.zeta**2 * state.square > goal
    zeta = (state.zeta * state.before * state.step) / (
        step * state.turn * (state.before - state.zeta)
        + state.before * state.step * (1 + shifts * step)
    )
    ratio = jnp.where(moving, zeta / state.zeta, 0.0)
    r = state.r - step * Ap
    square = jnp.sum(r**2)
    turn = square / state.square
    over = (slice(None), None, None)
    own = zeta[over] * r[None] + (turn * ratio**2)[over] * state.along
    return _State(
        *(r, r + turn * state.p, square, step, turn),
        alpha=state.alpha + (step * ratio)[over] * state.along,
        along=jnp.where(moving[over], own, state.along),
        zeta=jnp.where(moving, zeta, state.zeta),
        before=jnp.where(moving, state.zeta, state.before),
        done=state.done + 1,
    )


def _derivatives(net: Any, params: Any, x: Array) -> tuple[Array, Any, Any]:
    """The outputs, and the products with J and with its transpose."""
    f, forwards = jax.linearize(lambda moved: net(moved, x), params)
    return f, forwards, jax.linear_transpose(forwards, params)


@jit_untuned
def _mean_eigenvalue(net: Any, params: Any, x: Array) -> Array:
    """The trace over the number of rows, from the derivatives of one sample at a time."""

    def square(one: Array) -> Array:
        jac = jax.jacrev(lambda moved: net(moved, one[None])[0])(params)
        return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(jac)), jnp.zeros(()))

    outputs = jax.eval_shape(net, params, x).shape[1]
    with jax.default_matmul_precision("highest"):
        return jnp.mean(jax.lax.map(square, x)) / outputs


@jit_untuned
def _predict(net: Any, params: Any, x: Array, every: Array, alpha: Array) -> Array:
    """The linearised network moved along each solution, at all samples."""
    with jax.default_matmul_precision("highest"):
        backwards = _derivatives(net, params, x)[2]
        f, forwards = jax.linearize(lambda moved: net(moved, every), params)
        return jax.lax.map(lambda one: f + forwards(backwards(one)[0]), alpha)
