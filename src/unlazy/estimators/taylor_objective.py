# SPDX-License-Identifier: Apache-2.0
r"""What a Taylor model of a two-layer network is trained on, with its gradient.

$$L(u) = \sum_i w_i\, \ell(f(x_i; u), y_i) + \lambda \|u\|_F^2
+ w_\Sigma \big(\lambda_3 R_3(u) + \lambda_4 \|u\|_{2,4}^8\big), \qquad
f = \frac{1}{\sqrt m} \sum_r a_r \sum_{k=1}^K \frac{\sigma^{(k)}(w_r^\top x)}{k!} (u_r^\top x)^k$$

with $w_\Sigma$ the sum of the weights, per output. Where the movement of each neuron has a random
sign, the terms of odd order are noise of mean 0 and variance
$v = \frac1m \sum_r (\text{odd terms of neuron } r)^2$, and the loss is its expectation over the
signs: $\ell + v$ for the squared error, exactly; for the log loss $\ell + v/8$, an upper bound,
since its second derivative in an output is at most 1/4.

Source: BL-8, BL-11 and BL-13, arXiv:1910.01619 section 3; NB-15 (R3) and NB-16, arXiv:2206.03688.
"""

import functools
import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.escape.penalty import regularizer

LossName = Literal["squared_error", "log_loss"]
_LEAST, _BLOCK = 64, 512  # rows at a time


class Data(NamedTuple):
    """Samples in blocks of equally many rows; the weight of a row that fills up is 0."""

    series: Float[Array | np.ndarray, "B k b h"]  # derivatives of the activation, over sqrt(m) k!
    x: Float[Array | np.ndarray, "B b e"]
    y: Float[Array | np.ndarray, "B b c"]
    weights: Float[Array | np.ndarray, "B b"]


class Penalties(NamedTuple):
    """The factors of the penalties, and what the directions that go free carry."""

    ridge: float
    directions: float
    norm: float  # times the sum of the weights
    carried: Float[Array | np.ndarray, "r h e"]  # `ProductFeatures.leading`; empty for none


class Rule(NamedTuple):
    """What is compiled into the objective."""

    loss: LossName
    randomized: bool
    directed: bool  # whether there is a penalty on directions
    normed: bool  # whether there is one on the (2, 4) norm


def blocks(
    series: Float[np.ndarray, "k n h"],
    x: Float[np.ndarray, "n e"],
    y: Float[np.ndarray, "n c"],
    weights: Float[np.ndarray, " n"],
) -> Data:
    """The samples in blocks: a power of two of rows in one, or as many of the largest as needed."""
    n = len(x)
    rows = min(_BLOCK, 2 ** math.ceil(math.log2(max(n, _LEAST))))
    count = -(-n // rows)

    def shaped(array: np.ndarray) -> np.ndarray:
        filled = np.pad(array, ((0, count * rows - n), *((0, 0),) * (array.ndim - 1)))
        return filled.reshape(count, rows, *array.shape[1:])

    return Data(np.swapaxes(shaped(np.swapaxes(series, 0, 1)), 1, 2), *map(shaped, (x, y, weights)))


@functools.partial(jax.jit, static_argnums=0)
def objective(
    rule: Rule, u: Float[Array, "c 2 h e"], data: Data, offset: Array, penalties: Penalties
) -> tuple[Float[Array, ""], Float[Array, "c 2 h e"]]:
    """The objective and its gradient at the movement `u` of the neurons and of their twins."""

    def add(total: tuple[Array, Array], block: Data) -> tuple[tuple[Array, Array], None]:
        found = jax.value_and_grad(_loss, argnums=1)(rule, u, block, offset, penalties.directions)
        return jax.tree.map(jnp.add, total, found), None

    # Block by block with its gradient, so that no block is held for the backward pass.
    start = jax.value_and_grad(_penalty, argnums=1)(rule, u, penalties)
    return jax.lax.scan(add, start, data)[0]


def _penalty(rule: Rule, u: Float[Array, "c 2 h e"], penalties: Penalties) -> Float[Array, ""]:
    total = penalties.ridge * jnp.sum(u**2)
    if rule.directed:
        free = jnp.einsum("rhe,che->rc", jnp.asarray(penalties.carried), u[:, 0] - u[:, 1])
        total -= penalties.directions * jnp.sum(free**2)
    if rule.normed:
        rows = u.reshape(u.shape[0], -1, u.shape[-1])
        total += penalties.norm * jnp.sum(jax.vmap(regularizer)(rows))
    return total


def _loss(
    rule: Rule,
    u: Float[Array, "c 2 h e"],
    block: Data,
    offset: Float[Array, " c"],
    directions: Float[Array, ""],
) -> Float[Array, ""]:
    """The weighted loss on a block, with the penalty on its linear term."""
    series = jnp.asarray(block.series)
    # (b, c, 2, h): the layout in which the product with `x` and its gradient need no transposition.
    z = jnp.matmul(jnp.asarray(block.x), u.reshape(-1, u.shape[-1]).T)
    z = z.reshape(-1, *u.shape[:-1])
    f, variance = _outputs(series, z, rule.randomized)
    loss = _losses(rule.loss, f + offset[None, :], jnp.asarray(block.y))
    if variance is not None:
        curvature = 1.0 if rule.loss == "squared_error" else 1 / 8
        loss += curvature * jnp.sum(variance, axis=1)
    if rule.directed:
        linear = _summed(_polynomial(series, z, range(1, 2)))
        loss += directions * jnp.sum(linear**2, axis=1)
    return jnp.sum(jnp.asarray(block.weights) * loss)


def _outputs(
    series: Float[Array, "k b h"], z: Float[Array, "b c 2 h"], randomized: bool
) -> tuple[Float[Array, "b c"], Float[Array, "b c"] | None]:
    """The outputs; on average over signs, and with their variance, if signs are random."""
    if randomized:
        odd, even = (_polynomial(series, z, range(k, len(series) + 1, 2)) for k in (1, 2))
        return _summed(even), jnp.sum(odd**2, axis=(2, 3))
    return _summed(_polynomial(series, z, range(1, len(series) + 1))), None


def _summed(terms: Float[Array, "b c 2 h"]) -> Float[Array, "b c"]:
    """The sum over the neurons, less that over their twins."""
    return jnp.sum(terms[:, :, 0] - terms[:, :, 1], axis=-1)


def _polynomial(series: Array, z: Array, orders: range) -> Float[Array, "b c 2 h"]:
    """The terms of these orders of every neuron."""
    return sum((series[k - 1][:, None, None, :] * z**k for k in orders), start=jnp.zeros_like(z))


def _losses(name: LossName, f: Float[Array, "b c"], y: Float[Array, "b c"]) -> Float[Array, " b"]:
    """The loss of each row; for the log loss y is +1 in the column of the class, -1 elsewhere."""
    if name == "squared_error":
        return jnp.sum((f - y) ** 2, axis=1)
    if f.shape[1] == 1:
        return jax.nn.softplus(-y * f)[:, 0]
    return jax.nn.logsumexp(f, axis=1) - jnp.sum((y + 1) / 2 * f, axis=1)
