# SPDX-License-Identifier: Apache-2.0
"""The linear models of Figures 2 and 3: the networks' kernels at finite and infinite width."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from unlazy import kernels
from unlazy.core.float64 import float64
from unlazy.core.machine import on_host
from unlazy.nets import ResNet3, ThreeLayer
from unlazy.papers import allenzhu_li2019
from unlazy.papers.allenzhu_li2019.figures import samples
from unlazy.papers.allenzhu_li2019.figures.samples import Network
from unlazy.papers.shared.grids.learner import Split
from unlazy.papers.shared.grids.linear import Linear, in_float64, linear_model, split_sets

Kernel = Callable[[Any, Any], Any]  # of two arrays of inputs, (n1, d) and (n2, d)

# In units of the kernel's mean eigenvalue; by steps of 10^(1/4), and wide enough for both ends.
RIDGES = 10 ** np.linspace(-8, 3, 45)

# The kernels of infinite width, up to scale, by the name of the network whose limit they are; those
# of 3layer are without the biases of its second layer (RN-17).
LIMITS: dict[str, Kernel] = {
    "2layer(last)": lambda x1, x2: kernels.conjugate(x1, x2, layers=2),
    "3layer(last)": lambda x1, x2: kernels.conjugate(x1, x2, layers=3),
    "2layer(NTK)": lambda x1, x2: kernels.tangent(x1, x2, layers=2),
    "3layer(NTK)": lambda x1, x2: kernels.tangent(x1, x2, layers=3),
    "3resnet(last)": lambda x1, x2: allenzhu_li2019.resnet_ntk(x1, x2, trained="last"),
    "3resnet(NTK)": lambda x1, x2: allenzhu_li2019.resnet_ntk(x1, x2, trained="all"),
}


def conjugate_model(net: Network, params: Any, inputs: tuple[Any, ...]) -> Linear:
    r"""Training the outer output weights alone: $f = A \phi(x)$ with frozen features.

    All outputs have the kernel $\langle\phi(x), \phi(x')\rangle$, and the decay pulls A to zero.

    Source: RN-8, arXiv:1905.10337 section 8.
    """
    with float64(), on_host():
        wide = in_float64(params)
        rows = np.concatenate([np.asarray(x, np.float64) for x in inputs])
        features = np.asarray(last_features(net, wide, rows))
    A = np.asarray(wide.A if isinstance(net, ResNet3) else wide.a)
    phi = split_sets(features, inputs)
    # By NumPy, for which nothing is compiled.
    starts = tuple(of_set @ A.T for of_set in phi)
    K = tuple(of_set @ phi[0].T for of_set in phi)
    return Linear(K, tuple(np.zeros_like(start) for start in starts), starts)


def tangent_model(
    net: Network, params: Any, inputs: tuple[Any, ...], *, coupled: bool = True
) -> Linear:
    r"""The network linearised in all its parameters, $f(\theta_0) + J (\theta - \theta_0)$.

    The decay pulls the movement to zero. `K` is the kernel averaged over the outputs: the kernel of
    each of them in the limit of infinite width, but not at finite width. With `coupled` the model
    has the kernel of every pair of outputs, too; `grids.coupled` solves that exactly.

    Source: RN-8 and RN-18, arXiv:1905.10337 section 8; the average is ours.
    """
    memory = 2**32  # at the paper's widths, for more samples at a time
    return linear_model(
        net, params, "all", inputs, decay="movement", coupled=coupled, memory=memory
    )


def limit_model(name: str, split: Split) -> Linear:
    """A kernel of infinite width on the sets of a split, for predictors that start at zero.

    Source: RN-17 and RN-19, arXiv:1905.10337 section 3.
    """
    inputs = [np.asarray(part.x, np.float64) for part in split]
    kernel = _limit(name, inputs[0].shape[1])
    zeros = tuple(np.zeros(np.shape(part.y)) for part in split)
    return Linear(tuple(kernel(x, inputs[0]) for x in inputs), zeros, zeros)


def on_cube(kernel: Kernel, d: int) -> Kernel:
    """A dot-product kernel on the corners of a cube, where it is a function of the distance."""
    flipped = np.tril(np.full((d + 1, d), -2.0), -1) + 1  # the first j entries negative
    values = np.asarray(kernel(np.ones((1, d)), flipped), np.float64)[0]
    return lambda x1, x2: values[np.rint((d - x1 @ x2.T) / 2).astype(np.int64)]


@functools.cache
def _limit(name: str, d: int) -> Kernel:
    with on_host():
        return on_cube(LIMITS[name], d)


def linear_models(
    net: Network, mode: str, splits: list[Split], seeds: tuple[int, ...], coupled: bool
) -> list[Linear]:
    """The linear model of a network, "NTK" or "last", for every seed."""
    model = functools.partial(tangent_model, coupled=coupled) if mode == "NTK" else conjugate_model
    return [
        model(net, samples.start(net, seed), tuple(part.x for part in split))
        for seed, split in zip(seeds, splits, strict=True)
    ]


@eqx.filter_jit
def last_features(net: Network, params: Any, x: Float[Any, "n d"]) -> Float[Array, "n m"]:
    """The features that the outer output weights multiply."""
    if isinstance(net, ResNet3):
        return net.features(params, x)
    if isinstance(net, ThreeLayer):
        return net.activation(net.hidden(params, x).second)
    return net.activation(net.hidden(params, x))


def parts(method: str) -> tuple[str, str]:
    """The network and the mode of a method.

    Example:
        >>> parts("3resnet(NTK)")
        ('3resnet', 'NTK')
    """
    layers, mode = method.rstrip(")").split("(")
    return layers, mode
