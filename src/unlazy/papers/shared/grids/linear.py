# SPDX-License-Identifier: Apache-2.0
r"""SGD on a linear model of many parameters, in as many coefficients as there are samples.

A linear model $f(x) = o(x) + \langle\phi(x), \theta\rangle$ trained by SGD with momentum and weight
decay from $\theta_0$ never leaves the span of $\theta_0$ and the $\phi(x_i)$:

$$\theta = c\,\theta_0 + \sum_i \alpha_i \phi(x_i), \qquad
f(x) = o(x) + c\, u(x) + \sum_i \alpha_i K(x, x_i), \qquad u(x) = \langle\phi(x), \theta_0\rangle$$

and a step on $\theta$ is one on $(c, \alpha)$ whose gradient in $\alpha_i$ is the derivative of the
loss by the output at $x_i$, and in $c$ is zero: decay alone moves it. At m = 5000 that is N + 1
numbers per lane in place of 25 million.

With several outputs $\alpha$ has a column for each, and K either is one kernel for all of them, or
couples every pair: $f_r(x) = o_r(x) + c\,u_r(x) + \sum_{i,s} K_{rs}(x, x_i)\, \alpha_{i,s}$.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from unlazy import nets
from unlazy.core.compiling import jit_untuned
from unlazy.core.float64 import float64
from unlazy.kernels import empirical_ntk, empirical_ntk_traced

Part = Literal["weights", "last", "all"]

_PART = 250  # columns of a product that are worth a part of their own


class Coefficients(NamedTuple):
    """The parameters of a linear model, in its start and the features of its samples."""

    c: Float[Any, ""]
    alpha: Float[Any, "n *c"]


class Rows(NamedTuple):
    """Samples, as the data of a linear model in coefficients."""

    K: Float[Any, "b n"] | Float[Any, "b c n c"]  # with the training samples
    index: Int[Any, " b"]  # among the training samples; not looked at elsewhere
    offset: Float[Any, "b *c"]  # o
    start: Float[Any, "b *c"]  # u
    y: Float[Any, "b *c"]


def mean_square(params: Coefficients, rows: Rows) -> Float[Array, ""]:
    """The mean squared error, summed over outputs."""
    return jnp.sum(_resid(params, rows) ** 2) / len(rows.y)


@dataclass(frozen=True)
class FunctionalSquare:
    """The mean squared error; its gradient is the coefficients of the gradient by theta."""

    def __call__(self, params: Coefficients, rows: Rows) -> Float[Array, ""]:
        """Its value on a batch."""
        resid = jax.lax.stop_gradient(_resid(params, rows))
        # Linear in alpha, with the wanted slope; its value is taken off again.
        slope = 2 * jnp.sum(resid * params.alpha[rows.index]) / len(rows.y)
        return jnp.sum(resid**2) / len(rows.y) + (slope - jax.lax.stop_gradient(slope))


def _resid(params: Coefficients, rows: Rows) -> Float[Array, "b *c"]:
    return rows.offset + params.c * rows.start + _moved(rows.K, params.alpha) - rows.y


def _moved(
    K: Float[Array, "b n"] | Float[Array, "b c n c"], alpha: Float[Array, "n *c"]
) -> Float[Array, "b *c"]:
    if K.ndim == 2:
        return in_parts(K, alpha, best_parts(*K.shape))
    rows, columns = math.prod(K.shape[:2]), math.prod(K.shape[2:])
    parts = best_parts(rows, columns)
    return in_parts(K.reshape(rows, columns), alpha.reshape(-1), parts).reshape(K.shape[:2])


def in_parts(
    K: Float[Array, "b n"], alpha: Float[Array, "n *c"], parts: int
) -> Float[Array, "b *c"]:
    """`K @ alpha`, as the sum of `parts` products, each over its part of the samples."""
    if parts == 1:
        return K @ alpha
    each = K.reshape(len(K), parts, -1), alpha.reshape(parts, -1, *alpha.shape[1:])
    return jnp.einsum("bpn,pn...->pb...", *each).sum(axis=0)


def best_parts(rows: int, columns: int) -> int:
    """The number of parts in which a product over many columns is fastest.

    A batch by a hundred lanes is too few blocks of a product to keep a GPU busy: with 5000 samples
    a step took .134 ms, in 20 parts .042. On cores a product is best left as it is.
    """
    if jax.default_backend() == "cpu":
        return 1
    most = columns // max(_PART, rows)
    return max((parts for parts in range(1, most + 1) if columns % parts == 0), default=1)


class Linear(NamedTuple):
    """A network's linear model in some of its parameters, in float64, on some sets of samples."""

    K: tuple[Float[np.ndarray, "_ n"], ...]  # for every output; the mean over them where coupled
    offset: tuple[Float[np.ndarray, "_ *c"], ...]
    start: tuple[Float[np.ndarray, "_ *c"], ...]
    # Where outputs are coupled, the kernel of all their pairs, in float32: it is only trained with.
    coupled: tuple[Float[np.ndarray, "_ c n c"], ...] | None = None


def linear_model(
    net: Any,
    params: Any,
    part: Part,
    sets: tuple[Any, ...],
    *,
    decay: Literal["parameters", "movement"] = "parameters",
    coupled: bool = False,
    memory: int = 2**30,
) -> Linear:
    r"""The linear model of a network in some of its parameters, at `params`.

    $K$ is the kernel of these parameters' gradients, averaged over the outputs. Where the decay
    pulls the parameters to zero, $u$ is the derivative along the parameters themselves and
    $o = f - u$; in the output weights $o$ is zero and the model is the network. Where it pulls the
    movement to zero, $o = f$ and $u = 0$. With `coupled` the model has the kernel of every pair of
    outputs, too. `sets` are two arrays of inputs at least, the training set first, and `memory` is
    in bytes, for the temporary arrays of a kernel.

    Source: LG-10 to LG-12, arXiv:1811.04918 section 7, with decay of the parameters; RN-8 and
    RN-18, arXiv:1905.10337 section 8, with decay of the movement; the average is ours.
    """
    with float64():
        wide = in_float64(params)
        trained, frozen = nets.partition(wide, part)
        first, *rest = (np.asarray(x, np.float64) for x in sets)
        others = np.concatenate(rest)  # as one, since each shape compiles for itself
        kernel = functools.partial(_kernels, net, wide, part, coupled, memory)
        (K, pairs), (K_others, pairs_others) = kernel(first, None), kernel(others, first)
        at = _along_itself if decay == "parameters" else _outputs
        near, far = (at(net, trained, frozen, x) for x in (first, others))

    def by_set(of_first: Any, of_others: Any) -> tuple[np.ndarray, ...]:
        return np.asarray(of_first), *split_sets(np.asarray(of_others), rest)

    f, u = (by_set(*both) for both in zip(near, far, strict=True))
    return Linear(
        tuple(block / math.prod(f[0].shape[1:]) for block in by_set(K, K_others)),
        tuple(of_set - own for of_set, own in zip(f, u, strict=True)),
        u,
        by_set(pairs, pairs_others) if coupled else None,
    )


def in_float64(params: Any) -> Any:
    """The parameters in float64, by NumPy, for which nothing is compiled."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), params)


def split_sets(values: np.ndarray, sets: Sequence[Any], axis: int = 0) -> list[np.ndarray]:
    """Cut values at the samples of all sets into those of each."""
    return np.split(values, np.cumsum([len(x) for x in sets])[:-1], axis=axis)


def _kernels(
    net: Any, params: Any, part: Part, coupled: bool, memory: int, x1: Any, x2: Any
) -> tuple[Array, Array | None]:
    """The kernel summed over outputs and, if wanted, that of all pairs, outputs beside inputs."""
    options: dict[str, Any] = {"trained": part, "memory": memory}
    if coupled:
        return _arranged(empirical_ntk(net, params, x1, x2, **options))
    return empirical_ntk_traced(net, params, x1, x2, **options), None


@jax.jit
def _arranged(K: Float[Array, "n1 n2 c c"]) -> tuple[Array, Array]:
    # On the device, and the pairs in float32: at the paper's size these are gigabytes.
    return jnp.trace(K, axis1=2, axis2=3), jnp.swapaxes(K, 1, 2).astype(jnp.float32)


# Compiled whole: operation by operation, an accelerator's compiler takes longer than the work.
@jit_untuned
def _along_itself(net: Any, trained: Any, frozen: Any, x: Float[Any, "n d"]) -> Any:
    """The outputs of a network, and their derivative along its own trained parameters."""
    with jax.default_matmul_precision("highest"):
        return jax.jvp(lambda moved: net(nets.combine(moved, frozen), x), (trained,), (trained,))


@jit_untuned
def _outputs(net: Any, trained: Any, frozen: Any, x: Float[Any, "n d"]) -> Any:
    """The outputs of a network, and zeros."""
    with jax.default_matmul_precision("highest"):
        f = net(nets.combine(trained, frozen), x)
        return f, jnp.zeros_like(f)
