# SPDX-License-Identifier: Apache-2.0
"""The mean of a kernel over random initialisations, with its standard error."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float64, PRNGKeyArray

from unlazy.core.checks import calling, check_count, check_key, check_real
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.linalg.iterative import Progress


class KernelMean(eqx.Module):
    """A mean over random draws, and the standard error of each of its entries."""

    mean: Float64[np.ndarray, "..."]
    standard_error: Float64[np.ndarray, "..."]
    draws: int


@entry
def mean_over_starts(
    kernel: Callable[[Any], Array],
    init: Callable[[PRNGKeyArray], Any],
    *,
    draws: int,
    progress: Progress | None = None,
    key: PRNGKeyArray,
) -> KernelMean:
    r"""The mean of a kernel over random parameters, with the standard error of every entry.

    $$\bar K = \frac1N \sum_{k=1}^N K(\theta_k), \qquad
    s^2 = \frac{1}{N (N - 1)} \sum_{k=1}^N (K(\theta_k) - \bar K)^2$$

    for N = `draws` independent initialisations $\theta_k$. The mean of a tangent kernel tends to
    that of the infinitely wide network only as the width grows as well: at width m it differs from
    it by about 1/m, whatever the number of draws.

    The draws are averaged as they come (Welford's recursion) in float64: memory is that of one
    kernel and of two averages.

    Source: the definition; known to users of neural-tangents as `monte_carlo_kernel_fn`.

    Args:
        kernel: of the parameters, any real array: `lambda params: empirical_ntk(f, params, x)`. It
            is called as it is, once per draw; what unlazy computes inside is compiled once. Wrap a
            kernel of your own in `jax.jit`.
        init: the parameters of a key; `jax.jit(init)` where that is slow, as in Flax.
        draws: how many initialisations, two at least.
        progress: called as `progress(done, expected)` after each draw.
        key: split into one key per draw.

    Returns:
        `mean`, `standard_error` and `draws`; arrays in float64, of the kernel's shape.

    Raises:
        ValueError: `kernel` gives arrays of different shapes, or something else.

    Example:
        >>> from unlazy.kernels import empirical_ntk_traced
        >>> from unlazy.nets import TwoLayer
        >>> net = TwoLayer(inputs=2, width=64)
        >>> found = mean_over_starts(
        ...     lambda params: empirical_ntk_traced(net, params, jnp.eye(2), trained="hidden"),
        ...     lambda key: net.init(key=key),
        ...     draws=50,
        ...     key=jax.random.key(0),
        ... )
        >>> print(found.mean.round(1))  # the limit is 1/2 on the diagonal
        [[0.5 0. ]
         [0.  0.5]]
    """
    check_count(draws, "draws", least=2)
    check_key(key)
    state = None
    for k, one in enumerate(jr.split(key, draws)):
        with calling("init", "a key"):
            params = init(one)
        with calling("kernel", "the parameters that `init` gave"):
            K = kernel(params)
        state = _next(state, K)
        if progress is not None:
            jax.block_until_ready(state)
            progress(k + 1, draws)
    assert state is not None
    mean, squares = np.asarray(state.mean), np.asarray(state.squares)
    return KernelMean(mean, np.sqrt(squares / (draws - 1)) / math.sqrt(draws), int(draws))


class _Welford(NamedTuple):
    number: Array  # of draws
    mean: Float64[Array, "..."]
    squares: Float64[Array, "..."]  # sum of squared deviations from the mean


def _next(state: _Welford | None, K: Any) -> _Welford:
    check_real(K, "kernel(params)")
    if state is not None and np.shape(K) != state.mean.shape:
        raise ValueError(
            "`kernel` must give arrays of one shape, got "
            f"{state.mean.shape} and then {np.shape(K)}."
        )
    with float64():
        K = jnp.asarray(K, jnp.float64)
        if state is None:
            state = _Welford(jnp.zeros(()), jnp.zeros_like(K), jnp.zeros_like(K))
        return _updated(state, K)


@functools.partial(jax.jit, donate_argnums=0)
def _updated(state: _Welford, K: Float64[Array, "..."]) -> _Welford:
    number = state.number + 1
    gap = K - state.mean
    mean = state.mean + gap / number
    return _Welford(number, mean, state.squares + gap * (K - mean))
