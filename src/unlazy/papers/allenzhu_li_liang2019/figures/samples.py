# SPDX-License-Identifier: Apache-2.0
"""Section 7: the data and the networks of the experiments, each from a seed."""

import jax
from jaxtyping import PRNGKeyArray

from unlazy import data
from unlazy.nets import BiasedTwoLayer, ThreeLayer
from unlazy.papers.shared.grids.host import on_host
from unlazy.papers.shared.grids.learner import Keys, Samples, Split, keys_of
from unlazy.papers.shared.settings import reproducible

INPUTS = 4
_POOL = 8192  # training sets of all sizes up to this one are cut from one draw


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
        f, key = data.target(target), keys(seed)

        def samples(count: int, key: PRNGKeyArray, pool: int = 1) -> Samples:
            x = data.sphere(max(count, pool), INPUTS, key=key)[:count]
            return Samples(x, jax.numpy.asarray(f(x)))

        return Split(
            samples(n, key.train, _POOL),
            samples(n_validation, key.validation),
            samples(n_test, key.test),
        )


def network(layers: int, width: int) -> BiasedTwoLayer | ThreeLayer:
    """The network of two or three layers: a ~ N(0, 1), all else N(0, 1/m).

    Source: LG-1, LG-2, arXiv:1811.04918 section 7.
    """
    if layers == 2:
        return BiasedTwoLayer(INPUTS, width, init="learner")
    return ThreeLayer(INPUTS, width, init="learner")
