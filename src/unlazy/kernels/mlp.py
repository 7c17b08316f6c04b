# SPDX-License-Identifier: Apache-2.0
"""Kernels of fully connected networks of infinite width."""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_name, check_positive, is_known, some_rows
from unlazy.core.entries import entry
from unlazy.kernels.blocks import angular_matrix, check_pair
from unlazy.kernels.differentiation import at_precision
from unlazy.kernels.dual import ActivationLike, dual_of
from unlazy.kernels.moments import Dual, PairMoments, Row, RowMoments

_TRAINED = ("all", "hidden", "last")
MOST_LAYERS = 1000
"""Each is traced by itself, and 2^depth, which scales the normalised kernels, is a float."""


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
    $(\sigma_w^4 / d)$ times `relu_gram`.

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

    Source: AR-6 at depth 1, RN-17 at depths 1 and 2; the recursion is arXiv:1806.07572's, in whose
    notation our σ_w² multiplies the weights' variance.

    Args:
        x1: one input per row.
        x2: other inputs, for the cross kernel; None means `x1`.
        depth: hidden layers, at least one.
        activation: a name, an `Activation`, or a function applied entry by entry.
        weight_variance: σ_w², positive; 2 keeps the norm of a ReLU network's layers.
        bias_variance: σ_b², not negative. Where it is 0, no row may be zero.
        trained: "all", "hidden" (all but the readout) or "last" (the readout, with its bias).
        dtype: what to compute in and return, "float64" or "float32", as in `relu_gram`.

    Example:
        >>> print(ntk(jnp.eye(2), depth=2, weight_variance=2.0).round(4))
        [[3.     0.6857]
         [0.6857 3.    ]]
    """
    check_count(depth, "depth", most=MOST_LAYERS)
    check_positive(weight_variance, "weight_variance")
    check_name(trained, _TRAINED, "trained")
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
    kernel = _Mlp(dual, depth, trained, biased)
    spread = math.sqrt(weight_variance / x1.shape[1]), math.sqrt(weight_variance)
    n1 = x1.shape[0]

    def rows(norm: Float[Array, " n"]) -> _Rows:
        rows = kernel.rows(norm, *spread, math.sqrt(bias_variance))
        _check_range(rows.layers[-1].s, n1)
        return rows

    return at_precision(partial(angular_matrix, kernel, rows), x1, x2, dtype)


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


class _Layer(NamedTuple):
    """Per-sample standard deviation of one layer's outputs, split into weights and bias."""

    s: Float[Array, "*rows"]
    weights: Float[Array, "*rows"]  # the part of s due to the weights: weights^2 + bias^2 = 1
    bias: Float[Array, "*rows"]
    moments: RowMoments | None  # of the activation there; None at the readout


class _Rows(NamedTuple):
    layers: tuple[_Layer, ...]  # depth + 1 of them
    gain: Float[Array, "*rows"]  # sigma_w


class _Correlation(NamedTuple):
    cos: Float[Array, "*shape"]
    gap: Float[Array, "*shape"]


@dataclass(frozen=True)
class _Mlp:
    dual: Dual
    depth: int
    trained: str
    biased: bool

    def rows(self, norm: Float[Array, " n"], first: float, gain: float, bias: float) -> _Rows:
        """The recursion of each row with itself."""
        layers, weights = [], norm * first
        for l in range(self.depth + 1):
            s = jnp.hypot(weights, jnp.full_like(weights, bias)) if self.biased else weights
            safe = jnp.where(s > 0, s, 1)
            moments = self.dual.rows(s) if l < self.depth else None
            layers.append(_Layer(s, weights / safe, bias / safe, moments))
            if moments is not None:
                weights = moments.rms * gain
        return _Rows(tuple(layers), jnp.full_like(norm, gain))

    def pairs(
        self, cos: Float[Array, "*shape"], gap: Float[Array, "*shape"], rows1: _Rows, rows2: _Rows
    ) -> Float[Array, "*shape"]:
        # Products of the two rows' numbers come first: they commute to the last bit.
        here, theta, gain = _Correlation(cos, gap), jnp.zeros_like(cos), rows1.gain * rows2.gain
        covariance = backward = theta
        for l1, l2 in zip(rows1.layers, rows2.layers, strict=True):
            here = _add_bias(here, l1, l2) if self.biased else here
            covariance, backward = (l1.s * l2.s) * here.cos, theta
            theta = covariance + backward
            if l1.moments is not None and l2.moments is not None:
                moments: PairMoments = self.dual.pairs(
                    *here, Row(l1.s, l1.moments), Row(l2.s, l2.moments)
                )
                theta = gain * moments.slope * theta
                here = _Correlation(moments.cos, moments.gap)
        return {"all": theta, "hidden": backward, "last": covariance}[self.trained]

    def diagonal(self, rows: _Rows) -> Float[Array, " n"]:
        theta = covariance = backward = jnp.zeros_like(rows.gain)
        for layer in rows.layers:
            covariance, backward = layer.s**2, theta
            theta = covariance + backward
            if layer.moments is not None:
                theta = rows.gain**2 * layer.moments.slope_square * theta
        return {"all": theta, "hidden": backward, "last": covariance}[self.trained]


def _add_bias(here: _Correlation, l1: _Layer, l2: _Layer) -> _Correlation:
    """The correlation after the weights and an independent bias, which two rows share."""
    weights, bias = l1.weights * l2.weights, l1.bias * l2.bias
    one_minus = jnp.where(here.cos < 0, 2 - here.gap, here.gap)
    # 1 -+ (weights cos + bias), from what is small in it: the squares of each row add up to 1.
    apart = (l1.weights - l2.weights) ** 2
    minus = (apart + (l1.bias - l2.bias) ** 2) / 2 + weights * one_minus
    plus = (apart + (l1.bias + l2.bias) ** 2) / 2 + weights * (2 - one_minus)
    return _Correlation(weights * here.cos + bias, jnp.minimum(minus, plus))


def _check_range(s: Float[Array, " n"], n1: int) -> None:
    """Raise if the outputs of a row have left the range of the dtype; `x2` follows `x1`."""
    if not is_known(s):
        return
    rows = np.flatnonzero(~np.isfinite(np.asarray(s) ** 2))
    if rows.size:
        name, rows = ("x1", rows[rows < n1]) if rows[0] < n1 else ("x2", rows - n1)
        raise ValueError(
            f"`{name}` must keep every layer's outputs within the range of {s.dtype}, "
            f"got an infinite kernel in {some_rows(rows)}. Scale the inputs or the variances down."
        )
