# SPDX-License-Identifier: Apache-2.0
"""The targets of the experiments as concepts, whose complexity is known."""

import math

import numpy as np

from unlazy.core.checks import check_count
from unlazy.core.entries import entry
from unlazy.data.composed_products import PAIRS, ComposedProduct
from unlazy.papers.allenzhu_li_liang2019.three_layer_concepts import ThreeLayerConcept
from unlazy.papers.shared import PowerSeries, chebyshev_series, taylor_series


@entry
def product_concept(
    product: ComposedProduct, *, inputs: int = 4, degree: int = 41
) -> ThreeLayerConcept:
    r"""A composed product as a three-layer concept, whose complexity is known.

    The hyperbolic tangents have no Taylor series on [-1, 1]: they become polynomials of that
    degree, within 4e-4 of them there.
    """
    check_count(inputs, "inputs", least=4)
    (inner, s), (last, t) = PAIRS[product.kind]
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
