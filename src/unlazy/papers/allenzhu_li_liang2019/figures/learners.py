# SPDX-License-Identifier: Apache-2.0
"""The six methods of the paper, ready for `fit_grid`, and exact solutions where there are any."""

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

# In the order of the paper's own ranking; the name says which parameters are trained, and of what.
METHODS = ("3layer", "2layer", "3layer(NTK)", "2layer(NTK)", "3layer(last)", "2layer(last)")
KERNELS = METHODS[2:]


@dataclass(frozen=True)
class BySums:
    """A two-layer network of few inputs, written as sums and not as products.

    Then a GPU never writes its hidden layer to memory: at m = 2000 with 306 lanes a step took
    .18 ms, with products .27. And it is float32, where products are TF32. On cores it would take
    longer.
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
    """A network whose hidden weights are trained, on the splits of the seeds."""
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
    return [
        linear_model(
            net,
            learner.initial(net, samples.keys(seed).init),
            part,
            tuple(each.x for each in split),
        )
        for seed, split in zip(seeds, splits, strict=True)
    ]


def _layers(method: str) -> int:
    return int(method[0])
