# SPDX-License-Identifier: Apache-2.0
"""The compiled part of `fit_expansion`: one step of all trials and settings, and what it records.

Trials are on the first axis of every array. The movements are held as (s, d, k, m), with V[i, :, j]
the transposed movement of trial i and setting j: then both products of a step run over contiguous
rows, and all settings of a trial are one product. That is twice as fast on a processor as (m, d).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from unlazy.nets import TwoLayer

MEASURES = ("train", "r3", "test", "r1")  # the rows of what is recorded


class Points(NamedTuple):
    """Samples with the derivatives of the activation there, which training does not change."""

    x: Float[Array, "*s n d"]
    S: Float[Array, "*s n m"]  # a_r sigma'(w0_r.x)
    T: Float[Array, "*s n m"]  # a_r sigma''(w0_r.x)


class Labelled(NamedTuple):
    """Samples with labels."""

    points: Points
    y: Float[Array, "*s n"]


class Subspace(NamedTuple):
    """Samples with the top left singular vectors of their features."""

    points: Points
    U: Float[Array, "*s n r"]


class Trials(NamedTuple):
    """All that belongs to one trial and is shared by its settings."""

    train: Labelled
    U: Float[Array, "*s n r"]
    test: Labelled | None
    unlabelled: Subspace | None
    keys: PRNGKeyArray  # (s,), of the noise


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


@dataclass(frozen=True)
class ExpansionDescent:
    """The stepper; `noisy` is compiled in, since normal variates cost as much as a product."""

    noisy: bool

    def step(self, state: State, data: Data) -> tuple[Float[Array, ""], State]:
        """The mean loss at `state`, and all trials and settings one step further."""

        def one_trial(trial: Trials, V: Array) -> tuple[Array, Array]:
            loss, G = loss_and_gradient(trial, data.lanes, V)
            if self.noisy:
                # The settings of a trial share their noise: each has the law that it should, and
                # what differs between them is the setting alone.
                d, _, m = V.shape
                noise = jr.normal(jr.fold_in(trial.keys, state.step), (d, 1, m), V.dtype)
                G = G + data.spread * noise
            return loss, V - data.rate * G

        losses, V = jax.vmap(one_trial)(data.trials, state.V)
        return _mean_of_finite(losses), State(V, state.step + 1)

    def params(self, state: State, data: Data) -> View:
        """The movements, with what is needed to judge them."""
        return View(state.V, data)


def _mean_of_finite(losses: Float[Array, "s k"]) -> Float[Array, ""]:
    """So that a setting which diverges does not end the others; nan when none is left."""
    finite = jnp.isfinite(losses)
    return jnp.sum(jnp.where(finite, losses, 0)) / jnp.sum(finite).astype(losses.dtype)


class Terms(NamedTuple):
    """Both terms of the expansion, by sample and setting."""

    Z: Float[Array, "n k m"]
    f_L: Float[Array, "n k"]
    f_Q: Float[Array, "n k"]


def terms(points: Points, V: Float[Array, "d k m"]) -> Terms:
    """NB-2 and NB-3 for all settings."""
    Z, f_L = linear_term(points, V)
    # A sum over products as a product of matrices: XLA adds up in order otherwise, five times
    # slower on a processor.
    f_Q = jnp.einsum("nm,nkm->nk", points.T, Z * Z) / (2 * math.sqrt(V.shape[-1]))
    return Terms(Z, f_L, f_Q)


def linear_term(
    points: Points, V: Float[Array, "d k m"]
) -> tuple[Float[Array, "n k m"], Float[Array, "n k"]]:
    """The inputs that the movement adds to the neurons, and NB-2."""
    d, k, m = V.shape
    Z = (points.x @ V.reshape(d, k * m)).reshape(-1, k, m)
    return Z, jnp.einsum("nm,nkm->nk", points.S, Z) / math.sqrt(m)


def pull_back(points: Points, A: Float[Array, "n k m"]) -> Float[Array, "d k m"]:
    """The gradient in V, from that in Z times sqrt(m)."""
    n, k, m = A.shape
    return (points.x.T @ A.reshape(n, k * m)).reshape(-1, k, m) / math.sqrt(m)


def above(U: Float[Array, "n r"], f_L: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """What of `f_L` lies outside of the subspace."""
    return f_L - U @ (U.T @ f_L)


def output(lanes: Lanes, found: Terms) -> Float[Array, "n k"]:
    """The outputs of the model, by sample and setting."""
    return lanes.linear[None] * found.f_L + lanes.quadratic[None] * found.f_Q


def loss_and_gradient(
    trial: Trials, lanes: Lanes, V: Float[Array, "d k m"]
) -> tuple[Float[Array, " k"], Float[Array, "d k m"]]:
    """NB-21: the mean square, and the gradient of it with its penalties by NB-4."""
    points, n = trial.train.points, trial.train.y.shape[0]
    found = terms(points, V)
    resid = output(lanes, found) - trial.train.y[:, None]
    c = 2 / n * resid
    c_L = lanes.linear[None] * c + 2 / n * lanes.lam3[None] * above(trial.U, found.f_L)
    c_Q = lanes.quadratic[None] * c
    S, T = points.S[:, None, :], points.T[:, None, :]
    G = pull_back(points, S * c_L[:, :, None] + T * found.Z * c_Q[:, :, None])
    if trial.unlabelled is not None:
        G = G + _r1_gradient(trial.unlabelled, lanes.lam1, V)
    return jnp.mean(resid**2, axis=0), G


def _r1_gradient(rows: Subspace, lam1: Float[Array, " k"], V: Array) -> Array:
    """NB-15, on unlabelled points, where f_Q plays no part."""
    _, f_L = linear_term(rows.points, V)
    c = 2 / f_L.shape[0] * lam1[None] * above(rows.U, f_L)
    return pull_back(rows.points, rows.points.S[:, None, :] * c[:, :, None])


def measures(view: View) -> Float[Array, "4 s k"]:
    """Training loss, R3, test loss and R1, nan where there is no set to tell."""

    def one_trial(trial: Trials, V: Array) -> Array:
        lanes, nothing = view.data.lanes, jnp.full(V.shape[1], jnp.nan, V.dtype)
        found = terms(trial.train.points, V)
        resid = output(lanes, found) - trial.train.y[:, None]
        rows = [_mean_square(resid), _mean_square(above(trial.U, found.f_L)), nothing, nothing]
        if trial.test is not None:
            new = output(lanes, terms(trial.test.points, V))
            rows[2] = _mean_square(new - trial.test.y[:, None])
        if trial.unlabelled is not None:
            _, f_L = linear_term(trial.unlabelled.points, V)
            rows[3] = _mean_square(above(trial.unlabelled.U, f_L))
        return jnp.stack(rows)

    return jax.vmap(one_trial, out_axes=1)(view.data.trials, view.V)


def _mean_square(values: Float[Array, "n k"]) -> Float[Array, " k"]:
    return jnp.mean(values**2, axis=0)


def derivatives(net: TwoLayer, W0: Array, a: Array, x: Array) -> Points:
    """The points of one trial."""
    h = x @ W0.T
    first, second = (a[None, :] * net.activation.derivative(order)(h) for order in (1, 2))
    return Points(x, first, second)
