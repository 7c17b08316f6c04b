# SPDX-License-Identifier: Apache-2.0
"""Kernels of fully connected networks of infinite width."""

import itertools
import math
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from unlazy.core.checks import check_count, check_name, check_positive, is_known, some_rows
from unlazy.core.compiling import jit_untuned
from unlazy.core.entries import entry
from unlazy.kernels.blocks import angular_matrix, check_pair
from unlazy.kernels.differentiation import at_precision
from unlazy.kernels.dual import ActivationLike, dual_of
from unlazy.kernels.moments import Dual, PairMoments, Row, RowMoments
from unlazy.kernels.series import (
    SeriesDual,
    enough_terms,
    shares_left,
    shortened,
    warn_of_tail,
)

_TRAINED = ("all", "hidden", "last")
MOST_LAYERS = 1000
"""2^depth, which scales the normalised kernels, is a float."""
_MOST_JOINED = 32  # arrays in one program: XLA takes 0.4 s for 200, 4 s for 1000
_MOST_UNROLLED = 16  # layers in one piece of arithmetic; in a loop they take three times as long


@entry
def ntk(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    depth: int = 1,
    activation: ActivationLike = "relu",
    weight_variance: int | float = 2.0,
    bias_variance: int | float = 0.0,
    trained: str = "all",
    fixed_layers: int = 0,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The neural tangent kernel of a fully connected network of infinite width.

    The network, in NTK parametrisation, with `depth` hidden layers, $h^0 = x$, all entries of $W$
    and $b$ standard Gaussians, and one output $z^{L+1}$ (of $c$ outputs, each has this kernel):

    $$z^l = \sqrt{\sigma_w^2 / \mathrm{fan\_in}}\; W^l h^{l-1} + \sigma_b b^l, \qquad
    h^l = \phi(z^l), \qquad l = 1, \dots, L + 1$$

    The first fan-in is $d$, hence the covariance starts at $\Sigma^1 = \sigma_w^2
    \langle x, x'\rangle / d + \sigma_b^2$, and with $(u, v) \sim N(0, \Sigma^l)$

    $$\Sigma^{l+1} = \sigma_w^2 E[\phi(u)\phi(v)] + \sigma_b^2, \qquad \Theta^1 = \Sigma^1, \qquad
    \Theta^{l+1} = \Sigma^{l+1} + \sigma_w^2 E[\phi'(u)\phi'(v)]\, \Theta^l$$

    "all" gives $\Theta^{L+1}$; "last" its first term, the readout's own, which is `nngp`; "hidden"
    its second term, the readout being fixed. For one hidden ReLU layer without biases, "hidden" is
    $(\sigma_w^4 / d)$ times `relu_gram`. Where the first $j$ layers are fixed, $\Theta^l = 0$ for
    $l \le j$, and the recursion adds $\Sigma^l$ from $l = j + 1$ on; with all hidden layers fixed,
    this is `nngp`.

    Rows may have any norm. With `x2` None the matrix is symmetric to the last bit and the diagonal
    follows its own recursion; nearly parallel rows keep their angle through every layer of ReLU,
    leaky ReLU, abs or sign (not under `jax.jit`). These, rectified powers, erf, sin, cos, exp and
    identity are in closed form, exact to rounding at any angle; `jax.nn.relu`, `jax.nn.leaky_relu`,
    `jnp.abs` and `jnp.sign` count as the activations of those names.

    All others are summed as a Hermite series of up to 510 terms (126 under `jax.jit`). A smooth
    activation is exact to rounding unless its rows are long; a warning tells when the series leaves
    more than 1e-8. With a kink it is exact to rounding for correlations below 0.93 in size, and
    nearer to 1 off by up to 2e-3 of the diagonal, which the warning states. A Python function with
    a kink other than at 0 is integrated to three digits (its slope to two) without a warning: use
    `unlazy.activation` with a shift, whose kink is known. Sign and the step have a covariance, but
    no finite tangent kernel: for them only the readout can be trained, as in `nngp`.

    The first call for a shape compiles; how long that takes depends on neither n nor, beyond 16
    layers, `depth`. Inside your own `jax.jit` both sides of the diagonal are evaluated.

    Source: AR-6 at depth 1, RN-17 at depths 1 and 2; the recursion is arXiv:1806.07572's, in whose
    notation our σ_w² multiplies the weights' variance. Fixed first layers are arXiv:1910.01663's.

    Args:
        x1: one input per row.
        x2: other inputs, for the cross kernel; None means `x1`.
        depth: hidden layers, at least one.
        activation: a name, an `Activation`, or a function applied entry by entry.
        weight_variance: σ_w², positive; 2 keeps the norm of a ReLU network's layers.
        bias_variance: σ_b², not negative. Where it is 0, no row may be zero.
        trained: "all", "hidden" (all but the readout) or "last" (the readout, with its bias).
        fixed_layers: how many layers, from the first on, are not trained; from 0 to `depth`.
        dtype: what to compute in and return, "float64" or "float32", as in `relu_gram`.

    Example:
        >>> print(ntk(jnp.eye(2), depth=2, weight_variance=2.0).round(4))
        [[3.     0.6857]
         [0.6857 3.    ]]
    """
    check_count(depth, "depth", most=MOST_LAYERS)
    check_positive(weight_variance, "weight_variance")
    check_name(trained, _TRAINED, "trained")
    check_count(fixed_layers, "fixed_layers", least=0, most=depth)
    if bias_variance != 0:
        check_positive(bias_variance, "bias_variance")
    biased = bool(bias_variance > 0)
    x1, x2, dtype = check_pair(x1, x2, dtype, allow_zero_rows=biased)
    dual = dual_of(activation)
    if trained != "last" and not getattr(dual, "has_slope", True):
        raise ValueError(
            "`activation` must have a slope of finite mean square unless trained='last', got one "
            f"that jumps, and trained={trained!r}: its tangent kernel is infinite on the diagonal. "
            "Use `nngp`, which trains the readout alone."
        )
    spread = math.sqrt(weight_variance / x1.shape[1]), math.sqrt(weight_variance)
    scales = np.array([*spread, math.sqrt(bias_variance)])
    rows = partial(_sides, dual, biased, scales, np.arange(depth) >= fixed_layers)
    return at_precision(partial(angular_matrix, _Mlp(dual, trained), rows), x1, x2, dtype)


@entry
def nngp(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    depth: int = 1,
    activation: ActivationLike = "relu",
    weight_variance: int | float = 2.0,
    bias_variance: int | float = 0.0,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The covariance of the outputs of a network of infinite width, also its conjugate kernel.

    $$\Sigma^{L+1} = E[z^{L+1}(x)\, z^{L+1}(x')]
    = \sigma_w^2 E[\phi(z^L(x))\,\phi(z^L(x'))] + \sigma_b^2$$

    in the notation of `ntk`, whose kernel with only the last layer trained this is: what a Gaussian
    process, or regression on random features, uses. The readout's variances are included.
    Arguments are as for `ntk`.

    Source: RN-17 (conjugate kernels) and RN-8 ("last"), arXiv:1905.10337.

    Example:
        >>> print(nngp(jnp.eye(2), weight_variance=2.0).round(4))
        [[1.     0.3183]
         [0.3183 1.    ]]
    """
    return ntk(
        x1,
        x2,
        depth=depth,
        activation=activation,
        weight_variance=weight_variance,
        bias_variance=bias_variance,
        trained="last",
        dtype=dtype,
    )


class _Parts(NamedTuple):
    """The parts of a standard deviation that the weights and the bias make."""

    weights: Float[Array, "*rows"]
    bias: Float[Array, "*rows"]  # weights^2 + bias^2 = 1


class _Layer(NamedTuple):
    """Per-sample standard deviation of one layer's outputs."""

    s: Float[Array, "*rows"]
    parts: _Parts | None  # None without biases
    moments: RowMoments | None  # of the activation there; None at the readout
    moves: Float[Array, "*rows"]  # 1 where the layer is trained, 0 where it is fixed


class _Rows(NamedTuple):
    hidden: tuple[_Layer, ...]  # runs of layers whose numbers have one shape, on a new first axis
    readout: _Layer
    gain: Float[Array, "*rows"]  # sigma_w


class _Correlation(NamedTuple):
    cos: Float[Array, "*shape"]
    gap: Float[Array, "*shape"]


@dataclass(frozen=True)
class _Mlp:
    dual: Dual
    trained: str

    def pairs(
        self, cos: Float[Array, "*shape"], gap: Float[Array, "*shape"], rows1: _Rows, rows2: _Rows
    ) -> Float[Array, "*shape"]:
        gain = rows1.gain * rows2.gain

        def step(carry: tuple[_Correlation, Array], layers: tuple[_Layer, _Layer]):
            (here, theta), (l1, l2) = carry, layers
            assert l1.moments is not None
            assert l2.moments is not None
            here = _add_bias(here, l1.parts, l2.parts)
            # Products of the two rows' numbers come first: they commute to the last bit.
            theta = (l1.moves * l1.s * l2.s) * here.cos + theta
            moments: PairMoments = self.dual.pairs(
                *here, Row(l1.s, l1.moments), Row(l2.s, l2.moments)
            )
            return (_Correlation(moments.cos, moments.gap), gain * moments.slope * theta), None

        carry = _Correlation(cos, gap), jnp.zeros_like(cos)
        for layers in zip(rows1.hidden, rows2.hidden, strict=True):
            carry, _ = jax.lax.scan(step, carry, layers, unroll=self._is_unrolled(layers[0]))
        here, backward = carry
        here = _add_bias(here, rows1.readout.parts, rows2.readout.parts)
        covariance = (rows1.readout.s * rows2.readout.s) * here.cos
        return self._chosen(covariance, backward)

    def diagonal(self, rows: _Rows) -> Float[Array, " n"]:
        def step(theta: Float[Array, " n"], layer: _Layer):
            assert layer.moments is not None
            own = layer.moves * layer.s**2
            return rows.gain**2 * layer.moments.slope_square * (own + theta), None

        backward = jnp.zeros_like(rows.gain)
        for layers in rows.hidden:
            backward, _ = jax.lax.scan(step, backward, layers)
        return self._chosen(rows.readout.s**2, backward)

    def _chosen(self, covariance: Float[Array, "*shape"], backward: Float[Array, "*shape"]):
        both = covariance + backward
        return {"all": both, "hidden": backward, "last": covariance}[self.trained]

    def _is_unrolled(self, layers: _Layer) -> bool:
        # A series is a loop itself, with which nothing is fused. A loop over several layers at a
        # time would evaluate them once for each of the three arrays that it hands on.
        return not isinstance(self.dual, SeriesDual) and len(layers.s) <= _MOST_UNROLLED


def _sides(
    dual: Dual,
    biased: bool,
    scales: Float[np.ndarray, " 3"],
    moving: Bool[np.ndarray, " L"],
    norms: list[Float[Array, "_"]],
) -> list[_Rows]:
    """The numbers of each side's rows, with as many terms of a series on both."""
    scales, moves = (values.astype(norms[0].dtype) for values in (scales, moving))
    # The zero is unknown where a program is being traced.
    if isinstance(dual, SeriesDual) and all(is_known(v) for v in (*norms, jnp.zeros(()))):
        sides = _series_sides(dual, biased, scales, moves, norms)
    else:
        sides = [_recursion(dual, biased, scales, moves, norm) for norm in norms]
    for side, name in zip(sides, ("x1", "x2"), strict=False):
        _check_range(side.readout.s, name)
    return sides


def _series_sides(
    dual: SeriesDual,
    biased: bool,
    scales: Float[np.ndarray, " 3"],
    moves: Float[np.ndarray, " L"],
    norms: list[Float[Array, "_"]],
) -> list[_Rows]:
    """Layer by layer, each with as many terms as its rows ask for: one program serves them all."""
    longest, kept, most, found = dual.longest(), [], 0.0, []
    for l in range(len(moves)):
        found = [_series_layer(longest, biased, scales, moves[l : l + 1], norm) for norm in norms]
        shares = np.max([np.asarray(side.shares) for side in found], axis=0)
        degree, most = enough_terms(shares), max(most, float(shares[-1]))
        layers = [side.rows.hidden[0] for side in found]
        if degree < longest.degree:  # and the longest series go, which take the most memory
            layers = [_shortened(layer, degree) for layer in layers]
        kept.append((degree, layers))
        norms, scales = [side.rms for side in found], scales[[1, 1, 2]]  # no longer over sqrt(d)
    warn_of_tail(most)
    runs = [[layers for _, layers in run] for _, run in itertools.groupby(kept, itemgetter(0))]
    return [
        side.rows._replace(hidden=tuple(_joined([layers[k] for layers in run]) for run in runs))
        for k, side in enumerate(found)
    ]


class _SeriesLayer(NamedTuple):
    rows: _Rows  # as if the network ended there
    rms: Float[Array, " n"]  # of the outputs, the norms of the next layer's inputs
    shares: Float[Array, " k"]


@jit_untuned
def _series_layer(
    dual: SeriesDual,
    biased: bool,
    scales: Float[Array | np.ndarray, " 3"],
    moves: Float[Array | np.ndarray, " 1"],
    norm: Float[Array, " n"],
) -> _SeriesLayer:
    rows = _recursion(dual, biased, scales, moves, norm)
    moments = jax.tree.map(lambda value: value[0], rows.hidden[0].moments)
    return _SeriesLayer(rows, moments.rms, shares_left(moments))


@jit_untuned
def _shortened(layer: _Layer, degree: int) -> _Layer:
    moments = layer.moments
    assert moments is not None
    features = tuple(shortened(values, degree) for values in moments.features)
    return layer._replace(moments=moments._replace(features=features))


def _joined(layers: list[_Layer]) -> _Layer:
    """The layers on one axis."""
    while len(layers) > 1:
        layers = [
            _concatenated(layers[k : k + _MOST_JOINED]) for k in range(0, len(layers), _MOST_JOINED)
        ]
    return layers[0]


@jit_untuned
def _concatenated(layers: list[_Layer]) -> _Layer:
    return jax.tree.map(lambda *values: jnp.concatenate(values), *layers)


@jit_untuned
def _recursion(
    dual: Dual,
    biased: bool,
    scales: Float[Array | np.ndarray, " 3"],
    moves: Float[Array | np.ndarray, " L"],
    norm: Float[Array, " n"],
) -> _Rows:
    """The recursion of each row with itself; `scales` are those of the first layer, weights, bias.

    All of it is one program: operations of `jax.numpy` by themselves would each be compiled.
    """
    first, gain, bias = scales

    def step(weights: Float[Array, " n"], moves: Float[Array, ""]):
        layer = _layer(weights, bias, dual, moves, biased)
        assert layer.moments is not None
        return layer.moments.rms * gain, layer

    weights, layers = jax.lax.scan(step, norm * first, jnp.asarray(moves))
    readout = _layer(weights, bias, None, jnp.ones_like(gain), biased)
    return _Rows((layers,), readout, jnp.full_like(norm, gain))


def _layer(
    weights: Float[Array, " n"],
    bias: Float[Array, ""],
    dual: Dual | None,
    moves: Float[Array, ""],
    biased: bool,
) -> _Layer:
    """A layer from the part of the standard deviation that its weights make."""
    s, parts = weights, None
    if biased:
        s = jnp.hypot(weights, jnp.full_like(weights, bias))
        safe = jnp.where(s > 0, s, 1)
        parts = _Parts(weights / safe, bias / safe)
    moments = None if dual is None else dual.rows(s)
    return _Layer(s, parts, moments, jnp.broadcast_to(moves, s.shape))


def _add_bias(here: _Correlation, p1: _Parts | None, p2: _Parts | None) -> _Correlation:
    """The correlation after the weights and an independent bias, which two rows share."""
    if p1 is None or p2 is None:
        return here
    weights, bias = p1.weights * p2.weights, p1.bias * p2.bias
    one_minus = jnp.where(here.cos < 0, 2 - here.gap, here.gap)
    # 1 -+ (weights cos + bias), from what is small in it: the squares of each row add up to 1.
    apart = (p1.weights - p2.weights) ** 2
    minus = (apart + (p1.bias - p2.bias) ** 2) / 2 + weights * one_minus
    plus = (apart + (p1.bias + p2.bias) ** 2) / 2 + weights * (2 - one_minus)
    return _Correlation(weights * here.cos + bias, jnp.minimum(minus, plus))


def _check_range(s: Float[Array, " n"], name: str) -> None:
    """Raise if the outputs of a row have left the range of the dtype."""
    if not is_known(s):
        return
    rows = np.flatnonzero(~np.isfinite(np.asarray(s) ** 2))
    if rows.size:
        raise ValueError(
            f"`{name}` must keep every layer's outputs within the range of {s.dtype}, "
            f"got an infinite kernel in {some_rows(rows)}. Scale the inputs or the variances down."
        )
