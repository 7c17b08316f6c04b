# SPDX-License-Identifier: Apache-2.0
"""Lemma 6.4, information out of randomness: functions of the input, read off random weights."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import (
    check_count,
    check_finite,
    check_inputs,
    check_positive,
    check_unit_rows,
)
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import ThreeLayerParams
from unlazy.nets.checking import check_kind
from unlazy.papers.allenzhu_li_liang2019.indicator_to_function import IndicatorFunction
from unlazy.papers.allenzhu_li_liang2019.interval_partitions import (
    interval_partition,
    partition_signs,
)
from unlazy.papers.shared.smooth_functions import unit_rows
from unlazy.papers.shared.start_scales import Squares, check_start_scale, squares

_ENTRIES = 2**22  # entries of V0 held at a time
_HIGHEST = jax.lax.Precision.HIGHEST
Rows = Callable[[int, int], Float[Array | np.ndarray, "r m1"]]


class ThreeLayerStart(eqx.Module):
    """The start of a three-layer learner whose V may be a function.

    `V(start, stop)` returns those rows, for a matrix larger than memory. A `nets.ThreeLayerParams`
    serves as well.
    """

    W: Float[Array | np.ndarray, "m1 d"]
    b1: Float[Array | np.ndarray, " m1"]
    V: Float[Array | np.ndarray, "m2 m1"] | Rows
    b2: Float[Array | np.ndarray, " m2"]
    a: Float[Array | np.ndarray, "*c m2"]


class RandomInformation(eqx.Module):
    r"""Gaussians $z_{i,j}$ that every second-layer neuron sees multiplied by the j-th function.

    $\sqrt{m_2}\, n_i(x) \approx \sum_j z_{i,j}\, \phi_j(\langle w^*_j, x\rangle) / C'$, plus a
    Gaussian that does not depend on z. Here $\phi_j$ is what $h_j$ builds, clipping included.
    """

    z: Float64[np.ndarray, "m2 q"]
    shares: Float64[np.ndarray, "m2 q"]  # |S| over the size of its block: tau on average
    scale: float  # C'
    bound: float  # C, of the functions h
    hidden: Float64[np.ndarray, "n m2"]  # n_i(x) without its bias, at the points given


@entry
def random_information(
    start: ThreeLayerParams | ThreeLayerStart,
    indicators: Sequence[IndicatorFunction],
    w: Float[Array | np.ndarray, "q d"],
    x: Float[Array | np.ndarray, "n d"] | None = None,
    *,
    times: Float[Array | np.ndarray, "q d"] | None = None,
    tau: float = 0.6,
    last: float = 0.5,
    chunks: int = 1,
) -> RandomInformation:
    r"""Read the values of functions of the input off the random weights of two layers.

    The first-layer neurons are dealt to the q functions in blocks $\mathcal B_j$. With the signs
    $s$ of `interval_partition`, for each second-layer neuron i

    $$y_{j'} = \frac{h_j(\sqrt{m_1} \langle w_{j'}, w^*_j\rangle, \sqrt{m_1} b_{j'})}{C}, \quad
    S = \{ j' \in \mathcal B_j : s(y_{j'}, \sqrt{m_2} v_{i,j'}) \ne 0 \}, \quad
    z_{i,j} = \frac{\sqrt{m_1}}{\sqrt{|S|}} \sum_{j' \in S} s_{j'} W_{j',d}$$

    is a standard Gaussian, and $\mathrm{Cov}(\sqrt{m_2} n_i(x), z_{i,j}) =
    \phi_j(\langle w^*_j, x\rangle)/C'$ with $C' = C \sqrt q/(x_d \sqrt\tau)$. There $\phi_j$ is the
    function that the clipped $h_j$ builds, the `values` of `indicator_error`, which a low limit
    takes far from the one that $h_j$ was made for. V is read once, in groups of rows. The mean
    squares of the start must be $1/m_1$ for W and $b_1$ and $1/m_2$ for V, up to chance.

    With the directions $w^*_{3,j}$ in `times` the entries $\langle w_{j'}, w^*_{3,j}\rangle$ take
    the place of $W_{j',d}$. Then z carries the products $\phi_j(\langle w^*_j, x\rangle)
    \langle w^*_{3,j}, x\rangle$, and $C' = C \sqrt q/\sqrt\tau$.

    Source: LG-44 and step 1 of LG-45, arXiv:1811.04918 Lemma 6.4, with Remark 4.2; $x_d$ is
    explicit.

    Args:
        start: the network at its start, of init="learner".
        indicators: $h_j$, bounded: see `IndicatorFunction.clipped`.
        w: $w^*_j$, unit rows orthogonal to the last coordinate, or to those of `times`.
        x: points of unit norm with last coordinate `last`, where the second layer is evaluated.
        times: $w^*_{3,j}$, unit rows; None for functions without such a factor.
        tau: share of the neurons used.
        last: $x_d$, the last coordinate of every input.
        chunks: S, parts of every block with a z of their own, whose sum over $\sqrt S$ is the z of
            the block. The paper takes $(m_1/q)^{1/3}$, which makes the rest of $n_i$ Gaussian.

    Example:
        >>> import unlazy as ul
        >>> from unlazy.papers.allenzhu_li_liang2019 import indicator_function
        >>> params = ul.nets.ThreeLayer(3, (200, 500)).init(key=jax.random.key(0))
        >>> h = indicator_function("identity", method="bias-free").clipped(2.0)
        >>> found = random_information(params, [h], np.eye(3)[:1])
        >>> print(found.z.shape, abs(found.shares.mean() - 0.6) < 0.02)
        (500, 1) True
    """
    first = _checked_first(start, indicators, w, times, last, chunks)
    rows = _checked_points(x, first.W.shape[1], last)
    bound = max(h.bound for h in indicators)
    if not math.isfinite(bound):
        raise ValueError("`indicators` must be bounded. Use IndicatorFunction.clipped.")
    m1, q = len(first.W), len(indicators)
    chunk = np.arange(m1) * (q * chunks) // m1
    root = math.sqrt(m1)
    y, entries = np.empty(m1), np.empty(m1)
    for j, h in enumerate(indicators):
        mine = chunk // chunks == j
        entries[mine] = first.W[mine] @ first.times[j]
        y[mine] = h(root * (first.W[mine] @ first.w[j]), root * first.b1[mine]) / bound
    sets = interval_partition(np.clip(y, -1.0, 1.0), tau)
    members = np.equal(chunk[:, None], np.arange(q * chunks)).astype(np.float64)
    S = np.maximum(rows @ first.W.T + first.b1, 0)
    streamed = _stream(start, sets.thresholds(), members, entries, S)
    m2 = len(streamed.z)
    check_learner_scale(Squares(streamed.squares, m1 * m2), m2, "V", "m2")
    return RandomInformation(
        z=root * _blocks(streamed.z, chunks) / math.sqrt(chunks),
        shares=_blocks(streamed.counts, chunks) / _blocks(members.sum(axis=0)[None], chunks),
        scale=bound * math.sqrt(q) / ((float(last) if times is None else 1.0) * math.sqrt(tau)),
        bound=bound,
        hidden=streamed.hidden,
    )


def _blocks(values: np.ndarray, chunks: int) -> np.ndarray:
    """The sums over the chunks of every block."""
    return values.reshape(len(values), -1, chunks).sum(axis=2)


def check_learner_scale(weights: Squares, width: int, name: str, letter: str) -> None:
    """Raise unless an array of the start has the scale of init="learner", `width**-0.5`."""
    check_start_scale(
        weights,
        width**-0.5,
        f"start.{name}",
        formula=f"1/sqrt({letter})",
        advice="Pass a start of nets.ThreeLayer, before any training.",
    )


class _First(NamedTuple):
    W: np.ndarray
    b1: np.ndarray
    w: np.ndarray
    times: np.ndarray  # the direction whose entries carry the information, by function


class _Streamed(NamedTuple):
    z: np.ndarray  # over sqrt(m1)
    counts: np.ndarray
    hidden: np.ndarray
    squares: float  # of V


def _stream(start, thresholds, members, column, S) -> _Streamed:
    """Go once through the rows of V: the sums over each set, its size, and the second layer."""
    m2 = np.shape(start.b2)[0]
    with float64():
        edges = tuple(jnp.asarray(edge, jnp.float64) for edge in thresholds)
        both = jnp.asarray(np.concatenate([members * column[:, None], members], axis=1))
        inputs = jnp.asarray(S)
        parts = [
            tuple(np.asarray(part) for part in _group(rows, edges, both, inputs, math.sqrt(m2)))
            for rows in _groups(start.V, m2, len(column))
        ]
    sums, counts, hidden, lengths = (np.concatenate(part) for part in zip(*parts, strict=True))
    z = sums / np.sqrt(np.maximum(counts, 1.0))
    return _Streamed(z, counts, hidden.T, float(np.sum(lengths)))


def _groups(V: Any, m2: int, m1: int) -> Iterator[Array]:
    step = max(1, _ENTRIES // m1)
    for k in range(0, m2, step):
        stop = min(k + step, m2)
        rows = jnp.asarray(V(k, stop) if callable(V) else V[k:stop])
        if rows.shape != (stop - k, m1):
            raise ValueError(
                f"`start.V` must give rows of shape ({stop - k}, {m1}), got {rows.shape}."
            )
        yield rows


@jax.jit
def _group(V: Array, edges, both: Array, S: Array, root: Array) -> tuple[Array, ...]:
    V = V.astype(jnp.float64)
    signs = partition_signs(jnp, V * root, *(edge[None, :] for edge in edges))
    q = both.shape[1] // 2
    sums = jnp.matmul(signs, both[:, :q], precision=_HIGHEST)
    counts = jnp.matmul(jnp.abs(signs), both[:, q:], precision=_HIGHEST)
    return sums, counts, jnp.matmul(V, S.T, precision=_HIGHEST), jnp.sum(V**2, axis=1)


def _checked_first(start, indicators, w, times, last: float, chunks: int) -> _First:
    check_kind(start, ThreeLayerParams, ThreeLayerStart, name="start")
    W, b1 = np.asarray(start.W, np.float64), np.asarray(start.b1, np.float64)
    w = np.asarray(w, np.float64)
    for name, value in (("W", W), ("b1", b1)):
        check_finite(value, f"start.{name}")
        check_learner_scale(squares(value), len(W), name, "m1")
    check_positive(last, "last")
    if w.shape != (len(indicators), W.shape[1]) or not len(indicators):
        raise ValueError(
            f"`w` must have shape ({len(indicators)}, {W.shape[1]}), one row for each of "
            f"indicators, got w.shape={w.shape}."
        )
    check_count(chunks, "chunks")
    if len(indicators) * chunks > len(W):  # a chunk without neurons has no share of them
        raise ValueError(
            f"`indicators` must be at most {len(W) // chunks}, one for each first-layer neuron of "
            f"a chunk, got {len(indicators)}. Use a wider network."
        )
    w = unit_rows(w, "w")
    to = "the last coordinate" if times is None else "those of `times`"
    times = np.tile(np.eye(W.shape[1])[-1], (len(w), 1)) if times is None else times
    times = unit_rows(times, "times")
    if times.shape != w.shape:
        raise ValueError(
            f"`times` must have the shape of w, {w.shape}, got times.shape={times.shape}."
        )
    overlap = float(np.max(np.abs(np.sum(w * times, axis=1))))
    if overlap > 1e-6:
        raise ValueError(
            f"`w` must have rows orthogonal to {to}, got an inner product of {overlap:.3g}."
        )
    return _First(W, b1, w, times)


def _checked_points(x, d: int, last: float) -> np.ndarray:
    if x is None:
        return np.zeros((0, d))
    check_inputs(x)
    rows = np.asarray(x, np.float64)
    if rows.shape[1] != d or np.max(np.abs(rows[:, -1] - last)) > 1e-5:
        raise ValueError(
            f"`x` must have {d} columns, the last of them {last} throughout, "
            f"got x.shape={rows.shape} and a last column from {rows[:, -1].min():.6g} to "
            f"{rows[:, -1].max():.6g}. Pad the inputs."
        )
    check_unit_rows(rows, tolerance=1e-3)  # an error far below that of any width
    return rows
