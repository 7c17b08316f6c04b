# SPDX-License-Identifier: Apache-2.0
"""Section 8.2: the two-layer network of least norm that is a parity, and how to widen a network."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_count, check_finite, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.data import corners
from unlazy.nets import TwoLayerParams

Norms = int | float | Float[np.ndarray, "*shape"]


class ParityNetwork(eqx.Module):
    r"""A two-layer ReLU network that is a parity on the cube, and the frontier that it attains.

    `params` belong to `nets.TwoLayer(d, m)`, whose factor $1/\sqrt m$ makes $\pm1$ the output
    weights. They are in float64; with x64 off JAX would round them in the next operation: work
    under `with jax.enable_x64(True)`.

    Source: RN-73, arXiv:1905.10337 section 8.2; the closed form is derived beside it.
    """

    params: TwoLayerParams
    degree: int  # p
    norm: float  # |W|_F
    gamma: float  # the most that one unit of norm correlates with the parity

    @entry
    def frontier(self, norm: Norms) -> Float64[np.ndarray, "*shape"]:
        r"""The least mean square error of a network of any width with $\|W\|_F = \tau$.

        $$\mathbb E (f - y)^2 \ge (1 - \tau\gamma)^2 \quad (\tau \le 1/\gamma), \qquad
        \gamma = \max_{\|u\| = 1} |\mathbb E\, y\, \sigma(u^\top x)| = \frac{c_p}{\sqrt{p d}}$$

        That the maximum is at the direction of equal entries was checked by optimisation for p = 2,
        4, 6, 8, and is not proved.

        Source: RN-73, arXiv:1905.10337.
        """
        check_finite(norm, "norm")
        return np.asarray(np.maximum(1 - np.asarray(norm, np.float64) * self.gamma, 0.0) ** 2)


@entry
def parity_network(
    inputs: int, degree: int, *, copies: int = 1, share: int | float = 1.0
) -> ParityNetwork:
    r"""The two-layer network of least $\|W\|_F$ that is the parity of the first coordinates.

    One neuron $\rho s$ for each of the $2^p$ sign vectors s of the first p coordinates, with an
    output weight of the sign of $\pm\chi(s)$:

    $$\frac1{\sqrt m} \sum_s \pm\chi(s)\, \sigma(\rho\, s^\top x_{1..p}) = \prod_{i \le p}
    \sqrt d\, x_i, \qquad x \in \{\pm 1/\sqrt d\}^d, \qquad \|W\|_F = \frac{\sqrt{p d}}{c_p}$$

    with $c_p = |\mathbb E_s\, \chi(s) \sigma(\sum_i s_i)|$, which is 1/2, 1/4, 3/16, 5/32 for p =
    2, 4, 6, 8, and $\rho = \sqrt d/(2^{p/2} c_p)$. Without biases ReLUs make no odd parity but that
    of degree 1.

    Source: RN-73, arXiv:1905.10337 section 8.2.

    Args:
        inputs: d.
        degree: p, even, or 1.
        copies: q, for $q 2^p$ neurons: every row q times, divided by $\sqrt q$, of the same norm.
        share: multiplies W: with a share $\tau\gamma$ of the norm the error is
            $(1 - \tau\gamma)^2$, the least there is.

    Raises:
        ValueError: `degree` is odd and above 1, above `inputs` or above 16, or a number is out of
            range.

    Example:
        >>> net = parity_network(6, 6)
        >>> print(net.params.W.shape, round(net.norm / math.sqrt(6), 4))
        (64, 6) 13.0639
    """
    for name, value in (("inputs", inputs), ("degree", degree), ("copies", copies)):
        check_count(value, name)
    check_positive(share, "share")
    if degree > min(inputs, 16) or (degree % 2 and degree > 1):
        raise ValueError(
            f"`degree` must be 1 or even, at most 16 and at most inputs={inputs}, "
            f"got degree={degree}."
        )
    signs = corners(degree)
    values = np.prod(signs, axis=1) * np.maximum(signs.sum(axis=1), 0.0)
    c_p = float(np.mean(values))
    rho = math.sqrt(inputs) / (2 ** (degree / 2) * abs(c_p))
    W = np.zeros((2**degree, inputs))
    W[:, :degree] = float(share) * rho * signs
    with float64():
        a = jnp.asarray(np.sign(c_p) * np.prod(signs, axis=1))
        params = repeat_neurons(TwoLayerParams(jnp.asarray(W), a), copies)
    return ParityNetwork(
        params=params,
        degree=degree,
        norm=float(np.linalg.norm(W)),
        gamma=abs(c_p) / math.sqrt(degree * inputs),
    )


@entry
def repeat_neurons(params: TwoLayerParams, copies: int) -> TwoLayerParams:
    r"""Repeat every neuron of a network, which keeps its function and its norm.

    $$w_r \to w_r/\sqrt q, \quad q \text{ times}, \qquad a_r \text{ as it is}$$

    for a positively homogeneous activation such as ReLU and the factor $1/\sqrt m$ of
    `nets.TwoLayer`.

    Source: RN-73 and RN-74, arXiv:1905.10337 section 8.2.

    Example:
        >>> params = TwoLayerParams(jnp.ones((2, 3)), jnp.ones(2))
        >>> repeat_neurons(params, 4).W.shape
        (8, 3)
    """
    check_count(copies, "copies")
    with float64():  # so that those of parity_network, in float64, stay so
        W = jnp.repeat(params.W, copies, axis=0) / math.sqrt(copies)
        return TwoLayerParams(W=W, a=jnp.repeat(params.a, copies))


@entry
def pad_inputs(params: TwoLayerParams, inputs: int) -> TwoLayerParams:
    r"""Apply a network of $d_0$ inputs to the first of d coordinates, each of size $1/\sqrt d$.

    $$W \to \sqrt{d/d_0}\, (W, 0)$$

    so that values at $\{\pm1/\sqrt d\}^d$ are those at $\{\pm1/\sqrt{d_0}\}^{d_0}$, and
    $\|W\|_F/\sqrt d$ stays.

    Source: RN-74, arXiv:1905.10337 section 8.2.

    Raises:
        ValueError: `inputs` is below what the network has.

    Example:
        >>> pad_inputs(TwoLayerParams(jnp.ones((2, 3)), jnp.ones(2)), 12).W[0, :4].tolist()
        [2.0, 2.0, 2.0, 0.0]
    """
    own = params.W.shape[1]
    check_count(inputs, "inputs", least=own)
    with float64():  # so that those of parity_network, in float64, stay so
        W: Array = jnp.pad(params.W, ((0, 0), (0, inputs - own)))
        return TwoLayerParams(W=W * math.sqrt(inputs / own), a=params.a)
