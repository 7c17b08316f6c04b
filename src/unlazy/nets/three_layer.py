# SPDX-License-Identifier: Apache-2.0
"""The three-layer learner, with biases on both hidden layers."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.activations import Activation
from unlazy.core.checks import check_count, check_key, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.random_draws import draw_normal
from unlazy.nets.biased_two_layer import INITS, hidden_std, output_std
from unlazy.nets.checking import LearnerParams, as_activation, check_owner, check_rows


class ThreeLayerParams(LearnerParams):
    """Weights of both hidden layers, one neuron per row, their biases, and the output weights."""

    W: Float[Array, "m1 d"]
    b1: Float[Array, " m1"]
    V: Float[Array, "m2 m1"]
    b2: Float[Array, " m2"]
    a: Float[Array, "*c m2"]

    _weights = ("W", "V")


class HiddenLayers(NamedTuple):
    """The inputs to the neurons of both hidden layers, with their biases."""

    first: Float[Array, "n m1"]
    second: Float[Array, "n m2"]


class ThreeLayer(eqx.Module):
    r"""A network with two hidden layers, biases on them and k outputs.

    $$f_r(x) = \lambda \sum_{i=1}^{m_2} a_{r,i}\, \sigma\Big( \sum_{j=1}^{m_1} v_{i,j}\,
    \sigma(w_j^\top x + b_{1,j}) + b_{2,i} \Big)$$

    Initialisations, the first two with $W, b_1 \sim N(0, 1/m_1)$ and $V, b_2 \sim N(0, 1/m_2)$:

    - "learner": $a \sim N(0, s^2)$ with $s$ the `init_scale`, 1 in the paper.
    - "experiment": $a \sim N(0, s^2/m_2)$, that of the experiments on residual networks.
    - "fan-in": $W, b_1 \sim N(0, 1/d)$, $V, b_2 \sim N(0, 1/m_1)$, $a \sim N(0, s^2/m_2)$.

    The papers train `W` and `V` alone (`partition(params, "weights")`) or with their biases
    ("hidden").

    `widths` are $(m_1, m_2)$, or one number for both. With `outputs` k the outputs have shape
    (n, k), with None (n,). `multiplier` is $\lambda$; with biases it is not the same as scaling `W`
    and `V`.

    Source: LG-2, arXiv:1811.04918 section 4, and RN-6, RN-7, arXiv:1905.10337.

    Example:
        >>> net = ThreeLayer(inputs=3, widths=(8, 5))
        >>> net(net.init(key=jr.key(0)), jnp.eye(3)).shape
        (3,)
    """

    inputs: int = eqx.field(static=True)
    widths: tuple[int, int] = eqx.field(static=True)
    outputs: int | None = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    init_kind: str = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)
    multiplier: float = eqx.field(static=True)

    @entry
    def __init__(
        self,
        inputs: int,
        widths: int | tuple[int, int] | list[int],
        outputs: int | None = None,
        activation: str | Activation = "relu",
        init: str = "learner",
        init_scale: int | float = 1.0,
        multiplier: int | float = 1.0,
    ):
        check_count(inputs, "inputs")
        if outputs is not None:
            check_count(outputs, "outputs")
        check_name(init, INITS, "init")
        check_positive(init_scale, "init_scale")
        check_positive(multiplier, "multiplier")
        self.inputs, self.widths = int(inputs), _as_widths(widths)
        self.outputs = None if outputs is None else int(outputs)
        self.activation = as_activation(activation)
        self.init_kind, self.init_scale = init, float(init_scale)
        self.multiplier = float(multiplier)

    @entry
    def init(self, *, key: PRNGKeyArray) -> ThreeLayerParams:
        """Draw initial parameters."""
        check_key(key)
        key_W, key_b1, key_V, key_b2, key_a = jr.split(key, 5)
        m1, m2 = self.widths
        first = hidden_std(self.init_kind, self.inputs, m1)
        second = hidden_std(self.init_kind, m1, m2)
        return ThreeLayerParams(
            W=draw_normal(key_W, (m1, self.inputs)) * first,
            b1=draw_normal(key_b1, (m1,)) * first,
            V=draw_normal(key_V, (m2, m1)) * second,
            b2=draw_normal(key_b2, (m2,)) * second,
            a=draw_normal(key_a, self.output_shape)
            * output_std(self.init_kind, self.init_scale, m2),
        )

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output weights, (m2,) or (k, m2)."""
        last = self.widths[1]
        return (last,) if self.outputs is None else (self.outputs, last)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array of the parameters."""
        m1, m2 = self.widths
        hidden = {"W": (m1, self.inputs), "b1": (m1,), "V": (m2, m1), "b2": (m2,)}
        return hidden | {"a": self.output_shape}

    @entry
    def __call__(self, params: ThreeLayerParams, x: Float[Array, "n d"]) -> Float[Array, "n *c"]:
        """The outputs at the rows of `x`."""
        outputs = self.activation(self.hidden(params, x).second) @ params.a.T
        return outputs if self.multiplier == 1 else self.multiplier * outputs

    @entry
    def hidden(self, params: ThreeLayerParams, x: Float[Array, "n d"]) -> HiddenLayers:
        """The inputs to the neurons of both hidden layers."""
        check_rows(x, self.inputs)
        check_owner(params, self.shapes)
        first = jnp.asarray(x) @ params.W.T + params.b1[None, :]
        return HiddenLayers(first, self.activation(first) @ params.V.T + params.b2[None, :])


def _as_widths(widths: int | tuple[int, int] | list[int]) -> tuple[int, int]:
    pair = widths if isinstance(widths, tuple | list) else (widths, widths)
    if len(pair) != 2:
        raise ValueError(f"`widths` must be one number or two, got widths={widths}.")
    for width in pair:
        check_count(width, "widths")
    return int(pair[0]), int(pair[1])
