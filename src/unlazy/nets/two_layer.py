# SPDX-License-Identifier: Apache-2.0
"""The two-layer network, with the initialisations of the papers that study it."""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.activations import Activation
from unlazy.core.checks import check_count, check_key, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.random_draws import draw_normal, draw_signs
from unlazy.data.inputs import sphere
from unlazy.nets.checking import LearnerParams, as_activation, check_owner, check_rows
from unlazy.nets.two_layer_series import at_kink, hidden_series
from unlazy.special.array_series import Series, scaled, total, trimmed


class TwoLayerParams(LearnerParams):
    """First-layer weights, one neuron per row, and the output weights."""

    W: Float[Array, "m d"]
    a: Float[Array, " m"]

    @property
    def width(self) -> int:
        """The number of neurons, m."""
        return self.W.shape[0]


class TwoLayer(eqx.Module):
    r"""A network with one hidden layer and one output.

    $$f(x) = \frac{1}{\sqrt m} \sum_{r=1}^m a_r \sigma(w_r^\top x)$$

    Initialisations, with `init_scale` $\kappa$:

    - "gaussian": $w_r \sim N(0, \kappa^2 I)$, $a_r$ uniform on $\pm 1$. The initial output has
      variance $\kappa^2/2$ on unit-norm inputs.
    - "antisymmetric": the second half of the neurons copies the first half's $w_r$ and negates its
      $a_r$, so that the initial output is exactly zero. Needs an even width. Use it whenever theory
      is compared with training: a small $\kappa$ would also shrink the output, but makes the
      network leave the lazy regime.
    - "symmetric": as "antisymmetric", with $a_r = +1$ in the first half and $-1$ in the second. For
      inputs of norm $B_x$ take $\kappa = 1/B_x$, so that $w_r^\top x$ has variance 1.
    - "sphere": as "symmetric", with $w_r$ uniform on the sphere of radius $\kappa$. For inputs of
      norm $\sqrt d$ keep $\kappa = 1$: then $w_r^\top x$ has variance 1, and a sigmoid is not
      saturated.

    Source: AR-1, AR-2 and AR-2b, arXiv:1901.08584 eq. (1); BL-2 and BL-3, arXiv:1910.01619; NB-1,
    arXiv:2206.03688 section 2.

    Example:
        >>> net = TwoLayer(inputs=3, width=8, init="antisymmetric")
        >>> print(net(net.init(key=jr.key(0)), jnp.eye(3)))
        [0. 0. 0.]
    """

    inputs: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    init_kind: str = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    @entry
    def __init__(
        self,
        inputs: int,
        width: int,
        activation: str | Activation = "relu",
        init: str = "gaussian",
        init_scale: float = 1.0,
    ):
        check_count(inputs, "inputs")
        check_count(width, "width")
        if init == "learner":
            raise ValueError(
                "`init` must be one without biases, got init='learner'. "
                "Use nets.BiasedTwoLayer(inputs, width, outputs=k), which starts like that."
            )
        check_name(init, _INITS, "init")
        check_positive(init_scale, "init_scale")
        if init in _PAIRED and width % 2:
            raise ValueError(
                f"`width` must be even for init={init!r}, got width={width}. Use width={width + 1}."
            )
        self.inputs, self.width = int(inputs), int(width)
        self.activation = as_activation(activation)
        self.init_kind, self.init_scale = init, float(init_scale)

    @entry
    def init(self, *, key: PRNGKeyArray) -> TwoLayerParams:
        """Draw initial parameters."""
        check_key(key)
        return _INITS[self.init_kind](self, key)

    @entry
    def __call__(self, params: TwoLayerParams, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The outputs at the rows of `x`."""
        return self.readout(params, self.preactivations(params, x))

    @entry
    def preactivations(self, params: TwoLayerParams, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """The inputs to the hidden neurons, `x W^T`."""
        check_rows(x, self.inputs)
        check_owner(params, {"W": (self.width, self.inputs)})
        return jnp.asarray(x) @ params.W.T

    @entry
    def readout(self, params: TwoLayerParams, z: Float[Array, "n m"]) -> Float[Array, " n"]:
        """The outputs, given the inputs to the hidden neurons."""
        return self.activation(z) @ params.a / math.sqrt(self.width)

    @entry
    def taylor_series(
        self, params: TwoLayerParams, delta: TwoLayerParams, x: Float[Array, "n d"], order: int
    ) -> tuple[Series, dict[str, Array]]:
        r"""All Taylor terms at the cost of two products with `x`, for any movement of both layers.

        $$f^{(k)}(x) = \frac{1}{\sqrt m} \sum_r \Big( a_r \frac{\sigma^{(k)}(w_r^\top x)}{k!}
        (dw_r^\top x)^k + da_r \frac{\sigma^{(k-1)}(w_r^\top x)}{(k-1)!} (dw_r^\top x)^{k-1} \Big)$$

        This is the closed form that `taylor.terms` asks for. `delta` has None for what does not
        move.

        Source: BL-8, arXiv:1910.01619 section 3, where `a` does not move.

        Returns:
            The series, and by the activation's name, if that has a kink of such an order, whether
            a pre-activation that moves is exactly at it.
        """
        z0 = self.preactivations(params, x)
        z = None if delta.W is None else x @ delta.W.T
        hidden = hidden_series(self.activation, z0, z, order)
        result = []
        for k in range(order + 1):
            still = _applied(hidden[k], params.a)
            moved = _applied(hidden[k - 1], delta.a) if k else None
            result.append(scaled(1 / math.sqrt(self.width), total([still, moved])))
        tied = at_kink(self.activation, z0, z, order)
        return trimmed(result), {} if tied is None else {self.activation.name: tied}

    @entry
    def taylor_features(self, params: TwoLayerParams, order: int) -> "TaylorFeatures":
        """The features of the Taylor term of that order in the hidden weights at `params`."""
        W, squares = np.asarray(params.W, np.float64), np.asarray(params.a, np.float64) ** 2
        half = len(W) // 2
        if len(W) % 2 == 0 and np.array_equal(W[:half], W[half:]):
            W, squares = W[:half], squares[:half] + squares[half:]
        scale = 1 / (self.width * math.factorial(order) ** 2)
        return TaylorFeatures(self.activation, W, squares, scale)


class TaylorFeatures(NamedTuple):
    r"""The features $a_r \sigma^{(k)}(w_r^\top x)\, x^{\otimes k} / (\sqrt m\, k!)$, per neuron.

    Twins, as a symmetric start has them, count once.
    """

    activation: Activation
    W: Float64[np.ndarray, "q d"]
    squares: Float64[np.ndarray, " q"]  # a_r^2
    scale: float  # 1 / (m k!^2)


def _applied(h: Array | None, a: Array | None) -> Array | None:
    return None if h is None or a is None else h @ a


def _gaussian(net: TwoLayer, key: PRNGKeyArray, width: int | None = None) -> TwoLayerParams:
    key_W, key_a = jr.split(key)
    m = net.width if width is None else width
    W = net.init_scale * draw_normal(key_W, (m, net.inputs))
    return TwoLayerParams(W=W, a=draw_signs(key_a, (m,), W.dtype))


def _antisymmetric(net: TwoLayer, key: PRNGKeyArray) -> TwoLayerParams:
    half = _gaussian(net, key, net.width // 2)
    return _with_twins(half.W, half.a)


def _symmetric(net: TwoLayer, key: PRNGKeyArray) -> TwoLayerParams:
    half = _gaussian(net, key, net.width // 2)
    return _with_twins(half.W, jnp.ones_like(half.a))


def _sphere(net: TwoLayer, key: PRNGKeyArray) -> TwoLayerParams:
    W = sphere(net.width // 2, net.inputs, radius=net.init_scale, key=key)
    return _with_twins(W, jnp.ones(net.width // 2, W.dtype))


def _with_twins(W: Float[Array, "h d"], a: Float[Array, " h"]) -> TwoLayerParams:
    return TwoLayerParams(W=jnp.concatenate([W, W]), a=jnp.concatenate([a, -a]))


# The learner of LG and RN, with biases, k outputs and no 1/sqrt(m), is a network of its own,
# `BiasedTwoLayer`: every closed form for a `TwoLayer` would be silently wrong for it.
_INITS: dict[str, Callable[..., TwoLayerParams]] = {
    "gaussian": _gaussian,
    "antisymmetric": _antisymmetric,
    "symmetric": _symmetric,
    "sphere": _sphere,
}
_PAIRED = ("antisymmetric", "symmetric", "sphere")  # each neuron of the first half has a twin
