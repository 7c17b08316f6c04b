# SPDX-License-Identifier: Apache-2.0
"""Rademacher complexity of the quadratic model: its closed form, Lemma 5 and Lemma 8."""

import functools
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray, Shaped

from unlazy.activations import Activation
from unlazy.activations import activation as as_activation
from unlazy.core.checks import as_array, check_count, check_finite, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import TwoLayerParams
from unlazy.nets.expansion import coefficients
from unlazy.papers.bai_lee2020.matrix_sums import lemma_8
from unlazy.papers.shared.activation_patterns import Inputs, check_network
from unlazy.papers.shared.rademacher import RademacherEstimate, estimate

_ENTRIES = 2**23  # of the products held at a time: 64 MB in float64


class QuadraticSupremum(eqx.Module):
    """The largest correlation of the quadratic model with given signs, and its maximiser."""

    value: float
    dW: Float64[Array, "m d"]  # of 2,4 norm equal to the radius, or zero where the value is


class QuadraticRademacher(eqx.Module):
    """Rademacher complexity of the quadratic model over a 2,4 ball, and the bounds above it."""

    exact: RademacherEstimate  # the mean of the supremum itself
    operator_norm: RademacherEstimate  # E max_r |a_r| ||M_r||, where the paper's a_r is +-1
    norm: float
    samples: int

    @property
    def sharp(self) -> float:
        """B^2/2 E max ||M_r||: never below `exact`."""
        return self.norm**2 / 2 * self.operator_norm.value

    @property
    def paper_main(self) -> float:
        """2 B^2 E max ||M_r||, the first term of the paper's Lemma 5."""
        return 2 * self.norm**2 * self.operator_norm.value

    @property
    def paper(self) -> float:
        """The bound of Lemma 5 for the losses of the class."""
        return self.paper_main + 1 / math.sqrt(self.samples)


@entry
def rademacher_quadratic_supremum(
    params0: TwoLayerParams,
    x: Inputs,
    signs: Shaped[Array | np.ndarray, " n"],
    *,
    norm: int | float,
    activation: str | Activation = "relu3",
) -> QuadraticSupremum:
    r"""The largest correlation of the quadratic term with given signs, and its maximiser.

    $$\sup_{\|W\|_{2,4} \le B} \frac1n \sum_i \varepsilon_i f^Q_W(x_i)
    = \frac{B^2}{2\sqrt m} \Big(\sum_r e_r^2\Big)^{1/2}, \qquad e_r = [\lambda_{\max}(a_r M_r)]_+,
    \qquad M_r = \frac1n \sum_i \varepsilon_i \sigma''(w_{0,r}^\top x_i)\, x_i x_i^\top$$

    with B the `norm`, attained at $w_r = \sqrt{t_r}\, v_r$ with $v_r$ the top eigenvector of
    $a_r M_r$ and $t_r = B^2 e_r/\|e\|$. Exact; one eigendecomposition of each distinct $M_r$.

    The signs may be any finite numbers, labels for instance. The maximiser is in float64; with x64
    off JAX would round it in the next operation: work under `with jax.enable_x64(True)`, or on
    `np.asarray(result.dW)`.

    Source: BL-17 and BL-18, derived beside arXiv:1910.01619 Lemma 5.

    Example:
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.ones(2))
        >>> best = rademacher_quadratic_supremum(params, jnp.eye(2), jnp.ones(2), norm=2.0)
        >>> print(best.value, np.asarray(best.dW).round(4).tolist())
        1.0 [[1.6818, 0.0], [0.0, 1.6818]]
    """
    check_positive(norm, "norm")
    start = _checked_start(params0, x, activation)
    n = start.x.shape[0]
    if np.shape(signs) != (n,):
        raise ValueError(
            f"`signs` must have shape ({n},), one per sample, got signs.shape={np.shape(signs)}."
        )
    eps = np.asarray(as_array(signs, "signs"), np.float64)
    check_finite(eps, "signs")
    spectrum = _extremes(start, eps / len(eps), vectors=True)
    e = _excess(start, spectrum)
    length = float(np.linalg.norm(e))
    m, B = len(e), float(norm)
    positive = (start.a >= 0)[:, None]
    v = np.where(positive, *(np.tile(v, (start.copies, 1)) for v in (spectrum[3], spectrum[2])))
    # The sign of an eigenvector is the solver's choice: fix it, so that results are the same
    # everywhere.
    v = v * np.where(np.take_along_axis(v, np.abs(v).argmax(1)[:, None], 1) < 0, -1.0, 1.0)
    size = np.sqrt(B**2 * e / length) if length else np.zeros(m)
    with float64():
        return QuadraticSupremum(B**2 / (2 * math.sqrt(m)) * length, jnp.asarray(size[:, None] * v))


@entry
def rademacher_quadratic(
    params0: TwoLayerParams,
    x: Inputs,
    *,
    norm: int | float,
    draws: int = 20,
    activation: str | Activation = "relu3",
    key: PRNGKeyArray,
) -> QuadraticRademacher:
    r"""Rademacher complexity of the quadratic term over $\|W\|_{2,4} \le B$: Lemma 5, made exact.

    $$\mathcal R = \mathbb E_\varepsilon \frac{B^2}{2\sqrt m} \Big(\sum_r e_r^2\Big)^{1/2}
    \le \frac{B^2}{2}\, \mathbb E_\varepsilon \max_r \|M_r\|_{\mathrm{op}}, \qquad
    \mathcal R(\ell \circ \mathcal F) \le 2 B^2\, \mathbb E_\varepsilon \max_r
    \|M_r\|_{\mathrm{op}} + \frac{1}{\sqrt n}$$

    with $e_r$, $M_r$ of `rademacher_quadratic_supremum`. The result has the value, exact up to the
    sampling of the signs, the bound that follows from it (`sharp`) and the paper's (`paper`), whose
    constant is four times as large. A 1-Lipschitz loss does not increase the first two.

    Source: BL-18 and BL-19, arXiv:1910.01619 Lemma 5.

    Arguments are those of `rademacher_quadratic_supremum`, with sign vectors drawn by the key: each
    of the `draws` costs $m/2$ eigenvalue problems of size d.

    Example:
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.ones(2))
        >>> chain = rademacher_quadratic(params, jnp.eye(2), norm=1.0, draws=4, key=jr.key(0))
        >>> chain.exact.value <= chain.sharp <= chain.paper
        True
    """
    check_positive(norm, "norm")
    check_count(draws, "draws", least=2)
    check_key(key)
    start = _checked_start(params0, x, activation)
    n, m = start.x.shape[0], len(start.a)
    signs = np.asarray(jr.rademacher(key, (draws, n), dtype=jnp.int8), np.float64)
    spectra = [_extremes(start, eps / n) for eps in signs]
    exact = [float(np.linalg.norm(_excess(start, spectrum))) for spectrum in spectra]
    norms = [np.tile(np.maximum(-low, high), start.copies) for low, high, *_ in spectra]
    largest = [float(np.max(np.abs(start.a) * norm)) for norm in norms]
    return QuadraticRademacher(
        exact=estimate(float(norm) ** 2 / (2 * math.sqrt(m)) * np.array(exact)),
        operator_norm=estimate(np.array(largest)),
        norm=float(norm),
        samples=n,
    )


@entry
def rademacher_operator_bound(
    params0: TwoLayerParams, x: Inputs, *, activation: str | Activation = "relu3"
) -> float:
    r"""Lemma 8: a bound on $\mathbb E_\varepsilon \max_r \|M_r\|_{\mathrm{op}}$ without signs.

    $$\mathbb E_\varepsilon \max_{r \le m} \Big\|\sum_i \varepsilon_i A_{r,i}\Big\|_{\mathrm{op}}
    \le 4 \Big(\max_r \Big\|\sum_i A_{r,i}^2\Big\|_{\mathrm{op}} \log(2 m d)\Big)^{1/2}, \qquad
    A_{r,i} = \frac1n \sigma''(w_{0,r}^\top x_i)\, x_i x_i^\top$$

    `matrix_rademacher` has it for other matrices.

    Source: BL-20, arXiv:1910.01619 Lemma 8.

    Example:
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.ones(2))
        >>> bound = rademacher_operator_bound(params, jnp.eye(2))
        >>> print(round(bound, 6), round(2 * math.sqrt(math.log(8)), 6))
        2.884054 2.884054
    """
    start = _checked_start(params0, x, activation)
    n, d = start.x.shape
    squares = np.sum(np.asarray(start.x) ** 2, axis=1)
    largest = _extremes(start, squares / n**2, power=2).high.max()
    return lemma_8(float(largest), len(start.a), d)


class _Extremes(NamedTuple):
    """The ends of the spectrum of each matrix; eigenvectors are empty unless asked for."""

    low: Float64[np.ndarray, " q"]
    high: Float64[np.ndarray, " q"]
    v_low: Float64[np.ndarray, "q dim"]
    v_high: Float64[np.ndarray, "q dim"]


class _Start(NamedTuple):
    """A start of the quadratic model in float64, with each distinct neuron once."""

    x: Float64[Array, "n d"]
    W: Float64[Array, "q d"]  # the distinct neurons: the first half of a start made of twins
    a: Float64[np.ndarray, " m"]
    copies: int  # how many times each row of W occurs
    sigma: Activation


def _excess(start: _Start, spectrum: _Extremes) -> Float64[np.ndarray, " m"]:
    """e_r, for every neuron: twins share their matrix, not their sign."""
    low, high = np.tile(spectrum.low, start.copies), np.tile(spectrum.high, start.copies)
    return np.maximum(np.where(start.a >= 0, start.a * high, start.a * low), 0)


def _checked_start(params0: TwoLayerParams, x: Inputs, activation: str | Activation) -> _Start:
    check_network(params0.W, x)
    check_finite(params0.a, "params0.a")
    W, a = np.asarray(params0.W, np.float64), np.asarray(params0.a, np.float64)
    if a.shape != (len(W),):
        raise ValueError(
            f"`params0.a` must have shape ({len(W)},), one weight a neuron, got "
            f"params0.a.shape={a.shape}."
        )
    half = len(W) // 2
    twins = len(W) % 2 == 0 and np.array_equal(W[:half], W[half:])
    with float64():
        x, distinct = jnp.asarray(x, jnp.float64), jnp.asarray(W[:half] if twins else W)
    return _Start(x, distinct, a, 2 if twins else 1, as_activation(activation))


def _extremes(
    start: _Start, weights: Float[np.ndarray, " n"], *, power: int = 1, vectors: bool = False
) -> _Extremes:
    r"""The ends of the spectrum of $\sum_i c_i \sigma''(w_r^\top x_i)^p\, x_i x_i^\top$, by neuron.

    Neurons are taken in blocks, so that memory stays bounded whatever their number.
    """
    (n, d), q = start.x.shape, start.W.shape[0]
    block = min(q, max(1, _ENTRIES // (d * max(n, d))))
    results = []
    with float64():
        c = jnp.asarray(weights, jnp.float64)
        for k in range(0, q, block):
            # Filled up with the last neurons, so that one shape is compiled.
            rows = np.minimum(np.arange(k, k + block), q - 1)
            part = _block(start.sigma, power, vectors, start.x, start.W[rows], c)
            results.append([np.asarray(value)[: min(block, q - k)] for value in part])
    return _Extremes(*(np.concatenate(parts) for parts in zip(*results, strict=True)))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _block(sigma: Activation, power: int, vectors: bool, x, W, c) -> tuple[Array, ...]:
    params = TwoLayerParams(W=W, a=jnp.ones(len(W), W.dtype))
    second = coefficients(sigma, params, x, 2) ** power * c[:, None]
    weighted = second.T[:, :, None] * x[None, :, :]
    M = jnp.einsum("qni,nj->qij", weighted, x, precision=jax.lax.Precision.HIGHEST)
    M = (M + jnp.swapaxes(M, 1, 2)) / 2
    if not vectors:
        values = jnp.linalg.eigvalsh(M)
        nothing = jnp.zeros((W.shape[0], 0), x.dtype)
        return values[:, 0], values[:, -1], nothing, nothing
    values, V = jnp.linalg.eigh(M)
    return values[:, 0], values[:, -1], V[:, :, 0], V[:, :, -1]
