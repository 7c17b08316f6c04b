# SPDX-License-Identifier: Apache-2.0
"""The tangent kernel of the three-layer residual network of infinite width."""

import math

import jax
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_name
from unlazy.core.entries import entry
from unlazy.kernels.angular import append_one
from unlazy.kernels.blocks import check_pair
from unlazy.kernels.differentiation import at_precision
from unlazy.kernels.mlp import ntk
from unlazy.kernels.polar import polar


@entry
def resnet_ntk(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    trained: str = "all",
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The tangent kernel of the three-layer ResNet at infinite width, of each of its outputs.

    The network is $\mathrm{out} = A h_1 + A h_2$, $h_1 = \sigma(W x_a)$,
    $h_2 = \sigma(V (A h_1, 1))$ with $x_a = (x, 1)$, a ReLU σ and every entry of W, V and A drawn
    from N(0, 1/m). There $A h_1 \to 0$, so that $h_2$ sees only its bias, and the kernel is the sum
    of

    $$\Theta_W = \tfrac12 \langle x_a, x_a'\rangle \kappa_0(u), \qquad \Theta_V = \tfrac12, \qquad
    \Theta_A = \tfrac12 \|x_a\| \|x_a'\| \kappa_1(u) + \frac{\|x_a\| + \|x_a'\|}{2\pi} + \tfrac12$$

    with u the cosine between the $x_a$ and $\kappa_0, \kappa_1$ as in `tangent`. W and A alone
    would give the two-layer kernel, `ntk` on the $x_a$: the residual branch adds a constant and a
    function of the norms. Different outputs are uncorrelated.

    Source: RN-19 (experiment initialisation RN-6), arXiv:1905.10337; RN-8 for the training modes.

    Args:
        x1: inputs, one per row; zero rows are fine.
        x2: other inputs, for the cross kernel; None means `x1`.
        trained: "all" (W, V and A), "hidden" (W and V) or "last" (the outer A).
        dtype: what to compute in and return, "float64" or "float32", as in `relu_gram`.

    Raises:
        ValueError: `x1` or `x2` is not a finite (n, d) array, or `trained` is not known.

    Example:
        >>> print(resnet_ntk(np.eye(2), trained="hidden").round(4))
        [[1.5    0.8333]
         [0.8333 1.5   ]]
    """
    check_name(trained, ("all", "hidden", "last"), "trained")
    x1, x2, dtype = check_pair(x1, x2, dtype, allow_zero_rows=True)

    def evaluate(x1, x2, dtype):
        xa1 = append_one(x1, dtype)
        xa2 = None if x2 is None else append_one(x2, dtype)
        norm1 = polar(xa1, "x1", dtype).norm
        norm2 = norm1 if xa2 is None else polar(xa2, "x2", dtype).norm
        # sigma_w^4 = fan_in takes the factors 1/fan_in of NTK parametrisation away.
        two_layer = ntk(
            xa1, xa2, weight_variance=math.sqrt(xa1.shape[1]), trained=trained, dtype=dtype
        )
        return _add_residual_branch(two_layer, norm1, norm2, trained)

    return at_precision(evaluate, x1, x2, dtype)


@jax.jit(static_argnums=3, donate_argnums=0)
def _add_residual_branch(
    K: Float[Array, "n1 n2"], norm1: Float[Array, " n1"], norm2: Float[Array, " n2"], trained: str
) -> Float[Array, "n1 n2"]:
    if trained == "hidden":
        return K + 0.5
    mixed = (norm1[:, None] + norm2[None, :]) / (2 * math.pi)
    return K + (mixed + (1 if trained == "all" else 0.5))
