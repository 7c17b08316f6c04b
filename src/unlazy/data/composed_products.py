# SPDX-License-Identifier: Apache-2.0
"""The two targets of the experiments on three-layer learners."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.checks import as_array, check_count, check_name
from unlazy.data.concepts import ThreeLayerConcept
from unlazy.entries import entry
from unlazy.special import PowerSeries, chebyshev_series, taylor_series

_PAIRS = {"sines": (("sin", 3.0), ("cos", 7.0)), "tanhs": (("tanh", 8.0), ("tanh", 8.0))}


class ComposedProduct(eqx.Module):
    r"""A square of a sum of three non-linear measurements, times a fourth one.

    $$f(x) = \big( \phi(s x_1) + \phi(s x_2) + \phi(s x_3) - 2 \big)^2\, \psi(t x_4)$$

    For "sines" it is $(\sin 3x_1 + \sin 3x_2 + \sin 3x_3 - 2)^2 \cos 7x_4$, for "tanhs"
    $(\tanh 8x_1 + \tanh 8x_2 + \tanh 8x_3 - 2)^2 \tanh 8x_4$.

    Source: LG-51 and LG-52, arXiv:1811.04918 section 7, targets T1 and T2.

    Example:
        >>> print(ComposedProduct("sines")(np.zeros((1, 4))))
        [4.]
    """

    kind: str = eqx.field(static=True)

    @entry
    def __check_init__(self):
        check_name(self.kind, _PAIRS, "kind")

    @entry
    def __call__(self, x: Float[Array | np.ndarray, "n d"]) -> Float[Array | np.ndarray, " n"]:
        """Its values at the rows of `x`, in their dtype."""
        x = as_array(x)
        if x.ndim != 2 or x.shape[1] < 4:
            raise ValueError(f"`x` must have at least 4 columns, got x.shape={x.shape}.")
        xp = jnp if isinstance(x, jax.Array) else np
        (inner, s), (last, t) = _PAIRS[self.kind]
        measured = xp.sum(getattr(xp, inner)(s * x[:, :3]), axis=1)
        return (measured - 2) ** 2 * getattr(xp, last)(t * x[:, 3])

    @entry
    def concept(self, *, inputs: int = 4, degree: int = 41) -> ThreeLayerConcept:
        r"""The same function as a three-layer concept, whose complexity is known.

        The hyperbolic tangents have no Taylor series on [-1, 1]: they become polynomials of that
        degree, within 4e-4 of them there.
        """
        check_count(inputs, "inputs", least=4)
        (inner, s), (last, t) = _PAIRS[self.kind]
        phi, psi = _series(inner, s, degree), _series(last, t, degree)
        root = math.sqrt(3)
        e = np.eye(inputs)
        return ThreeLayerConcept(
            a=np.ones(1),
            outer=[[4.0, -4.0 * root, 3.0]],  # (sqrt(3) z - 2)^2, since v has unit norm
            v1=np.full((1, 3), 1 / root),
            v2=np.eye(3)[:1],
            inner1=[phi] * 3,
            inner2=[psi, psi, psi],
            w1=e[:3],
            w2=np.tile(e[3], (3, 1)),
        )


def _series(name: str, scale: float, degree: int) -> PowerSeries:
    series = taylor_series(name, scale=scale)
    if series.radius > 1:
        return series
    return chebyshev_series(lambda z: getattr(np, name)(scale * z), degree).series


def composed_sines() -> ComposedProduct:
    """The first target, T1."""
    return ComposedProduct("sines")


def composed_tanhs() -> ComposedProduct:
    """The second target, T2."""
    return ComposedProduct("tanhs")
