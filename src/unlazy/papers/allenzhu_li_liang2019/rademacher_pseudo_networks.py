# SPDX-License-Identifier: Apache-2.0
"""Lemmas B.5 and 6.12, exactly: Rademacher complexities of pseudo networks, and maximisers."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, PRNGKeyArray, Shaped

from unlazy.core.checks import as_array, check_count, check_finite, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import BiasedTwoLayerParams, ThreeLayerParams
from unlazy.nets.checking import check_kind
from unlazy.papers.allenzhu_li_liang2019.pseudo_networks import LearnerParams, layers
from unlazy.papers.shared.activation_patterns import Inputs, check_network
from unlazy.papers.shared.rademacher import RademacherEstimate, estimate

_HIGHEST = jax.lax.Precision.HIGHEST
_ENTRIES = 2**23  # held at a time in the batch of first-layer neurons


class TwoLayerSupremum(eqx.Module):
    """The largest correlation of a two-layer pseudo network with given signs, and its maximiser.

    The maximiser is float64. With x64 off JAX would round it in the next operation: work on
    `np.asarray(result.dW)`.
    """

    value: float
    dW: Float64[Array, "m d"]


class ThreeLayerSupremum(eqx.Module):
    """The same for a three-layer pseudo network; see `TwoLayerSupremum`."""

    value: float
    dW: Float64[Array, "m1 d"]
    dV: Float64[Array, "m2 m1"]


@entry
def rademacher_pseudo_two_layer_supremum(
    params0: BiasedTwoLayerParams,
    x: Inputs,
    signs: Shaped[Array | np.ndarray, " n"],
    *,
    tau: int | float,
) -> TwoLayerSupremum:
    r"""The largest correlation of a two-layer pseudo network with given signs, and its maximiser.

    $$\sup_{\|W'\|_{2,\infty} \le \tau} \frac1n \sum_j \xi_j\, g^{(b)}(x_j; W') =
    \frac\tau n \sum_i |a_i| \Big\| \sum_j \xi_j D_i(x_j)\, x_j \Big\|_2$$

    for a network of one output, with $D_i(x) = 1[\langle w_i, x\rangle + b_i \ge 0]$ at
    `params0`; attained by rows of length $\tau$ along these sums. Exact. The `signs` $\xi$ may be
    any finite numbers.

    Source: LG-20, beside arXiv:1811.04918 Lemma B.5.

    Example:
        >>> params = BiasedTwoLayerParams(W=jnp.eye(2), b=jnp.zeros(2), a=jnp.array([1.0, -2.0]))
        >>> best = rademacher_pseudo_two_layer_supremum(params, jnp.eye(2), jnp.ones(2), tau=1.0)
        >>> print(round(best.value, 6))  # every neuron is active: zeros count
        2.12132
    """
    check_positive(tau, "tau")
    data = _frozen(params0, BiasedTwoLayerParams, x)
    xi = _as_signs(signs, len(data.x))
    sums = _sums(data, xi)
    lengths = np.linalg.norm(sums, axis=1)
    unit = sums / np.where(lengths > 0, lengths, 1.0)[:, None]
    with float64():
        dW = jnp.asarray(float(tau) * np.sign(data.a)[:, None] * unit)
    return TwoLayerSupremum(float(tau) / len(xi) * float(np.abs(data.a) @ lengths), dW)


@entry
def rademacher_pseudo_two_layer(
    params0: BiasedTwoLayerParams,
    x: Inputs,
    *,
    tau: int | float,
    draws: int = 20,
    key: PRNGKeyArray,
) -> RademacherEstimate:
    r"""Rademacher complexity of two-layer pseudo networks with rows that move by at most $\tau$.

    $$\mathcal R = \mathbb E_\xi \frac\tau n \sum_i |a_i| \Big\| \sum_j \xi_j D_i(x_j)\, x_j
    \Big\|_2$$

    the mean of `rademacher_pseudo_two_layer_supremum` over `draws` sign vectors: exact up to their
    sampling.

    Source: LG-20 and LG-39, beside arXiv:1811.04918 Lemma B.5.

    Example:
        >>> params = BiasedTwoLayerParams(W=jnp.eye(2), b=jnp.zeros(2), a=jnp.ones(2))
        >>> value = rademacher_pseudo_two_layer(params, jnp.eye(2), tau=1.0, key=jr.key(0)).value
        >>> print(round(value, 6))
        1.414214
    """
    check_positive(tau, "tau")
    data, xis = _frozen(params0, BiasedTwoLayerParams, x), _draw_signs(x, draws, key)
    lengths = [np.linalg.norm(_sums(data, xi), axis=1) for xi in xis]
    return estimate(float(tau) / len(data.x) * np.array([np.abs(data.a) @ l for l in lengths]))


@entry
def rademacher_pseudo_three_layer_supremum(
    params0: ThreeLayerParams,
    x: Inputs,
    signs: Shaped[Array | np.ndarray, " n"],
    *,
    tau_w: int | float,
    tau_v: int | float,
) -> ThreeLayerSupremum:
    r"""The largest correlation of a three-layer pseudo network with given signs, and its maximiser.

    $$\sup \frac1n \sum_j \xi_j\, g^{(b,b)}(x_j; W', V') = \frac{\tau_w \tau_v}{n}
    \Big( \sum_q s_q^4 \Big)^{1/4}, \qquad
    s_q = \Big\| \sum_j \xi_j D_w(x_j)_q\, x_j\, (a \circ D_v(x_j))^\top \Big\|_{\mathrm{op}}$$

    over $\|W'\|_{2,4} \le \tau_w$ and $\|V'\|_F \le \tau_v$, for a network of one output with
    its signs $D_w$ and $D_v$ at `params0`; attained by rows
    $w_q = \tau_w s_q u_q/\|s\|_4$ along the left singular vectors, and columns of $V'$ along the
    right ones, of lengths $\tau_v s_q^2/\|s\|_4^2$. The matrices are never formed: $s_q^2$ is an
    eigenvalue of a (d, d) matrix. Exact. The `signs` $\xi$ may be any finite numbers.

    Source: LG-20, beside arXiv:1811.04918 Lemma 6.12.

    Example:
        >>> eye, zero = jnp.eye(2), jnp.zeros(2)
        >>> params = ThreeLayerParams(eye, zero, eye, zero, jnp.ones(2))
        >>> best = rademacher_pseudo_three_layer_supremum(
        ...     params, jnp.eye(2), jnp.ones(2), tau_w=1.0, tau_v=1.0)
        >>> print(round(best.value, 6))  # s_q = 2
        1.189207
    """
    check_positive(tau_w, "tau_w")
    check_positive(tau_v, "tau_v")
    data = _frozen(params0, ThreeLayerParams, x)
    xi = _as_signs(signs, len(data.x))
    with float64():
        squares, u = _tops(data, xi)
        s = np.sqrt(np.maximum(squares, 0))
        four = float(np.sum(s**4)) ** 0.25
        Dw, Dv = data.masks
        if four == 0:
            m2, m1 = Dv.shape[1], Dw.shape[1]
            return ThreeLayerSupremum(0.0, jnp.zeros((m1, data.x.shape[1])), jnp.zeros((m2, m1)))
        # The right singular vector times s_q is the sum over samples of (a D_v) <x, u_q> xi D_w.
        weights = xi[:, None] * Dw * (data.x @ u.T)
        right = (Dv * data.a).T @ weights
        dW = float(tau_w) * (s / four)[:, None] * u
        dV = float(tau_v) * right * (s / four**2)
        value = float(tau_w) * float(tau_v) / len(xi) * four
        return ThreeLayerSupremum(value, jnp.asarray(dW), jnp.asarray(dV))


@entry
def rademacher_pseudo_three_layer(
    params0: ThreeLayerParams,
    x: Inputs,
    *,
    tau_w: int | float,
    tau_v: int | float,
    draws: int = 20,
    key: PRNGKeyArray,
) -> RademacherEstimate:
    r"""Rademacher complexity of three-layer pseudo networks in a ball around their start.

    $$\mathcal R = \mathbb E_\xi \frac{\tau_w \tau_v}{n} \Big( \sum_q s_q^4 \Big)^{1/4}$$

    the mean of `rademacher_pseudo_three_layer_supremum` over `draws` sign vectors: exact up to
    their sampling.

    Source: LG-20 and LG-39, beside arXiv:1811.04918 Lemma 6.12.

    Example:
        >>> eye, zero = jnp.eye(2), jnp.zeros(2)
        >>> params = ThreeLayerParams(eye, zero, eye, zero, jnp.ones(2))
        >>> value = rademacher_pseudo_three_layer(
        ...     params, jnp.eye(2), tau_w=1.0, tau_v=1.0, key=jr.key(0)).value
        >>> print(round(value, 6))
        1.189207
    """
    check_positive(tau_w, "tau_w")
    check_positive(tau_v, "tau_v")
    data, xis = _frozen(params0, ThreeLayerParams, x), _draw_signs(x, draws, key)
    with float64():
        squares = [np.maximum(_tops(data, xi)[0], 0) for xi in xis]
    fourth = np.array([float(np.sum(s**2)) ** 0.25 for s in squares])
    return estimate(float(tau_w) * float(tau_v) / len(data.x) * fourth)


class _Frozen(NamedTuple):
    x: Float64[np.ndarray, "n d"]
    masks: list[Bool[np.ndarray, "n m"]]  # the signs of the neurons, by layer
    a: Float64[np.ndarray, " m"]


def _frozen(params: LearnerParams, kind: type, x: Inputs) -> _Frozen:
    check_kind(params, kind, name="params0")
    check_network(params.W, x)
    h, masks = np.asarray(x, np.float64), []
    for W, b in layers(params):
        z = _affine(h, W, b)
        h = np.maximum(z, 0)
        masks.append(z >= 0)
    return _Frozen(np.asarray(x, np.float64), masks, _one_output(params.a))


def _affine(x, W, b) -> Float64[np.ndarray, "n m"]:
    with float64():
        x, W, b = (jnp.asarray(value, jnp.float64) for value in (x, W, b))
        return np.asarray(jnp.matmul(x, W.T, precision=_HIGHEST) + b[None, :])


def _one_output(a: Float[Array, "*c m"]) -> Float64[np.ndarray, " m"]:
    values = np.asarray(as_array(a, "params0.a"), np.float64)
    if values.ndim == 2 and values.shape[0] == 1:
        values = values[0]
    if values.ndim != 1:
        raise ValueError(
            f"`params0` must have one output, got params0.a.shape={np.shape(a)}. Take the outputs "
            "one by one, and add their complexities."
        )
    check_finite(values, "params0.a")
    return values


def _as_signs(signs: Shaped[Array | np.ndarray, " n"], n: int) -> Float64[np.ndarray, " n"]:
    if np.shape(signs) != (n,):
        raise ValueError(
            f"`signs` must have shape ({n},), one per sample, got signs.shape={np.shape(signs)}."
        )
    values = np.asarray(as_array(signs, "signs"), np.float64)
    check_finite(values, "signs")
    return values


def _draw_signs(x: Inputs, draws: int, key: PRNGKeyArray) -> Float64[np.ndarray, "s n"]:
    check_count(draws, "draws", least=2)
    check_key(key)
    return np.asarray(jr.rademacher(key, (draws, np.shape(x)[0]), dtype=jnp.int8), np.float64)


def _sums(data: _Frozen, xi) -> Float64[np.ndarray, "m d"]:
    return data.masks[0].T.astype(np.float64) @ (xi[:, None] * data.x)


def _tops(data: _Frozen, xi) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalue of every Y_q^T K Y_q, and its eigenvector, per neuron q."""
    n, d = data.x.shape
    masks, Dv = data.masks[0].T, data.masks[1]
    scaled, y = jnp.asarray(Dv * data.a), jnp.asarray(xi[:, None] * data.x)
    K = jnp.matmul(scaled, scaled.T, precision=_HIGHEST)
    step = int(np.clip(_ENTRIES // (n * d), 1, len(masks)))
    parts = [_batch(K, y, jnp.asarray(masks[q : q + step])) for q in range(0, len(masks), step)]
    values, vectors = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(vectors)


@jax.jit
def _batch(K: Array, y: Array, masks: Bool[Array, "q n"]) -> tuple[Array, Array]:
    Y = jnp.where(masks[:, :, None], y[None, :, :], 0.0)
    forms = jnp.einsum("qnd,nk,qke->qde", Y, K, Y, precision=_HIGHEST)
    values, vectors = jnp.linalg.eigh(forms)
    return values[:, -1], vectors[:, :, -1]
