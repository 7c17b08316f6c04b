# SPDX-License-Identifier: Apache-2.0
"""Section 7: the data and the networks of the experiments, each from a seed."""

from unlazy import data
from unlazy.core.machine import on_host
from unlazy.nets import BiasedTwoLayer, ThreeLayer
from unlazy.papers.shared.grids.learner import Keys, Split, draw_split, keys_of
from unlazy.papers.shared.settings import reproducible

INPUTS = 4


def keys(seed: int) -> Keys:
    """The random keys of a seed, apart from those of other papers."""
    return keys_of(1811, seed)


def draw(target: str, n: int, n_validation: int, n_test: int, *, seed: int) -> Split:
    """The sets of a seed, in float32.

    The smaller of two training sets is part of the larger; the other sets depend on the seed alone.

    Source: LG-50, arXiv:1811.04918 section 7: x uniform on the sphere, no noise. The validation set
    is ours, of samples beyond the training set.
    """
    with reproducible(), on_host():
        sizes = (n, n_validation, n_test)
        return draw_split(data.target(target), data.sphere, INPUTS, sizes, keys(seed))


def network(layers: int, width: int) -> BiasedTwoLayer | ThreeLayer:
    """The network of two or three layers: a ~ N(0, 1), all else N(0, 1/m).

    Source: LG-1, LG-2, arXiv:1811.04918 section 7.
    """
    if layers == 2:
        return BiasedTwoLayer(INPUTS, width, init="learner")
    return ThreeLayer(INPUTS, width, init="learner")
