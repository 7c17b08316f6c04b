# SPDX-License-Identifier: Apache-2.0
"""The kernels of the networks: at finite width, for SGD and ridge, and at infinite width."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy import kernels
from unlazy.nets import ResNet3, ThreeLayer
from unlazy.papers.allenzhu_li2019 import samples
from unlazy.papers.allenzhu_li2019.samples import Network, Task
from unlazy.papers.grids.learner import Split
from unlazy.papers.grids.linear import Linear

# In units of the kernel's mean eigenvalue; by steps of 10^(1/4), and wide enough for both ends.
RIDGES = 10 ** np.linspace(-8, 3, 45)

# The kernels of infinite width, by the name of the network whose limit they are, up to scale; those
# of 3layer without the biases of its second layer (RN-17).
LIMITS: dict[str, Callable[[Any, Any], Array]] = {
    "2layer(last)": lambda x1, x2: kernels.conjugate(x1, x2, layers=2),
    "3layer(last)": lambda x1, x2: kernels.conjugate(x1, x2, layers=3),
    "2layer(NTK)": lambda x1, x2: kernels.tangent(x1, x2, layers=2),
    "3layer(NTK)": lambda x1, x2: kernels.tangent(x1, x2, layers=3),
    "3resnet(last)": lambda x1, x2: kernels.resnet_ntk(x1, x2, trained="last"),
    "3resnet(NTK)": lambda x1, x2: kernels.resnet_ntk(x1, x2, trained="all"),
}


def conjugate_model(net: Network, params: Any, inputs: tuple[Any, ...]) -> Linear:
    r"""Training the outer output weights alone: $f = A \phi(x)$ with frozen features.

    All outputs have the kernel $\langle\phi(x), \phi(x')\rangle$, and the decay pulls A to zero.

    Source: RN-8, arXiv:1905.10337 section 8.

    Args:
        net: the network.
        params: its start.
        inputs: of every set, the training set first.
    """
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        wide = _wide(params)
        phi = [last_features(net, wide, jnp.asarray(x, jnp.float64)) for x in inputs]
        A = wide.A if isinstance(net, ResNet3) else wide.a
        starts = tuple(np.asarray(features @ A.T) for features in phi)
        K = tuple(np.asarray(features @ phi[0].T) for features in phi)
    return Linear(K, tuple(np.zeros_like(start) for start in starts), starts)


def tangent_model(
    net: Network, params: Any, inputs: tuple[Any, ...], *, coupled: bool = True
) -> Linear:
    r"""The network linearised in all its parameters, $f(\theta_0) + J (\theta - \theta_0)$.

    The decay pulls the movement to zero. `K` is the kernel averaged over the outputs, which is what
    all of them have in the limit; with `coupled`, that of every pair of outputs comes too.

    Source: RN-8 and RN-18, arXiv:1905.10337 section 8; the average is ours.
    """
    with jax.enable_x64(True):
        wide = _wide(params)
        first, *rest = (jnp.asarray(x, jnp.float64) for x in inputs)
        others = jnp.concatenate(rest)  # as one, since each shape compiles for itself
        ends = np.cumsum([len(x) for x in rest])[:-1]
        with jax.default_matmul_precision("highest"):
            outputs = [np.asarray(net(wide, x)) for x in (first, others)]
        c = outputs[0].shape[1]

        def both(kernel: Callable[..., Array]) -> tuple[np.ndarray, ...]:
            found = [np.asarray(kernel(*x)) for x in ((first,), (others, first))]
            return (found[0], *np.split(found[1], ends))

        K = both(lambda *x: kernels.empirical_ntk_traced(net, wide, *x) / c)
        # Transposed on the device: at the paper's size these are gigabytes.
        pairs = (
            both(lambda *x: jnp.swapaxes(kernels.empirical_ntk(net, params, *x), 1, 2))
            if coupled
            else None
        )
    offsets = (outputs[0], *np.split(outputs[1], ends))
    return Linear(K, offsets, tuple(np.zeros_like(offset) for offset in offsets), pairs)


def limit_model(name: str, split: Split) -> Linear:
    """A kernel of infinite width on the sets of a split, for predictors that start at zero.

    On the corners of a cube such a kernel is a list of d + 1 numbers, by how many signs differ.

    Source: RN-17 and RN-19, arXiv:1905.10337 section 3.
    """
    inputs = [np.asarray(part.x, np.float64) for part in split]
    d = inputs[0].shape[1]
    flipped = np.where(np.arange(d)[None, :] < np.arange(d + 1)[:, None], -1.0, 1.0)
    values = np.asarray(LIMITS[name](flipped[:1], flipped))[0]
    differ = [np.rint((d - x @ inputs[0].T) / 2).astype(np.int64) for x in inputs]
    zeros = tuple(np.zeros(np.shape(part.y)) for part in split)
    return Linear(tuple(values[count] for count in differ), zeros, zeros)


def linear_models(
    method: str, task: Task, width: int, splits: list[Split], seeds: tuple[int, ...], coupled: bool
) -> list[Linear]:
    """The linear model behind a kernel method at a width, for every seed."""
    layers, mode = parts(method)
    net = samples.network(layers, task, width)
    models = []
    for seed, split in zip(seeds, splits, strict=True):
        params, inputs = samples.start(net, seed), tuple(part.x for part in split)
        if mode == "last":
            models.append(conjugate_model(net, params, inputs))
        else:
            models.append(tangent_model(net, params, inputs, coupled=coupled))
    return models


def last_features(net: Network, params: Any, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
    """What the outer output weights multiply."""
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


def _wide(params: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)
