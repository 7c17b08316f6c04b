# SPDX-License-Identifier: Apache-2.0
"""The three-layer residual learner, whose output weights are used twice."""

from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.activations import Activation
from unlazy.core.checks import check_count, check_key, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.core.random_draws import draw_normal
from unlazy.nets.checking import LearnerParams, as_activation, check_owner, check_rows
from unlazy.nets.three_layer import HiddenLayers

Form = Literal["bottleneck", "general"]
Init = Literal["theory", "experiment", "fan-in"]


class ResNet3Params(LearnerParams):
    """Weights of both hidden layers, one neuron per row, their biases, and the output weights."""

    W: Float[Array, "m d"]
    b1: Float[Array, " m"]
    V: Float[Array, "m q"]  # q = k in the bottleneck form; q = m in the general one, its U
    b2: Float[Array, " m"]
    A: Float[Array, "k m"]
    # Whether A is also within the hidden layers: then "last" is no part of the parameters, and
    # `partition` refuses.
    last_is_shared: bool = eqx.field(static=True, default=True)

    _last = "A"
    _weights = ("W", "V")


class ResNet3(eqx.Module):
    r"""A residual network with two hidden layers of one width and k outputs.

    $$h_1 = \sigma(W x + b_1), \qquad h_2 = \sigma(U h_1 + b_2), \qquad
    \mathrm{out}(x) = A (h_1 + h_2)$$

    The "bottleneck" form has $U = V A$ with $V$ of shape (m, k): with $\mathrm{out}_1 = A h_1$ it
    is $\mathrm{out}_1 + A \sigma(V \mathrm{out}_1 + b_2)$, at a cost of m(d + 3k) instead of
    m(d + m + k) per sample, and the same A is used twice. The "general" form has a free $U$.

    Initialisations, all entries independent and Gaussian, biases like the weights of their layer:

    - "theory": W of standard deviation $\sigma_w$, V (or U) of $\sigma_v / \sqrt m$, A of
      $1/\sqrt m$. The theorem asks for $\sigma_w \in [m^{-1/2+0.01}, m^{-0.01}]$ and $\sigma_v$
      between a polylogarithm of m and $m^{3/8-0.01}$, and does not train A. It is for ReLU.
      `sigma_w` None stands for $m^{-1/4}$.
    - "experiment": every standard deviation is $1/\sqrt m$.
    - "fan-in": $1/\sqrt{\text{inputs of the layer}}$, biases not counted.

    Train with `partition(params, "hidden")`, A fixed, or "all", where A gets the gradient of both
    uses. Training the outer A alone is a linear model, `last_layer`.

    Source: RN-3 to RN-6, arXiv:1905.10337 sections 2 and 8. The paper's N(1, 1/m) is a misprint.

    Example:
        >>> net = ResNet3(inputs=3, width=8, outputs=2)
        >>> net(net.init(key=jr.key(0)), jnp.eye(3)).shape
        (3, 2)
    """

    inputs: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    form: str = eqx.field(static=True)
    init_kind: str = eqx.field(static=True)
    sigma_w: float = eqx.field(static=True)
    sigma_v: float = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    @entry
    def __init__(
        self,
        inputs: int,
        width: int,
        outputs: int,
        form: str = "bottleneck",
        init: str = "theory",
        sigma_w: int | float | None = None,
        sigma_v: int | float = 1.0,
        activation: str | Activation = "relu",
    ):
        for name, value in (("inputs", inputs), ("width", width), ("outputs", outputs)):
            check_count(value, name)
        check_name(form, get_args(Form), "form")
        check_name(init, get_args(Init), "init")
        spread = float(width) ** -0.25 if sigma_w is None else sigma_w
        check_positive(spread, "sigma_w")
        check_positive(sigma_v, "sigma_v")
        self.inputs, self.width, self.outputs = int(inputs), int(width), int(outputs)
        self.form, self.init_kind = form, init
        self.sigma_w, self.sigma_v = float(spread), float(sigma_v)
        self.activation = as_activation(activation)

    @entry
    def init(self, *, key: PRNGKeyArray) -> ResNet3Params:
        """Draw initial parameters."""
        check_key(key)
        key_W, key_b1, key_V, key_b2, key_A = jr.split(key, 5)
        d, m, k = self.inputs, self.width, self.outputs
        std_w, std_v, std_a = self.spreads
        return ResNet3Params(
            W=draw_normal(key_W, (m, d)) * std_w,
            b1=draw_normal(key_b1, (m,)) * std_w,
            V=draw_normal(key_V, (m, self.between)) * std_v,
            b2=draw_normal(key_b2, (m,)) * std_v,
            A=draw_normal(key_A, (k, m)) * std_a,
            last_is_shared=self.form == "bottleneck",
        )

    @property
    def between(self) -> int:
        """What the second hidden layer sees: k outputs of the first, or its m neurons."""
        return self.outputs if self.form == "bottleneck" else self.width

    @property
    def spreads(self) -> tuple[float, float, float]:
        """The standard deviations of the first layer, the second, and the output weights."""
        one = self.width**-0.5
        if self.init_kind == "theory":
            return self.sigma_w, self.sigma_v * one, one
        if self.init_kind == "fan-in":
            return self.inputs**-0.5, self.between**-0.5, one
        return one, one, one

    @entry
    def __call__(self, params: ResNet3Params, x: Float[Array, "n d"]) -> Float[Array, "n k"]:
        """The outputs at the rows of `x`."""
        if self.form == "general":
            return self.features(params, x) @ params.A.T
        # A h_1 is there already, so that no sum of features is written.
        _, first_outputs, second = self._layers(params, x)
        return first_outputs + self.activation(second) @ params.A.T

    @entry
    def features(self, params: ResNet3Params, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        r"""The conjugate features $h_1 + h_2$, on which the outer A is linear."""
        first, second = self.hidden(params, x)
        return self.activation(first) + self.activation(second)

    @entry
    def hidden(self, params: ResNet3Params, x: Float[Array, "n d"]) -> HiddenLayers:
        """The inputs to the neurons of both hidden layers, with their biases."""
        first, _, second = self._layers(params, x)
        return HiddenLayers(first, second)

    @entry
    def first_outputs(self, params: ResNet3Params, x: Float[Array, "n d"]) -> Float[Array, "n k"]:
        r"""What the first hidden layer alone gives, $\mathrm{out}_1 = A \sigma(W x + b_1)$."""
        return self.activation(self.hidden(params, x).first) @ params.A.T

    @entry
    def last_layer(self, params: ResNet3Params) -> "ResNet3LastLayer":
        """The linear model that trains the outer `A` alone; start it at `params.A`.

        Example:
            >>> net = ResNet3(inputs=3, width=8, outputs=2)
            >>> params, x = net.init(key=jr.key(0)), jnp.eye(3)
            >>> f = net.last_layer(params)
            >>> bool(jnp.allclose(f(params.A, x), net(params, x)))
            True
        """
        return ResNet3LastLayer(self, params)

    @entry
    def as_general(self, params: ResNet3Params) -> ResNet3Params:
        """The parameters of the general form with the same outputs, `U = V A`.

        Raises:
            ValueError: the network is of the general form already.
        """
        self._check(params)
        if self.form != "bottleneck":
            raise ValueError(f"`form` must be 'bottleneck', got form={self.form!r}.")
        U = jnp.matmul(params.V, params.A, precision=jax.lax.Precision.HIGHEST)
        W, b1, b2, A = params.W, params.b1, params.b2, params.A
        return ResNet3Params(W=W, b1=b1, V=U, b2=b2, A=A, last_is_shared=False)

    def _layers(self, params: ResNet3Params, x: Array) -> tuple[Array, Array, Array]:
        """The inputs to the first layer's neurons, what the second layer sees, and its inputs."""
        check_rows(x, self.inputs)
        self._check(params)
        first = jnp.asarray(x) @ params.W.T + params.b1[None, :]
        seen = self.activation(first)
        seen = seen @ params.A.T if params.last_is_shared else seen
        return first, seen, seen @ params.V.T + params.b2[None, :]

    def _check(self, params: ResNet3Params) -> None:
        d, m, k = self.inputs, self.width, self.outputs
        # Biases too: one of another width would be broadcast where it has one entry.
        shapes = {"W": (m, d), "b1": (m,), "V": (m, self.between), "b2": (m,), "A": (k, m)}
        check_owner(params, shapes)
        if params.last_is_shared != (self.form == "bottleneck"):  # the shapes agree if k = m
            raise ValueError(
                f"`params` must be of this network, of form {self.form!r}, "
                f"got last_is_shared={params.last_is_shared}."
            )


class ResNet3LastLayer(eqx.Module):
    r"""The conjugate model of a `ResNet3`: linear in the outer A, all else at its start.

    $$f(A', x) = A' \big( h_1(x) + \sigma(V_0 A_0 h_1(x) + b_2) \big)$$

    The inner $A_0$ stays, else the model would not be linear. Made by `ResNet3.last_layer`.

    Source: RN-8, arXiv:1905.10337 section 8.
    """

    net: ResNet3
    params: ResNet3Params

    @property
    def start(self) -> Float[Array, "k m"]:
        """The output weights of the network it was made of."""
        return self.params.A

    @entry
    def __call__(self, A: Float[Array, "k m"], x: Float[Array, "n d"]) -> Float[Array, "n k"]:
        """The outputs at the rows of `x`, with output weights `A`."""
        return self.net.features(self.params, x) @ A.T
