# SPDX-License-Identifier: Apache-2.0
"""A linearised network as its kernel sees it: as many weights as the kernel has rank."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from unlazy.kernels.layouts import Layout
from unlazy.linalg.eigen import Eigen, gram_eigenvalues


class LinearModel(eqx.Module):
    r"""Outputs $u_0 + F w$ with features $F = V \Lambda^{1/2}$, so that the kernel is $F F^\top$.

    The weights $w$ start at zero. They are the movement of the network's weights in an orthonormal
    basis: $\|w\| = \|\theta - \theta_0\|$, and descent in $w$ is descent in $\theta$.
    """

    features: Float64[Array, "m r"]
    vectors: Float64[Array, "m r"]
    roots: Float64[Array, " r"]  # of the eigenvalues that are not zero
    start: Float64[Array, "n *k"]
    ridge: float
    layout: Layout = eqx.field(static=True)

    @classmethod
    def from_eigen(
        cls, eigen: Eigen, start: Float64[np.ndarray, "n *c"], ridge: float, layout: Layout
    ) -> "LinearModel":
        """The model of a kernel with this decomposition."""
        values = gram_eigenvalues(eigen.values)
        rank = int(np.count_nonzero(values))
        roots, vectors = jnp.asarray(np.sqrt(values[:rank])), eigen.vectors[:, :rank]
        return cls(vectors * roots[None, :], vectors, roots, jnp.asarray(start), ridge, layout)

    @property
    def rest(self) -> Float64[Array, "r *c"]:
        """The weights at the start."""
        columns = self.start.shape[1:] if self.layout.outputs is None else ()
        return jnp.zeros((self.features.shape[1], *columns))

    def outputs(self, w: Float64[Array, "r *c"]) -> Float64[Array, "n *k"]:
        """The outputs on the training set."""
        return self.start + jnp.tensordot(self.features, w, 1).reshape(self.start.shape)

    def coefficients(self, w: Float64[Array, "r *c"]) -> Float64[Array, "m *c"]:
        """The movement as a combination of the gradients at the training samples."""
        return jnp.tensordot(self.vectors / self.roots[None, :], w, 1)

    def slope(self, w: Float64[Array, "r *c"], total) -> Float64[Array, "r *c"]:
        """The gradient of `total(outputs)`, with the penalty, by the weights."""
        return jax.grad(lambda w: total(self.outputs(w)) + self.ridge * jnp.sum(w**2) / 2)(w)
