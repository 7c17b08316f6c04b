# SPDX-License-Identifier: Apache-2.0
"""Fact C.4: the gradients of the residual learner in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.core.entries import entry
from unlazy.nets.resnet3 import ResNet3, ResNet3Params


class ResNet3Patterns(eqx.Module):
    """The slopes of all neurons at each input, the outputs, and the residual map."""

    first: Float[Array, "n m"]  # sigma' at the first hidden layer; for ReLU its active neurons
    second: Float[Array, "n m"]
    out1: Float[Array, "n k"]  # what the first hidden layer alone gives
    out: Float[Array, "n k"]
    M: Float[Array, "n k k"]  # derivative of the outputs with respect to out1


class ResNet3Gradient(eqx.Module):
    """The gradient with respect to the hidden layers, in the shapes of their parameters."""

    W: Float[Array, "m d"]
    b1: Float[Array, " m"]
    V: Float[Array, "m k"]
    b2: Float[Array, " m"]


@entry
def resnet3_patterns(
    net: ResNet3, params: ResNet3Params, x: Float[Array, "n d"]
) -> ResNet3Patterns:
    r"""The sign patterns of both hidden layers, the outputs, and their derivative by out_1.

    $$D_W = 1[W x + b_1 \ge 0], \quad D_V = 1[V \mathrm{out}_1 + b_2 \ge 0], \quad
    M_x = I_k + A\, D_V V$$

    With them $\mathrm{out}_1 = A D_W (W x + b_1)$ and
    $\mathrm{out} = \mathrm{out}_1 + A D_V (V \mathrm{out}_1 + b_2)$. Other activations than ReLU
    have their slopes in the place of the indicators. The results have the dtype of `params`.

    Source: RN-18 and RN-26, arXiv:1905.10337 appendix C.

    Raises:
        ValueError: the network is of the general form, or `x` or `params` do not fit it.

    Example:
        >>> net = ResNet3(inputs=2, width=4, outputs=1)
        >>> resnet3_patterns(net, net.init(key=jax.random.key(0)), jnp.eye(2)).M.shape
        (2, 1, 1)
    """
    if net.form != "bottleneck":
        raise ValueError(f"`net` must be of form 'bottleneck', got net.form={net.form!r}.")
    return _patterns(net, params, jnp.asarray(x))


@eqx.filter_jit
def _patterns(net: ResNet3, params: ResNet3Params, x: Float[Array, "n d"]) -> ResNet3Patterns:
    with jax.default_matmul_precision("highest"):  # TF32 would turn signs
        z1, z2 = net.hidden(params, x)
    slope = net.activation.derivative(1)
    D1, D2 = slope(z1), slope(z2)
    h1, h2 = net.activation(z1), net.activation(z2)
    through = _product("rj,nj,js->nrs", params.A, D2, params.V)
    out1 = _product("nj,rj->nr", h1, params.A)
    out = out1 + _product("nj,rj->nr", h2, params.A)
    M = through + jnp.eye(net.outputs, dtype=through.dtype)[None]
    return ResNet3Patterns(first=D1, second=D2, out1=out1, out=out, M=M)


@entry
def resnet3_gradient(
    net: ResNet3, params: ResNet3Params, x: Float[Array, "n d"], y: Float[Array, "n k"]
) -> ResNet3Gradient:
    r"""The gradient of half the sum of squared errors, $\frac12 \sum_i \|y_i - out(x_i)\|^2$.

    $$\nabla_W = \sum_i D_W A^\top M_{x_i}^\top e_i\, (x_i, 1)^\top, \qquad
    \nabla_V = \sum_i D_V A^\top e_i\, (\mathrm{out}_1(x_i), 1)^\top, \qquad e = \mathrm{out} - y$$

    the last entries being the gradients of the biases. It is a sum, not a mean: with one row it is
    the step of the paper's SGD.

    Source: RN-27, arXiv:1905.10337 Fact C.4.

    Raises:
        ValueError: the network is of the general form, or `x`, `y` or `params` do not fit it.

    Example:
        >>> net = ResNet3(inputs=2, width=4, outputs=1)
        >>> params, x = net.init(key=jax.random.key(0)), jnp.eye(2)
        >>> resnet3_gradient(net, params, x, jnp.ones((2, 1))).W.shape
        (4, 2)
    """
    at = resnet3_patterns(net, params, x)
    if jnp.shape(y) != at.out.shape:  # one column, or one row, would be broadcast
        raise ValueError(
            f"`y` must have the shape of the network's outputs, {at.out.shape}, "
            f"got y.shape={jnp.shape(y)}."
        )
    return gradient_at(at, params.A, jnp.asarray(x), jnp.asarray(y))


@jax.jit
def gradient_at(
    at: ResNet3Patterns, A: Float[Array, "k m"], x: Float[Array, "n d"], y: Float[Array, "n k"]
) -> ResNet3Gradient:
    """`resnet3_gradient` from known patterns and outputs."""
    e = at.out - y
    back1 = at.first * _product("nr,nrs,sj->nj", e, at.M, A)
    back2 = at.second * _product("nr,rj->nj", e, A)
    return ResNet3Gradient(
        W=_product("nj,nd->jd", back1, x),
        b1=jnp.sum(back1, axis=0),
        V=_product("nj,nr->jr", back2, at.out1),
        b2=jnp.sum(back2, axis=0),
    )


def _product(formula: str, *factors: Array) -> Array:
    return jnp.einsum(formula, *factors, precision=jax.lax.Precision.HIGHEST)
