# SPDX-License-Identifier: Apache-2.0
"""The eighth power of the (2, 4) norm as a regulariser, with its derivatives."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.entries import entry

Matrix = Float[Array | np.ndarray, "m d"]


@dataclass(frozen=True)
class Regularizer:
    r"""The eighth power of the (2, 4) norm, which keeps the movements of the neurons alike.

    $$R(W) = \|W\|_{2,4}^8 = S_4^2, \qquad S_4 = \sum_r q_r^2, \qquad q_r = \|w_r\|^2$$

    It is a polynomial that does not depend on the signs of the rows, and
    $\langle \nabla R(W), W\rangle = 8R(W)$. It has no settings: `escape.regularizer` is one.

    Source: BL-13, arXiv:1910.01619 Corollary 3, with all derivatives.
    """

    @entry
    def __call__(self, W: Matrix) -> Float[Array, ""]:
        r"""The regulariser itself, $\big(\sum_r \|w_r\|^4\big)^2$.

        Example:
            >>> print(regularizer(jnp.eye(3)))
            9.0
        """
        return jnp.sum(_squares(W) ** 2) ** 2

    @entry
    def gradient(self, W: Matrix) -> Float[Array, "m d"]:
        r"""The gradient, $\nabla_r R = 8 S_4 q_r w_r$.

        Example:
            >>> print(regularizer.gradient(jnp.eye(2))[0])
            [16.  0.]
        """
        q = _squares(W)
        return 8 * jnp.sum(q**2) * q[:, None] * jnp.asarray(W)

    @entry
    def hvp(self, W: Matrix, V: Matrix) -> Float[Array, "m d"]:
        r"""The Hessian at `W`, applied to `V`.

        $$H[V]_r = 8 S_4 (q_r v_r + 2\langle w_r, v_r\rangle w_r)
        + 32 \Big(\sum_s q_s \langle w_s, v_s\rangle\Big) q_r w_r$$

        Example:
            >>> print(regularizer.hvp(jnp.eye(2), jnp.eye(2))[0])
            [112.   0.]
        """
        W, V = jnp.asarray(W), jnp.asarray(V)
        q, inner = _squares(W), _inner(W, V)
        own = 8 * jnp.sum(q**2) * (q[:, None] * V + 2 * inner[:, None] * W)
        return own + 32 * jnp.sum(q * inner) * q[:, None] * W

    @entry
    def hessian_form(self, W: Matrix, V: Matrix) -> Float[Array, ""]:
        r"""The second derivative at `W` along `V`.

        $$8 S_4 \sum_r (q_r \|v_r\|^2 + 2\langle w_r, v_r\rangle^2)
        + 32 \Big(\sum_r q_r \langle w_r, v_r\rangle\Big)^2$$

        Example:
            >>> print(regularizer.hessian_form(jnp.eye(2), jnp.eye(2)))
            224.0
        """
        return _own_form(W, V) + 32 * jnp.sum(_squares(W) * _inner(W, V)) ** 2

    @entry
    def curvature(self, W: Matrix, W_star: Matrix) -> Float[Array, ""]:
        r"""The second derivative along `W_star`, averaged over signs on its rows.

        $$E_s \nabla^2 R(W)[sW^*, sW^*] = 8 S_4 \sum_r (q_r \|w^*_r\|^2
        + 2\langle w_r, w^*_r\rangle^2) + 32 \sum_r q_r^2 \langle w_r, w^*_r\rangle^2$$

        It satisfies $H_{reg}(W, W^*) \le 5R(W) + C R(W^*)$ with $C = 378 (14/5)^3$, and no
        smaller constant will do (BL-T16).

        Example:
            >>> print(regularizer.curvature(jnp.eye(2), jnp.eye(2)))
            160.0
        """
        return _own_form(W, W_star) + 32 * jnp.sum(_squares(W) ** 2 * _inner(W, W_star) ** 2)


regularizer = Regularizer()
r"""The eighth power of the (2, 4) norm, `regularizer(W)`; its derivatives are methods."""


def _own_form(W: Matrix, V: Matrix) -> Float[Array, ""]:
    q = _squares(W)
    return 8 * jnp.sum(q**2) * jnp.sum(q * _squares(V) + 2 * _inner(W, V) ** 2)


def _squares(W: Matrix) -> Float[Array, " m"]:
    return jnp.sum(jnp.asarray(W) ** 2, axis=1)


def _inner(W: Matrix, V: Matrix) -> Float[Array, " m"]:
    return jnp.sum(jnp.asarray(W) * jnp.asarray(V), axis=1)
