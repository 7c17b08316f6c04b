# SPDX-License-Identifier: Apache-2.0
"""The two-layer learner with biases and any number of outputs."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.activations import Activation
from unlazy.core.checks import check_count, check_key, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.random_draws import draw_normal
from unlazy.nets.checking import LearnerParams, as_activation, check_owner, check_rows


class BiasedTwoLayerParams(LearnerParams):
    """Hidden weights, one neuron per row, their biases, and output weights, one output per row."""

    W: Float[Array, "m d"]
    b: Float[Array, " m"]
    a: Float[Array, "*c m"]


class BiasedTwoLayer(eqx.Module):
    r"""A network with one hidden layer, biases on it and k outputs.

    $$f_r(x) = \sum_{i=1}^m a_{r,i}\, \sigma(w_i^\top x + b_i)$$

    There is no $1/\sqrt m$ in front, unlike in `TwoLayer`. Initialisations:

    - "learner": $W, b \sim N(0, 1/m)$ and $a \sim N(0, \varepsilon_a^2)$ with $\varepsilon_a$ the
      `init_scale`.
    - "experiment": every entry $\sim N(0, 1/m)$, times `init_scale` for $a$.
    - "fan-in": $W, b \sim N(0, 1/d)$ and $a \sim N(0, 1/m)$, that times `init_scale`.

    The papers train `W` alone (`partition(params, "weights")`) or `W` and `b` ("hidden").

    With `outputs` k the outputs have shape (n, k), with None (n,).

    Source: LG-1, arXiv:1811.04918 section 3, and RN-6, RN-7, arXiv:1905.10337.

    Example:
        >>> net = BiasedTwoLayer(inputs=3, width=8, outputs=2)
        >>> net(net.init(key=jr.key(0)), jnp.eye(3)).shape
        (3, 2)
    """

    inputs: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    outputs: int | None = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    init_kind: str = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    @entry
    def __init__(
        self,
        inputs: int,
        width: int,
        outputs: int | None = None,
        activation: str | Activation = "relu",
        init: str = "learner",
        init_scale: int | float = 1.0,
    ):
        check_count(inputs, "inputs")
        check_count(width, "width")
        if outputs is not None:
            check_count(outputs, "outputs")
        check_name(init, INITS, "init")
        check_positive(init_scale, "init_scale")
        self.inputs, self.width = int(inputs), int(width)
        self.outputs = None if outputs is None else int(outputs)
        self.activation = as_activation(activation)
        self.init_kind, self.init_scale = init, float(init_scale)

    @entry
    def init(self, *, key: PRNGKeyArray) -> BiasedTwoLayerParams:
        """Draw initial parameters."""
        check_key(key)
        key_W, key_b, key_a = jr.split(key, 3)
        m = self.width
        std = hidden_std(self.init_kind, self.inputs, m)
        return BiasedTwoLayerParams(
            W=draw_normal(key_W, (m, self.inputs)) * std,
            b=draw_normal(key_b, (m,)) * std,
            a=draw_normal(key_a, self.output_shape)
            * output_std(self.init_kind, self.init_scale, m),
        )

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output weights, (m,) or (k, m)."""
        return (self.width,) if self.outputs is None else (self.outputs, self.width)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array of the parameters."""
        return {"W": (self.width, self.inputs), "b": (self.width,), "a": self.output_shape}

    @entry
    def __call__(
        self, params: BiasedTwoLayerParams, x: Float[Array, "n d"]
    ) -> Float[Array, "n *c"]:
        """The outputs at the rows of `x`."""
        return self.activation(self.hidden(params, x)) @ params.a.T

    @entry
    def hidden(self, params: BiasedTwoLayerParams, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """The inputs to the hidden neurons, with their biases."""
        check_rows(x, self.inputs)
        check_owner(params, self.shapes)
        return jnp.asarray(x) @ params.W.T + params.b[None, :]


INITS = ("learner", "experiment", "fan-in")


def hidden_std(init: str, fan_in: int, width: int) -> float:
    """The standard deviation of the weights and biases of a hidden layer."""
    return fan_in**-0.5 if init == "fan-in" else width**-0.5


def output_std(init: str, scale: float, width: int) -> float:
    """The standard deviation of the output weights."""
    return scale if init == "learner" else scale * width**-0.5
