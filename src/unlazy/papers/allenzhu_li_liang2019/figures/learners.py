# SPDX-License-Identifier: Apache-2.0
"""Section 7: the six methods of the experiments, as networks and linear models to train."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.nets import BiasedTwoLayer, BiasedTwoLayerParams
from unlazy.papers.allenzhu_li_liang2019.figures import samples
from unlazy.papers.shared.grids import learner
from unlazy.papers.shared.grids.learner import Learner, Split
from unlazy.papers.shared.grids.linear import Linear, linear_model

# In the order of the paper's ranking. A name says the depth, and what is trained in place of the
# hidden weights: their linearisation (NTK), or the last layer alone.
METHODS = ("3layer", "2layer", "3layer(NTK)", "2layer(NTK)", "3layer(last)", "2layer(last)")
KERNELS = METHODS[2:]


@dataclass(frozen=True)
class BySums:
    """A two-layer network of few inputs, written with sums in place of matrix products.

    A GPU then never writes the hidden layer to memory: at m = 2000 with 306 lanes a step took
    .18 ms, with products .27. The result is float32, where products are TF32. On cores it would
    take longer.
    """

    net: BiasedTwoLayer

    def __call__(self, params: BiasedTwoLayerParams, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The outputs at the rows of `x`."""
        inputs = range(self.net.inputs)
        z = sum((x[:, i, None] * params.W[None, :, i] for i in inputs), start=params.b[None, :])
        return jnp.sum(self.net.activation(z) * params.a[None, :], axis=1)


def network_learner(
    method: str, width: int, splits: list[Split], seeds: tuple[int, ...]
) -> Learner:
    """A network whose hidden weights are trained, each seed on its split."""
    net = samples.network(_layers(method), width)
    starts: list[Any] = [learner.initial(net, samples.keys(seed).init) for seed in seeds]
    model: Any = net
    if isinstance(net, BiasedTwoLayer) and jax.default_backend() != "cpu":
        model = BySums(net)
    return learner.network_learner(model, starts, splits, "weights")


def linear_models(
    method: str, width: int, splits: list[Split], seeds: tuple[int, ...]
) -> list[Linear]:
    """The linear model behind a kernel method, for every seed."""
    net = samples.network(_layers(method), width)
    part = "last" if "last" in method else "weights"
    starts = [learner.initial(net, samples.keys(seed).init) for seed in seeds]
    return [
        linear_model(net, start, part, tuple(each.x for each in split))
        for start, split in zip(starts, splits, strict=True)
    ]


def _layers(method: str) -> int:
    return int(method[0])
