# SPDX-License-Identifier: Apache-2.0
"""Outputs of a network whose neurons move with random signs: at given signs, and on average."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_real, is_known
from unlazy.core.entries import entry
from unlazy.escape.signs import Where, flip, random_signs, units
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.checking import check_owner, check_rows
from unlazy.nets.expansion import coefficients, quadratic_term
from unlazy.taylor.movement import matched

Model = Callable[[Any, Any], Array]
Inputs = Float[Array | np.ndarray, "n ..."]
_AT_ONCE = 8  # sign draws evaluated together


@entry
def signed_output(
    net: Model,
    params: Any,
    delta: Any,
    x: Inputs,
    signs: Float[Array | np.ndarray, "*n m"],
    *,
    where: Where | None = None,
) -> Float[Array, "n *c"]:
    r"""The outputs after the movement of each neuron is multiplied by its sign.

    $$f_{W_0 + sW}(x)$$

    Source: BL-15 (i) and BL-7, arXiv:1910.01619 section 3.

    Args:
        net: a model `f(params, x)`; a `TwoLayer` is evaluated in closed form, where further signs
            cost no further product with the weights.
        params: the origin.
        delta: the displacement: of the structure of `params`, with None at leaves that stay put;
            or, for a `TwoLayer`, just the array that moves `W`.
        x: inputs, one per row.
        signs: one per neuron; or one row of them per input.
        where: from `delta` to its hidden arrays; see `flip`.

    Example:
        >>> net = TwoLayer(inputs=2, width=2, activation="quadratic", init="symmetric")
        >>> params = net.init(key=jr.key(0))
        >>> print(signed_output(net, params, params.W, jnp.eye(2), -jnp.ones(2)))
        [0. 0.]
    """
    return evaluator(net, params, delta, x, where)(jnp.asarray(signs))


@entry
def mean_output(
    net: Model,
    params: Any,
    delta: Any,
    x: Inputs,
    *,
    draws: int = 64,
    antithetic: bool = True,
    where: Where | None = None,
    key: PRNGKeyArray,
) -> Float[Array, "n *c"]:
    r"""The outputs averaged over random signs.

    $$\frac1T \sum_{t=1}^T f_{W_0 + s^{(t)}W}(x)$$

    With antithetic draws each $s^{(t)}$ comes with its negative, which cancels the linear Taylor
    term, and every other odd one, exactly.

    Source: BL-15 (ii), arXiv:1910.01619 section 3.

    The number of `draws` counts pairs where they are antithetic; other arguments are those of
    `signed_output`.

    Example:
        >>> net = TwoLayer(inputs=2, width=2, activation="quadratic", init="symmetric")
        >>> params = net.init(key=jr.key(0))
        >>> print(mean_output(net, params, params.W, jnp.eye(2), draws=1, key=jr.key(1)))
        [0. 0.]
    """
    check_count(draws, "draws")
    check_key(key)
    outputs = evaluator(net, params, delta, x, where)
    width = units(delta, where)

    def one(key: PRNGKeyArray) -> Array:
        signs = random_signs(width, key=key)
        return (outputs(signs) + outputs(-signs)) / 2 if antithetic else outputs(signs)

    return jnp.mean(jax.lax.map(one, jr.split(key, draws), batch_size=_AT_ONCE), axis=0)


@entry
def quadratic_output(
    net: TwoLayer, params: TwoLayerParams, delta: Any, x: Float[Array | np.ndarray, "n d"]
) -> Float[Array, " n"]:
    r"""The quadratic Taylor term of a two-layer network, which no signs change.

    $$f^Q_W(x) = \frac{1}{2\sqrt m} \sum_r a_r \sigma''(w_{0,r}^\top x)(w_r^\top x)^2$$

    The factor 1/2 is included. For any other model use `taylor.terms` at order 2.

    Source: BL-8 and BL-15 (iii), arXiv:1910.01619 section 3.

    Example:
        >>> net = TwoLayer(inputs=2, width=4, activation="quadratic")
        >>> params = TwoLayerParams(W=jnp.zeros((4, 2)), a=jnp.ones(4))
        >>> print(quadratic_output(net, params, jnp.ones((4, 2)), jnp.eye(2)))
        [1. 1.]
    """
    W, x = as_movement(net, delta), jnp.asarray(x)
    check_rows(x, net.inputs)
    check_owner(params, {"W": W.shape, "a": (net.width,)})
    T = coefficients(net.activation, params, x, 2, precision=None)
    return quadratic_term(T, x @ W.T, precision=None)


def evaluator(
    net: Model, params: Any, delta: Any, x: Inputs, where: Where | None
) -> Callable[[Array], Array]:
    """The outputs as a function of the signs, `(m,)` or `(n, m)`."""
    x = jnp.asarray(x)
    if isinstance(net, TwoLayer):
        return _two_layer_evaluator(net, params, delta, x)
    params, delta = matched(params, delta)

    def output(signs: Array, x: Array) -> Array:
        return net(eqx.apply_updates(params, flip(delta, signs, where=where)), x)

    def outputs(signs: Array) -> Array:
        if signs.ndim == 1:
            return output(signs, x)
        return jax.vmap(lambda s, row: output(s, row[None])[0])(signs, x)

    return outputs


def _two_layer_evaluator(
    net: TwoLayer, params: TwoLayerParams, delta: Any, x: Float[Array, "n d"]
) -> Callable[[Array], Array]:
    W = _hidden_movement(net, delta)
    Z0, Z = net.preactivations(params, x), x @ W.T
    if isinstance(delta, TwoLayerParams):
        params, delta = matched(params, delta)
        if delta.a is not None:
            params = eqx.tree_at(lambda p: p.a, params, params.a + delta.a)

    def outputs(signs: Array) -> Array:
        if signs.shape not in ((net.width,), Z.shape):
            raise ValueError(
                f"`signs` must have shape ({net.width},) or {Z.shape}, "
                f"got signs.shape={signs.shape}."
            )
        s = signs.astype(Z.dtype)
        return net.readout(params, Z0 + (s[None, :] if s.ndim == 1 else s) * Z)

    return outputs


def as_movement(net: TwoLayer, delta: Any) -> Float[Array, "m d"]:
    """The movement of the hidden layer; raise if the output weights move too."""
    a = delta.a if isinstance(delta, TwoLayerParams) else None
    if a is not None and is_known(a) and bool(np.any(np.asarray(a) != 0)):
        raise ValueError(
            "`delta` must move the hidden layer alone, got a movement of the output weights in "
            "delta.a. `taylor.terms` has the terms of both."
        )
    return _hidden_movement(net, delta)


def _hidden_movement(net: TwoLayer, delta: Any) -> Float[Array, "m d"]:
    W = delta.W if isinstance(delta, TwoLayerParams) else delta
    if W is not None:
        check_real(W, "delta")
    W = jnp.zeros((net.width, net.inputs)) if W is None else jnp.asarray(W)
    if W.shape != (net.width, net.inputs):
        raise ValueError(
            f"`delta` must move the hidden layer, of shape ({net.width}, {net.inputs}), "
            f"got delta.shape={W.shape}."
        )
    return W
