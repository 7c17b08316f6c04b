# SPDX-License-Identifier: Apache-2.0
"""Networks whose leading term is the k-th of their Taylor expansion, by matched multipliers."""

import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.activations import Activation, activation
from unlazy.core.checks import MOST_FACTORIAL, check_count, check_finite, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape.moments import Nodes, matched_moments
from unlazy.papers.shared.activation_patterns import Inputs, Weights
from unlazy.special import gaussian_rule, hermite


class ExtractionNet(eqx.Module):
    r"""A two-layer network in which copies of each neuron move by different multiples.

    $$f(x) = \frac{1}{\sqrt m} \sum_{r=1}^m \sum_i b_{ri}\,
    \sigma\big((w_{0,r} + z_{ri} w_r)^\top x\big)$$

    `net(delta, x)` has the movement $w$ as its parameters, so it is a model like any other; m
    counts the groups of copies, not the neurons. Made by `sampled` and `block`.

    Source: BL-40 and BL-44, arXiv:1910.01619 section 6.
    """

    activation: Activation = eqx.field(static=True)
    order: int = eqx.field(static=True)
    W0: Float[Array, "m d"]
    multipliers: Float[Array, "m copies"]
    weights: Float[Array, "m copies"]

    @classmethod
    @entry
    def sampled(
        cls,
        sigma: str | Activation,
        W0: Weights,
        order: int,
        *,
        nodes: Nodes = "chebyshev",
        stratified: bool = False,
        key: PRNGKeyArray,
    ) -> "ExtractionNet":
        r"""A network whose leading term is the k-th, by random multipliers; outputs weigh $\pm 1$.

        $$f(x) = \frac{1}{\sqrt m} \sum_{r=1}^m \sigma\big((w_{0,r} + z^+_r w_r)^\top x\big)
        - \sigma\big((w_{0,r} + z^-_r w_r)^\top x\big)$$

        with $z^\pm$ drawn from `matched_moments(order)`. When $\|w_r\| \sim m^{-1/2k}$, the terms
        below order k are $O(m^{-j/2k})$, the k-th is $O(1)$, and the next one $O(m^{-1/2k})$, or
        $O(m^{-(k+1)/2k})$ for symmetric nodes. At order 2 it is the sign trick.

        Those are orders: at k = 4 the first term still exceeds the fourth at m = 65536. Use `block`
        where the lower terms must be gone. With `stratified`, each value is drawn as often as its
        weight says, see `Discrete.stratified`.

        Source: BL-40 to BL-43, arXiv:1910.01619 section 6.

        Example:
            >>> net = ExtractionNet.sampled("sin", jnp.ones((4, 2)), 2, key=jr.key(0))
            >>> print(jnp.abs(net.multipliers[0]), net.weights[0])
            [1. 0.] [ 1. -1.]
        """
        check_key(key)
        W0, sigma = _checked(sigma, W0, order)
        laws, m = matched_moments(order, nodes), W0.shape[0]
        keys = jr.split(key)
        draws = [
            law.stratified(m, key=k) if stratified else law.sample((m,), key=k)
            for law, k in zip(laws, keys, strict=True)
        ]
        multipliers = jnp.stack(draws, axis=1).astype(W0.dtype)
        weights = jnp.broadcast_to(jnp.array([1.0, -1.0], W0.dtype), (m, 2))
        return cls(sigma, order, W0, multipliers, weights)

    @classmethod
    @entry
    def block(
        cls, sigma: str | Activation, W0: Weights, order: int, *, nodes: Nodes = "chebyshev"
    ) -> "ExtractionNet":
        r"""A network whose leading term is the k-th, without randomness: a copy at each multiple.

        $$f(x) = \frac{1}{\sqrt m} \sum_{r=1}^m \sum_{i=0}^k p_i\,
        \sigma\big((w_{0,r} + z_i w_r)^\top x\big)$$

        over the values $z_i$ of `matched_moments`, with $p_i$ the probability, negative for those
        of $z_-$. The terms of order 0 to k - 1 vanish identically, and those beyond the k-th are
        together $O(m^{-1/k})$ for symmetric nodes. The output weights are not $\pm 1$.

        Source: BL-44, beyond arXiv:1910.01619 section 6.

        Example:
            >>> net = ExtractionNet.block("sin", jnp.ones((4, 2)), 2)
            >>> print(net.multipliers[0], net.weights[0])
            [ 1. -1.  0.] [ 0.5  0.5 -1. ]
        """
        W0, sigma = _checked(sigma, W0, order)
        plus, minus = matched_moments(order, nodes)
        values = np.concatenate([plus.support, minus.support])
        weights = np.concatenate([plus.weights, -minus.weights])
        shape = (W0.shape[0], len(values))
        rows = [jnp.broadcast_to(jnp.asarray(v, W0.dtype), shape) for v in (values, weights)]
        return cls(sigma, order, W0, *rows)

    @entry
    def __call__(self, delta: Weights, x: Inputs) -> Float[Array, " n"]:
        """The outputs at the rows of `x`, after the movement `delta`."""
        Z0, Z = self._preactivations(delta, x)
        total = jnp.zeros_like(Z0)
        # Copies are added up before neurons: they nearly cancel. One at a time, for memory.
        for z, b in zip(self.multipliers.T, self.weights.T, strict=True):
            total = total + b[None, :] * self.activation(Z0 + z[None, :] * Z)
        return jnp.sum(total, axis=1) / math.sqrt(self.W0.shape[0])

    @entry
    def term(self, delta: Weights, x: Inputs, order: int) -> Float[Array, " n"]:
        r"""The Taylor term of that order in the movement, in closed form.

        $$f^{(j)}(x) = \frac{1}{\sqrt m} \sum_r \Big(\sum_i b_{ri} z_{ri}^j\Big)
        \frac{\sigma^{(j)}(w_{0,r}^\top x)}{j!} (w_r^\top x)^j$$

        Source: BL-8 and BL-43, arXiv:1910.01619 section 6.
        """
        check_count(order, "order", least=0)
        Z0, Z = self._preactivations(delta, x)
        gap = jnp.sum(self.weights * self.multipliers**order, axis=1)
        values = self.activation.derivative(order)(Z0) / math.factorial(order) * Z**order
        return jnp.sum(gap[None, :] * values, axis=1) / math.sqrt(self.W0.shape[0])

    @entry
    def power(
        self, beta: Float[Array | np.ndarray, " d"], degree: int, *, radius: int | float = 1.0
    ) -> "PowerExtraction":
        r"""The movement whose k-th order term tends to a power of a linear function with the width.

        $$f^{(k)}(x) \to (\beta^\top x)^{k+q}, \qquad w_r = m^{-1/2k} |a_r|^{1/k} \beta, \qquad
        a_r = k!\,(B_x\|\beta\|)^q\, h_q(g_r)/\eta$$

        with $g_r = B_x w_{0,r}^\top\beta/\|\beta\|$, $h_q$ the orthonormal Hermite polynomial and
        $\eta = E[\sigma^{(k)}(g) h_q(g)]$, for a network of order k with initial weights
        $w_{0,r} \sim N(0, B_x^{-2} I)$ and a `degree` of k + q. Where $a_r < 0$ the copies of the
        neuron change sides: call the network that is returned with the movement.

        Source: BL-45, beyond arXiv:1910.01619 section 6; there $B_x = \|\beta\| = 1$.

        Example:
            >>> net = ExtractionNet.block("exp", jr.normal(jr.key(0), (4096, 2)), 2)
            >>> power = net.power(jnp.array([1.0, 0.0]), 2)
            >>> print(power.net(power.delta, jnp.eye(2)).round(1))
            [1. 0.]
        """
        k, W0 = self.order, self.W0
        check_count(degree, "degree", least=k, most=k + MOST_FACTORIAL)
        check_positive(radius, "radius")
        check_finite(beta, "beta")
        direction = np.asarray(beta, np.float64)
        size = float(np.linalg.norm(direction))
        if direction.shape != W0.shape[1:] or size == 0:
            raise ValueError(f"`beta` must be a nonzero vector of {W0.shape[1:]}, got beta={beta}.")
        q = degree - k
        g = radius * (np.asarray(W0, np.float64) @ direction) / size
        a = math.factorial(k) * (radius * size) ** q * hermite(g, q)[q] / _coefficient(self, q)
        lengths = np.abs(a) ** (1 / k) * len(a) ** (-1 / (2 * k))
        sides = jnp.asarray(np.where(a < 0, -1.0, 1.0), W0.dtype)
        swapped = eqx.tree_at(lambda n: n.weights, self, sides[:, None] * self.weights)
        return PowerExtraction(swapped, jnp.asarray(np.outer(lengths, direction), W0.dtype))

    def _preactivations(self, delta: Weights, x: Inputs) -> tuple[Array, Array]:
        if jnp.shape(delta) != self.W0.shape:
            raise ValueError(
                f"`delta` must have the shape of W0, {self.W0.shape}, "
                f"got delta.shape={jnp.shape(delta)}."
            )
        x = jnp.asarray(x)
        return x @ self.W0.T, x @ jnp.asarray(delta).T


class PowerExtraction(NamedTuple):
    """A network with a movement that makes it a power of a linear function."""

    net: ExtractionNet
    delta: Float[Array, "m d"]


def _coefficient(net: ExtractionNet, q: int) -> float:
    """eta, the q-th Hermite coefficient of the k-th derivative."""
    rule = gaussian_rule()
    with float64():
        values = np.asarray(net.activation.derivative(net.order)(jnp.asarray(rule.nodes)))
    eta = float(rule.weights @ (values * hermite(rule.nodes, q)[q]))
    if abs(eta) < 1e-10 * math.sqrt(float(rule.weights @ values**2)):
        raise ValueError(
            f"`degree` must be within reach of {net.activation.name}, got "
            f"degree={net.order + q}: derivative {net.order} has no Hermite part of degree {q}. "
            "Shift the activation, or take another degree."
        )
    return eta


def _checked(sigma: str | Activation, W0: Weights, order: int) -> tuple[Array, Activation]:
    check_count(order, "order", most=MOST_FACTORIAL)
    if np.ndim(W0) != 2 or 0 in np.shape(W0):
        raise ValueError(f"`W0` must have shape (m, d), got W0.shape={np.shape(W0)}.")
    sigma = activation(sigma)
    sigma.derivative(order)  # raises where there is no such derivative
    return jnp.asarray(W0), sigma
