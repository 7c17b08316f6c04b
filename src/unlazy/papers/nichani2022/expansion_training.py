# SPDX-License-Identifier: Apache-2.0
"""Training the linear and the quadratic term of a two-layer network, with good directions kept."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from unlazy.core.checks import (
    calling,
    check_count,
    check_finite,
    check_key,
    check_positive,
)
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.linalg import eigh
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients
from unlazy.papers.nichani2022.expansion_program import (
    MEASURES,
    Data,
    ExpansionDescent,
    Lanes,
    Points,
    Sampler,
    State,
    Trials,
    measures,
)
from unlazy.train.loop import Progress, run_loop


@dataclass(frozen=True)
class ExpansionSetting:
    r"""One setting of `fit_expansion`: which terms are trained, and under which penalties.

    Source: NB-16, NB-51, arXiv:2206.03688.
    """

    lam3: int | float = 0.0  # of R3, on the training points
    lam1: int | float = 0.0  # of R1, on unlabelled points
    linear: bool = True  # whether f_L is in the model
    quadratic: bool = True  # whether f_Q is
    start: int | float = 0.0  # standard deviation of each entry of the movement at the start

    @entry
    def __post_init__(self):
        for name in ("lam1", "lam3", "start"):
            value = getattr(self, name)
            check_finite(value, name)
            if value < 0:
                raise ValueError(f"`{name}` must be at least 0, got {name}={value}.")
        if not (self.linear or self.quadratic):
            raise ValueError("`linear` or `quadratic` must be true, got neither: nothing to train.")
        if not self.linear and self.start == 0:
            raise ValueError(
                "`start` must be positive without the linear term, got start=0.0: W = 0 is a "
                "stationary point of f_Q. Use start=1e-3."
            )


class ExpansionRuns(eqx.Module):
    """What `fit_expansion` returns: curves per trial and setting, and the movements at the end."""

    steps: Int[np.ndarray, " t"]
    train: Float[np.ndarray, "s k t"]  # mean squares, without 1/2
    test: Float[np.ndarray, "s k t"]  # nan without a test set
    r3: Float[np.ndarray, "s k t"]  # by the projector of the training points
    r1: Float[np.ndarray, "s k t"]  # nan without unlabelled points
    W: Float[Array, "s k m d"]
    diverged: Bool[np.ndarray, "s k"]


class TrialData(eqx.Module):
    """Samples with their labels; the first axis is that of the trials."""

    x: Float[Array, "s n d"]
    y: Float[Array, "s n"]

    @entry
    def __check_init__(self):
        if self.x.ndim != 3 or self.y.shape != self.x.shape[:2]:
            raise ValueError(
                "`x` and `y` must have shapes (s, n, d) and (s, n), a trial on each entry of the "
                f"first axis, got x.shape={self.x.shape} and y.shape={self.y.shape}."
            )
        check_finite(self.x, "x")
        check_finite(self.y, "y")


@entry
def fit_expansion(
    net: TwoLayer,
    params: TwoLayerParams,
    train: TrialData,
    *,
    settings: Sequence[ExpansionSetting],
    rank: int,
    learning_rate: int | float,
    steps: int,
    noise: int | float = 0.0,
    test: TrialData | None = None,
    unlabelled: Float[Array, "s u d"] | None = None,
    fresh: Sampler | None = None,
    record_every: int = 1,
    precision: str | None = None,
    progress: Progress | None = None,
    key: PRNGKeyArray,
) -> ExpansionRuns:
    r"""Train $f_L + f_Q$ around `params` by descent, all trials and settings as one program.

    With $Z = X W^\top$, $S = a \sigma'(X W_0^\top)$, $T = a \sigma''(X W_0^\top)$ and $U_1$ the
    first `rank` eigenvectors of the tangent kernel,

    $$f_L = \tfrac{1}{\sqrt m} \textstyle\sum_r S Z, \quad
    f_Q = \tfrac{1}{2\sqrt m} \sum_r T Z^2, \quad
    L = \tfrac1n \|f_L + f_Q - y\|^2 + \tfrac{\lambda_3}n \|(I - U_1 U_1^\top) f_L\|^2 +
    \tfrac{\lambda_1}N \|(I - U_u U_u^\top) f_L(X_u)\|^2$$

    and $W \leftarrow W - \eta (\nabla L + \Xi)$ with $\Xi_{ij} \sim N(0, \tau^2/(md))$. A step is
    two products of $2nmd$ operations for each setting and trial, and two passes over an (n, m)
    array. Kernel and eigenvectors are computed in float64, training is in the dtype of `params`.

    Source: NB-20, NB-21 and, for $\lambda_1$ and single terms, NB-15 and NB-51, arXiv:2206.03688.
    The square has no 1/2.

    Args:
        net: the network; only its activation and its shape count.
        params: initialisations; the first axis is that of the trials, as from `jax.vmap`.
        train: training sets of the trials.
        settings: penalties and terms; all settings of a trial share its data, start and noise.
        rank: number of eigenvectors that are not penalised, $n_k$ for degree k; less than n.
        learning_rate: $\eta$; at most half of `largest_learning_rate`.
        steps: how many updates.
        noise: $\tau$.
        test: test sets of the trials.
        unlabelled: points for $R_1$, more than `rank` per trial; `lam1` needs them, or `fresh`.
        fresh: `fresh(key)` draws points for $R_1$, of shape (u, d), anew at each step. There the
            directions that are not penalised are those of the training points, and no $R_1$ is in
            the curves.
        record_every: steps between two entries of the curves; the first and last are there anyway.
        precision: of products, as in `fit_grid`; None lets a GPU round them to TF32.
        progress: as in `fit`; `TimeLeft(print)` tells the time left.
        key: for noise and random starts.

    Returns:
        The curves, the movements at the end, and which settings diverged. The curves of a setting
        that diverged are inf from there on.

    Example:
        >>> from unlazy.papers.nichani2022 import ExpansionSetting, TrialData, fit_expansion
        >>> net = TwoLayer(3, 20, "sigmoid", init="symmetric")
        >>> params = jax.vmap(lambda key: net.init(key=key))(jr.split(jr.key(0), 2))
        >>> x = jr.normal(jr.key(1), (2, 10, 3))
        >>> runs = fit_expansion(
        ...     net,
        ...     params,
        ...     TrialData(x, x[:, :, 0]),
        ...     settings=[ExpansionSetting(lam3=lam) for lam in (0.0, 1.0, 10.0)],
        ...     rank=4,
        ...     learning_rate=0.5,
        ...     steps=20,
        ...     key=jr.key(2),
        ... )
        >>> runs.train.shape, bool((runs.train[..., -1] < runs.train[..., 0]).all())
        ((2, 3, 21), True)
    """
    settings = list(settings)
    _check(net, params, train, settings, rank, unlabelled, test, fresh)
    check_positive(learning_rate, "learning_rate")
    check_key(key)
    if not noise >= 0 or not math.isfinite(noise):
        raise ValueError(f"`noise` must be at least 0 and finite, got noise={noise}.")
    key_noise, key_start = jr.split(key)
    dtype, (trials, m, d) = params.W.dtype, params.W.shape
    data = Data(
        _trials(net, params, train, test, unlabelled, rank, jr.split(key_noise, trials)),
        Lanes(*(_column(settings, name, dtype) for name in Lanes._fields)),
        jnp.asarray(learning_rate, dtype),
        jnp.asarray(noise / math.sqrt(m * d), dtype),
    )
    precise = jax.default_matmul_precision(precision) if precision else contextlib.nullcontext()
    with precise:
        history = run_loop(
            ExpansionDescent(noise > 0, fresh, None if fresh is None else net.activation),
            State(_starts(params, settings, key_start), jnp.zeros((), int)),
            data,
            steps=steps,
            record={"curves": measures},
            record_every=record_every,
            progress=progress,
        )
    return _runs(
        history.steps, history.records["curves"], jnp.transpose(history.params.V, (0, 2, 3, 1))
    )


def _runs(steps: np.ndarray, curves: np.ndarray, W: Array) -> ExpansionRuns:
    by_lane = {name: np.moveaxis(curves[:, i], 0, -1) for i, name in enumerate(MEASURES)}
    bad = ~np.isfinite(by_lane["train"])
    for name, values in by_lane.items():
        if not np.isnan(values[..., 0]).all():  # nan from the start on: there is no such set
            by_lane[name] = np.where(bad, np.inf, values).astype(values.dtype)
    return ExpansionRuns(steps=steps, W=W, diverged=np.asarray(bad.any(axis=-1)), **by_lane)


def _starts(
    params: TwoLayerParams, settings: list[ExpansionSetting], key: PRNGKeyArray
) -> Float[Array, "s d k m"]:
    scale = _column(settings, "start", params.W.dtype)
    s, m, d = params.W.shape
    return scale[None, None, :, None] * jr.normal(key, (s, d, 1, m), scale.dtype)


def _column(settings: list[ExpansionSetting], name: str, dtype: np.dtype) -> Float[Array, " k"]:
    return jnp.asarray([float(getattr(one, name)) for one in settings], dtype)


def _trials(net, params, train, test, unlabelled, rank, keys) -> Trials:
    """What training reads of every trial: computed in float64, kept in the dtype of `params`."""
    dtype, parts = params.W.dtype, []
    with float64(), jax.default_matmul_precision("highest"):
        for i in range(len(params.W)):
            own, fit, new, rows = jax.tree.map(
                lambda leaf, i=i: jnp.asarray(leaf[i], jnp.float64),
                (params, train, test, unlabelled),
            )
            sets = (
                _points(net, own, fit.x, fit.y, rank),
                None if new is None else _points(net, own, new.x, new.y, None),
                None if rows is None else _points(net, own, rows, None, rank),
            )
            parts.append(jax.tree.map(lambda leaf: leaf.astype(dtype), sets))
        fits, tests, others = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    return Trials(fits, tests, others, params, keys)


def _points(net, params: TwoLayerParams, x, y, rank: int | None) -> Points:
    S, T = (coefficients(net.activation, params, x, order, precision=None) for order in (1, 2))
    if rank is None:
        return Points(x, S, T, y, None, None)
    K = (x @ x.T) * (S @ S.T) / net.width  # NB-6
    found = eigh(K)
    return Points(x, S, T, y, found.vectors[:, :rank], jnp.asarray(found.values[:rank]))


def _check(net, params, train, settings, rank, unlabelled, test, fresh) -> None:
    if params.W.ndim != 3 or params.W.shape[1:] != (net.width, net.inputs):
        raise ValueError(
            f"`params` must have W of shape (s, {net.width}, {net.inputs}), a trial on each entry "
            f"of the first axis, got params.W.shape={params.W.shape}. Draw them with jax.vmap."
        )
    if params.a.shape != params.W.shape[:2]:  # one that broadcasts would train another network
        raise ValueError(
            f"`params` must have a of shape {params.W.shape[:2]}, got params.a.shape="
            f"{params.a.shape}."
        )
    sets = {"train": train.x, "test": None if test is None else test.x, "unlabelled": unlabelled}
    for name, x in sets.items():
        if x is None:
            continue
        if x.ndim != 3 or (x.shape[0], x.shape[2]) != (len(params.W), net.inputs):
            raise ValueError(
                f"`{name}` must hold {len(params.W)} trials of {net.inputs} inputs, as `params`, "
                f"got x.shape={x.shape}."
            )
        check_finite(x, name)
    if not settings:
        raise ValueError("`settings` must hold one setting at least, got none.")
    if unlabelled is None and fresh is None and any(one.lam1 for one in settings):
        raise ValueError(
            "`unlabelled` must be given where `lam1` is not 0, got unlabelled=None. Or draw points "
            "at each step by `fresh`."
        )
    if unlabelled is not None and fresh is not None:
        raise ValueError("`fresh` must be None where `unlabelled` is given, got both.")
    if fresh is not None:
        _check_fresh(fresh, net.inputs)
    check_count(rank, "rank", least=0)
    fewest = min(x.shape[1] for x in (train.x, unlabelled) if x is not None)
    if rank >= fewest:
        raise ValueError(
            f"`rank` must be below the number of points, {fewest}, got rank={rank}: the penalty "
            "would be 0 whatever the movement. Take more points or a lower degree."
        )


def _check_fresh(fresh: Sampler, d: int) -> None:
    with calling("fresh", "a key"):
        found = jax.eval_shape(fresh, jr.key(0))
    shape = getattr(found, "shape", None)
    if shape is None or len(shape) != 2 or shape[1] != d or not shape[0]:
        raise ValueError(f"`fresh` must return points of shape (u, {d}), got shape {shape}.")
