# SPDX-License-Identifier: Apache-2.0
"""The compiled part of `fit_expansion`: one step of all trials and settings, and what it records.

Trials are on the first axis of every array. The movements are held as (s, d, k, m), with V[i, :, j]
the transposed movement of trial i and setting j: then both products of a step run over contiguous
rows, and all settings of a trial are one product. That is twice as fast on a processor as (m, d).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from unlazy.activations import Activation
from unlazy.nets import TwoLayerParams, expansion

MEASURES = ("train", "r3", "test", "r1")  # the rows of what is recorded


class Points(NamedTuple):
    """Samples and what training reads of them but does not change."""

    x: Float[Array, "*s n d"]
    S: Float[Array, "*s n m"]  # a_r sigma'(w0_r.x)
    T: Float[Array, "*s n m"]  # a_r sigma''(w0_r.x)
    y: Float[Array, "*s n"] | None  # labels; None of unlabelled points
    U: Float[Array, "*s n r"] | None  # top eigenvectors of the tangent kernel; None of a test set
    values: Float[Array, "*s r"] | None  # and its eigenvalues there


class Trials(NamedTuple):
    """What belongs to one trial and is shared by its settings."""

    train: Points
    test: Points | None
    unlabelled: Points | None
    start: TwoLayerParams  # around which the network is expanded
    keys: PRNGKeyArray  # (s,), of the noise and of points drawn at each step


class Lanes(NamedTuple):
    """What differs between settings."""

    lam1: Float[Array, " k"]
    lam3: Float[Array, " k"]
    linear: Float[Array, " k"]
    quadratic: Float[Array, " k"]


class Data(NamedTuple):
    """What a step reads and does not change."""

    trials: Trials
    lanes: Lanes
    rate: Float[Array, ""]
    spread: Float[Array, ""]  # standard deviation of each entry of the noise


class State(NamedTuple):
    """What a step changes."""

    V: Float[Array, "s d k m"]
    step: Int[Array, ""]


class View(NamedTuple):
    """What the record is computed from."""

    V: Float[Array, "s d k m"]
    data: Data


Sampler = Callable[[PRNGKeyArray], Float[Array, "u d"]]
"""A function that draws points from a key."""


@dataclass(frozen=True)
class ExpansionDescent:
    """The stepper; `noisy` is compiled in, since normal variates cost as much as a product."""

    noisy: bool
    fresh: Sampler | None = None  # of the points at which each step takes R1
    activation: Activation | None = None  # needed for fresh points

    def step(self, state: State, data: Data) -> tuple[Float[Array, ""], State]:
        """The mean loss at `state`, and all trials and settings one step further."""

        def one_trial(trial: Trials, V: Array) -> tuple[Array, Array]:
            key = jr.fold_in(trial.keys, state.step)
            fresh = None if self.fresh is None else self._points(trial.start, key)
            loss, G = _loss_and_gradient(trial, data.lanes, V, fresh)
            if self.noisy:
                # The settings of a trial share their noise: each has the law that it should, and
                # what differs between them is the setting alone.
                d, _, m = V.shape
                noise = jr.normal(key, (d, 1, m), V.dtype)
                G = G + data.spread * noise
            return loss, V - data.rate * G

        losses, V = jax.vmap(one_trial)(data.trials, state.V)
        # A setting that diverges does not end the others; the mean is nan when none is left.
        finite = jnp.isfinite(losses)
        mean = jnp.sum(jnp.where(finite, losses, 0)) / jnp.sum(finite).astype(losses.dtype)
        return mean, State(V, state.step + 1)

    def _points(self, start: TwoLayerParams, key: PRNGKeyArray) -> Points:
        assert self.fresh is not None
        assert self.activation is not None
        x = self.fresh(jr.fold_in(key, 1)).astype(start.W.dtype)
        S, T = (
            expansion.coefficients(self.activation, start, x, order, precision=None)
            for order in (1, 2)
        )
        return Points(x, S, T, None, None, None)

    def params(self, state: State, data: Data) -> View:
        """The movements, with what is needed to judge them."""
        return View(state.V, data)


class _Terms(NamedTuple):
    """Both terms of the expansion, by sample and setting."""

    Z: Float[Array, "n k m"]
    f_L: Float[Array, "n k"]
    f_Q: Float[Array, "n k"]


def _terms(points: Points, V: Float[Array, "d k m"]) -> _Terms:
    Z = _inputs(points, V)
    f_L = expansion.linear_term(points.S, Z, precision=None)
    return _Terms(Z, f_L, expansion.quadratic_term(points.T, Z, precision=None))


def _inputs(points: Points, V: Float[Array, "d k m"]) -> Float[Array, "n k m"]:
    """What the movements add to the inputs of the neurons."""
    d, k, m = V.shape
    return (points.x @ V.reshape(d, k * m)).reshape(-1, k, m)


def _pull_back(points: Points, A: Float[Array, "n k m"]) -> Float[Array, "d k m"]:
    """The gradient in V, from that in Z times sqrt(m)."""
    n, k, m = A.shape
    return (points.x.T @ A.reshape(n, k * m)).reshape(-1, k, m) / math.sqrt(m)


def _resid(points: Points, lanes: Lanes, found: _Terms) -> Float[Array, "n k"]:
    assert points.y is not None
    output = lanes.linear[None] * found.f_L + lanes.quadratic[None] * found.f_Q
    return output - points.y[:, None]


def _above(points: Points, f_L: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """The part of `f_L` outside of the span of the top eigenvectors."""
    assert points.U is not None
    return f_L - points.U @ (points.U.T @ f_L)


def _loss_and_gradient(
    trial: Trials, lanes: Lanes, V: Float[Array, "d k m"], fresh: Points | None = None
) -> tuple[Float[Array, " k"], Float[Array, "d k m"]]:
    """NB-21: the mean square, and by NB-4 the gradient of it with its penalties."""
    points, found = trial.train, _terms(trial.train, V)
    resid = _resid(points, lanes, found)
    n = len(resid)
    c = 2 / n * resid
    c_L = lanes.linear[None] * c + 2 / n * lanes.lam3[None] * _above(points, found.f_L)
    c_Q = lanes.quadratic[None] * c
    G_fresh = 0.0
    if fresh is not None:
        G_fresh, c_fresh = _fresh_r1_gradient(fresh, points, lanes.lam1, V, found.f_L)
        c_L = c_L + c_fresh
    S, T = points.S[:, None, :], points.T[:, None, :]
    G = _pull_back(points, S * c_L[:, :, None] + T * found.Z * c_Q[:, :, None]) + G_fresh
    if trial.unlabelled is not None:
        G = G + _r1_gradient(trial.unlabelled, lanes.lam1, V)
    return jnp.mean(resid**2, axis=0), G


def _r1_gradient(points: Points, lam1: Float[Array, " k"], V: Array) -> Array:
    """NB-15, on unlabelled points, where f_Q plays no part."""
    f_L = expansion.linear_term(points.S, _inputs(points, V), precision=None)
    c = 2 / f_L.shape[0] * lam1[None] * _above(points, f_L)
    return _pull_back(points, points.S[:, None, :] * c[:, :, None])


def _fresh_r1_gradient(
    fresh: Points,
    train: Points,
    lam1: Float[Array, " k"],
    V: Float[Array, "d k m"],
    f_L: Float[Array, "n k"],
) -> tuple[Float[Array, "d k m"], Float[Array, "n k"]]:
    r"""The gradient of R1 at fresh points, beyond the directions of the training points.

    With J the features of the training points, $V_1 = J^\top U \Lambda^{-1/2}$ are their leading
    directions, and $f_L(x; V_1 V_1^\top W) = K(x, X) U \Lambda^{-1} U^\top f_L(X; W)$. The second
    part of the gradient is returned as weights of the features of the training points.
    """
    assert train.U is not None
    assert train.values is not None
    m = fresh.S.shape[-1]
    K = (fresh.x @ train.x.T) * (fresh.S @ train.S.T) / m
    spread = train.U / train.values[None]  # U Lambda^-1
    low = K @ (spread @ (train.U.T @ f_L))
    c = expansion.linear_term(fresh.S, _inputs(fresh, V), precision=None) - low
    c = 2 / len(fresh.x) * lam1[None] * c
    G = _pull_back(fresh, fresh.S[:, None, :] * c[:, :, None])
    return G, -(spread @ (train.U.T @ (K.T @ c)))


def measures(view: View) -> Float[Array, "4 s k"]:
    """The training loss, R3, the test loss and R1; nan without the set that a measure needs."""

    def one_trial(trial: Trials, V: Array) -> Array:
        def squares(values: Float[Array, "n k"]) -> Float[Array, " k"]:
            return jnp.mean(values**2, axis=0)

        lanes, nothing = view.data.lanes, jnp.full(V.shape[1], jnp.nan, V.dtype)
        found = _terms(trial.train, V)
        resid, above = _resid(trial.train, lanes, found), _above(trial.train, found.f_L)
        rows = [squares(resid), squares(above), nothing, nothing]
        if trial.test is not None:
            rows[2] = squares(_resid(trial.test, lanes, _terms(trial.test, V)))
        if trial.unlabelled is not None:
            rows[3] = squares(_above(trial.unlabelled, _terms(trial.unlabelled, V).f_L))
        return jnp.stack(rows)

    return jax.vmap(one_trial, out_axes=1)(view.data.trials, view.V)
