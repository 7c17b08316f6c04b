# SPDX-License-Identifier: Apache-2.0
"""Products of composed functions, the targets of the experiments on three-layer learners."""

import equinox as eqx

from unlazy.core.checks import check_name
from unlazy.core.entries import entry
from unlazy.data.polynomials import Inputs, Values, rows_of

PAIRS = {"sines": (("sin", 3.0), ("cos", 7.0)), "tanhs": (("tanh", 8.0), ("tanh", 8.0))}


class ComposedProduct(eqx.Module):
    r"""A square of a sum of three non-linear measurements, times a fourth one.

    $$f(x) = \big( \phi(s x_1) + \phi(s x_2) + \phi(s x_3) - 2 \big)^2\, \psi(t x_4)$$

    For "sines" it is $(\sin 3x_1 + \sin 3x_2 + \sin 3x_3 - 2)^2 \cos 7x_4$, for "tanhs"
    $(\tanh 8x_1 + \tanh 8x_2 + \tanh 8x_3 - 2)^2 \tanh 8x_4$.

    Source: LG-51 and LG-52, arXiv:1811.04918 section 7, targets T1 and T2.

    Example:
        >>> import numpy as np
        >>> print(ComposedProduct("sines")(np.zeros((1, 4))))
        [4.]
    """

    kind: str = eqx.field(static=True)

    @entry
    def __check_init__(self):
        check_name(self.kind, PAIRS, "kind")

    @entry
    def __call__(self, x: Inputs) -> Values:
        """Its values at the rows of `x`, in their dtype."""
        xp, x = rows_of(x, least=4)
        (inner, s), (last, t) = PAIRS[self.kind]
        measured = xp.sum(getattr(xp, inner)(s * x[:, :3]), axis=1)
        return (measured - 2) ** 2 * getattr(xp, last)(t * x[:, 3])
