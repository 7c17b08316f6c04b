# SPDX-License-Identifier: Apache-2.0
"""Twin neurons: two copies of opposite sign, and the movements that they see."""

import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.entries import entry
from unlazy.nets import TwoLayerParams

Movement = Float[Array | np.ndarray, "m d"]


class TwinCoordinates(NamedTuple):
    """Differences `u` and sums `v` of the movements of twins, each over the root of two."""

    u: Float[Array, "h d"]
    v: Float[Array, "h d"]

    @property
    def movement(self) -> Float[Array, "m d"]:
        """The movement that has these coordinates."""
        return jnp.concatenate([self.u + self.v, self.v - self.u]) / math.sqrt(2)


@entry
def twin_coordinates(params: TwoLayerParams, W: Movement) -> TwinCoordinates:
    r"""The coordinates in which the linear term sees half of the parameters.

    $$u_r = (w_r - w_{r+m/2})/\sqrt2, \qquad v_r = (w_r + w_{r+m/2})/\sqrt2$$

    is an orthogonal change of variables. For twins with output weights +1 and -1,

    $$f_L = \sqrt{2/m} \sum_{r \le m/2} \sigma'(w_{0,r}^\top x)\, u_r^\top x, \qquad
    f_Q = \frac{1}{\sqrt m} \sum_{r \le m/2} \sigma''(w_{0,r}^\top x) (u_r^\top x)(v_r^\top x):$$

    the linear term ignores v, and the quadratic one is bilinear.

    Source: NB-5, arXiv:2206.03688.

    Example:
        >>> import jax
        >>> from unlazy.nets import TwoLayer
        >>> params = TwoLayer(inputs=3, width=4, init="sphere").init(key=jax.random.key(0))
        >>> u, v = twin_coordinates(params, jnp.ones((4, 3)))
        >>> print(abs(u).max())
        0.0
    """
    if not are_twins(params):
        raise ValueError(
            "`params` must be of a paired start, W[r + m/2] = W[r] and a[r + m/2] = -a[r], got "
            "others. Use a TwoLayer with init='sphere', 'symmetric' or 'antisymmetric'."
        )
    W = jnp.asarray(W)
    if W.shape != params.W.shape:
        raise ValueError(f"`W` must have shape {params.W.shape}, got W.shape={W.shape}.")
    first, second = jnp.split(W, 2)
    return TwinCoordinates((first - second) / math.sqrt(2), (first + second) / math.sqrt(2))


class Fold(eqx.Module):
    """What the linear term sees of a movement: differences of twins, or all without twins.

    `unfold` is the transpose of `fold`; one after the other multiplies by `copies`.
    """

    paired: bool = eqx.field(static=True)

    @property
    def copies(self) -> int:
        """The number of neurons that share one row of what `fold` returns."""
        return 2 if self.paired else 1

    def fold(self, W: Float[Array, "m d"]) -> Float[Array, "h d"]:
        """The differences of twins."""
        if not self.paired:
            return W
        first, second = jnp.split(W, 2)
        return first - second

    def unfold(self, D: Float[Array, "h d"]) -> Float[Array, "m d"]:
        """The transpose."""
        return jnp.concatenate([D, -D]) if self.paired else D

    def distinct(self, params: TwoLayerParams) -> TwoLayerParams:
        """The neurons without their twins."""
        h = len(params.a) // self.copies
        return TwoLayerParams(W=params.W[:h], a=params.a[:h])


def are_twins(params: TwoLayerParams) -> bool:
    """Whether the second half copies the first with output weights negated."""
    W, a = np.asarray(params.W), np.asarray(params.a)
    h = len(a) // 2
    same = len(a) % 2 == 0 and np.array_equal(W[:h], W[h:])
    return bool(same and np.array_equal(a[:h], -a[h:]))
