# SPDX-License-Identifier: Apache-2.0
"""The clean risk: the loss of a network's quadratic Taylor term, in closed form."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_finite, check_inputs, check_labels
from unlazy.core.entries import entry
from unlazy.escape import regularizer
from unlazy.linalg.full_precision import full_product
from unlazy.losses import PointwiseLoss, check_targets, pointwise
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients, quadratic_term


class QuadraticRisk(eqx.Module):
    r"""The risk of the quadratic model of a two-layer network, plus $\lambda \|W\|_{2,4}^8$.

    $$L^Q_\lambda(W) = \frac1n \sum_i \ell(f^Q_W(x_i), y_i) + \lambda \|W\|_{2,4}^8, \qquad
    f^Q_W(x_i) = \frac12 \sum_r S_{ir} (w_r^\top x_i)^2, \quad
    S_{ir} = \frac{a_r \sigma''(w_{0,r}^\top x_i)}{\sqrt m}$$

    A function of the movement `W` alone, in the dtype it was built with. Its arrays have one row
    per sample, so it can also be the `data` of a trainer, mini-batches included, with
    `quadratic_risk` as the loss: other data then need no new compilation.

    Source: BL-10 to BL-12, arXiv:1910.01619 section 3. The paper's $L^Q$ has $\lambda = 0$.

    Example:
        >>> import jax
        >>> net = TwoLayer(inputs=2, width=4, activation="relu3", init="symmetric")
        >>> params = net.init(key=jax.random.key(0))
        >>> risk = QuadraticRisk.of(net, params, jnp.eye(2), jnp.array([1.0, -1.0]))
        >>> print(risk(jnp.zeros((4, 2))))
        0.6931472
    """

    x: Float[Array, "n d"]
    y: Float[Array, " n"]
    S: Float[Array, "n m"]
    loss: PointwiseLoss = eqx.field(static=True)
    strength: float = eqx.field(static=True)

    @classmethod
    @entry
    def of(
        cls,
        net: TwoLayer,
        params: TwoLayerParams,
        x: Float[Array | np.ndarray, "n d"],
        y: Float[Array | np.ndarray, " n"],
        *,
        loss: str | PointwiseLoss = "logistic",
        strength: int | float = 0.0,
    ) -> "QuadraticRisk":
        r"""The clean risk of `net` around its initialisation `params`, in their dtype.

        The activation needs a second derivative; `strength` is $\lambda \ge 0$.
        """
        check_inputs(x)
        check_labels(y, len(x), single=True)
        check_targets(loss, y)
        check_finite(strength, "strength")
        if strength < 0:
            raise ValueError(f"`strength` must be at least 0, got strength={strength}.")
        x, y = (jnp.asarray(array, params.W.dtype) for array in (x, y))
        S = _coefficients(net.activation, params, x, 2) / math.sqrt(net.width)
        return cls(x, y, S, pointwise(loss), float(strength))

    @entry
    def outputs(self, W: Float[Array, "m d"]) -> Float[Array, " n"]:
        """The outputs of the quadratic model at the samples."""
        return quadratic_term(self.S, self._movements(W), width=1)  # S has the root of the width

    @entry
    def __call__(self, W: Float[Array, "m d"]) -> Float[Array, ""]:
        """The risk."""
        return self.data_term(W) + self._penalty(regularizer, W)

    @entry
    def data_term(self, W: Float[Array, "m d"]) -> Float[Array, ""]:
        """The risk without its penalty."""
        return jnp.mean(self.loss(self.outputs(W), self.y))

    @entry
    def gradient(self, W: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The gradient in closed form."""
        slope, _ = self._slopes(W)
        G = full_product((self.S * self._movements(W) * slope[:, None]).T, self.x)
        return G + self._penalty(regularizer.gradient, W)

    @entry
    def hvp(self, W: Float[Array, "m d"], V: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The Hessian at `W` times `V` in closed form, without forming it."""
        Z, ZV = self._movements(W), self._movements(V)
        slope, curvature = self._slopes(W)
        dF = jnp.sum(self.S * Z * ZV, axis=1)
        H = self.S * (ZV * slope[:, None] + Z * (curvature * dF)[:, None])
        return full_product(H.T, self.x) + self._penalty(lambda W: regularizer.hvp(W, V), W)

    def _slopes(self, W: Float[Array, "m d"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """First and second derivative of the mean loss with respect to each output."""
        F, n = self.outputs(W), len(self.y)
        return self.loss.derivative(1)(F, self.y) / n, self.loss.derivative(2)(F, self.y) / n

    def _movements(self, W: Float[Array, "m d"]) -> Float[Array, "n m"]:
        expected = (self.S.shape[1], self.x.shape[1])
        if jnp.shape(W) != expected:
            raise ValueError(f"`W` must have shape {expected}, got W.shape={jnp.shape(W)}.")
        return full_product(self.x, jnp.asarray(W, self.x.dtype).T)

    def _penalty(self, term, W: Float[Array, "m d"]):
        # Without a penalty not 0 times it, which would be nan where it overflows.
        return self.strength * term(W) if self.strength else jnp.zeros((), self.x.dtype)


@entry
def quadratic_risk(W: Float[Array, "m d"], risk: QuadraticRisk) -> Float[Array, ""]:
    """`risk(W)` as a loss of parameters and data, for the trainers of `unlazy.train`."""
    return risk(W)


_coefficients = eqx.filter_jit(coefficients)
