# SPDX-License-Identifier: Apache-2.0
"""The kernels of the networks: at finite width, for SGD and ridge, and at infinite width."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy import kernels
from unlazy.core.compiling import jit_untuned
from unlazy.core.float64 import float64
from unlazy.nets import ResNet3, ThreeLayer
from unlazy.papers import allenzhu_li2019
from unlazy.papers.allenzhu_li2019.figures import samples
from unlazy.papers.allenzhu_li2019.figures.samples import Network, Task
from unlazy.papers.shared.grids.host import on_host
from unlazy.papers.shared.grids.learner import Split
from unlazy.papers.shared.grids.linear import Linear

# In units of the kernel's mean eigenvalue; by steps of 10^(1/4), and wide enough for both ends.
RIDGES = 10 ** np.linspace(-8, 3, 45)

_MEMORY = 2**32  # bytes: at the paper's widths, for more samples at a time

# The kernels of infinite width, by the name of the network whose limit they are, up to scale; those
# of 3layer without the biases of its second layer (RN-17).
LIMITS: dict[str, Callable[[Any, Any], Array]] = {
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

    Args:
        net: the network.
        params: its start.
        inputs: of every set, the training set first.
    """
    with float64(), on_host():
        wide = _wide(params)
        rows = [np.asarray(x, np.float64) for x in inputs]
        features = np.asarray(_last_features(net, wide, np.concatenate(rows)))
    A = np.asarray(wide.A if isinstance(net, ResNet3) else wide.a)
    phi = np.split(features, np.cumsum([len(x) for x in rows])[:-1])
    # By NumPy, for which nothing is compiled.
    starts = tuple(of_set @ A.T for of_set in phi)
    K = tuple(of_set @ phi[0].T for of_set in phi)
    return Linear(K, tuple(np.zeros_like(start) for start in starts), starts)


def tangent_model(
    net: Network, params: Any, inputs: tuple[Any, ...], *, coupled: bool = True
) -> Linear:
    r"""The network linearised in all its parameters, $f(\theta_0) + J (\theta - \theta_0)$.

    The decay pulls the movement to zero. `K` is the kernel averaged over the outputs, which is what
    all of them have in the limit, and another one at finite width; with `coupled`, that of every
    pair of outputs comes too. To solve that exactly see `grids.coupled`.

    Source: RN-8 and RN-18, arXiv:1905.10337 section 8; the average is ours.
    """
    with float64():
        wide = _wide(params)
        first, *rest = (np.asarray(x, np.float64) for x in inputs)
        others = np.concatenate(rest)  # as one, since each shape compiles for itself
        ends = np.cumsum([len(x) for x in rest])[:-1]
        near, far = (_outputs(net, wide, x) for x in (first, others))
        K, pairs = _tangent(net, wide, first, None, coupled)
        K_others, pairs_others = _tangent(net, wide, others, first, coupled)

    def sets(of_first: Any, of_others: Any) -> tuple[np.ndarray, ...]:
        return np.asarray(of_first), *np.split(np.asarray(of_others), ends)

    offsets = sets(near, far)
    return Linear(
        tuple(block / near.shape[1] for block in sets(K, K_others)),
        offsets,
        tuple(np.zeros_like(offset) for offset in offsets),
        sets(pairs, pairs_others) if coupled else None,
    )


def _tangent(
    net: Network, params: Any, x1: np.ndarray, x2: np.ndarray | None, coupled: bool
) -> tuple[Array, Array | None]:
    """The kernel summed over outputs and, if wanted, that of all pairs, outputs beside inputs."""
    if coupled:
        return _arranged(kernels.empirical_ntk(net, params, x1, x2, memory=_MEMORY))
    return kernels.empirical_ntk_traced(net, params, x1, x2, memory=_MEMORY), None


@jax.jit
def _arranged(K: Float[Array, "n1 n2 c c"]) -> tuple[Array, Array]:
    # On the device, and the pairs in float32: at the paper's size these are gigabytes.
    return jnp.trace(K, axis1=2, axis2=3), jnp.swapaxes(K, 1, 2).astype(jnp.float32)


def limit_model(name: str, split: Split) -> Linear:
    """A kernel of infinite width on the sets of a split, for predictors that start at zero.

    On the corners of a cube such a kernel is a list of d + 1 numbers, by how many signs differ.

    Source: RN-17 and RN-19, arXiv:1905.10337 section 3.
    """
    inputs = [np.asarray(part.x, np.float64) for part in split]
    d = inputs[0].shape[1]
    values = _limit_values(name, d)
    differ = [np.rint((d - x @ inputs[0].T) / 2).astype(np.int64) for x in inputs]
    zeros = tuple(np.zeros(np.shape(part.y)) for part in split)
    return Linear(tuple(values[count] for count in differ), zeros, zeros)


@functools.cache
def _limit_values(name: str, d: int) -> Float[np.ndarray, " values"]:
    """The kernel of two corners that differ in 0, 1, ..., d signs."""
    flipped = np.where(np.arange(d)[None, :] < np.arange(d + 1)[:, None], -1.0, 1.0)
    with on_host():
        return np.asarray(LIMITS[name](flipped[:1], flipped))[0]


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


def last_features(net: Network, params: Any, x: Float[Any, "n d"]) -> Float[Array, "n m"]:
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


# Compiled whole: operation by operation, an accelerator's compiler takes longer than the work.
@jit_untuned
def _outputs(net: Network, params: Any, x: Float[Any, "n d"]) -> Float[Array, "n c"]:
    with jax.default_matmul_precision("highest"):
        return net(params, x)


_last_features = eqx.filter_jit(last_features)


def _wide(params: Any) -> Any:
    """In float64, by NumPy, for which nothing is compiled."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), params)
