# SPDX-License-Identifier: Apache-2.0
"""Definition 5.1: the smallest eigenvalue that almost every sample reaches, by subsampling."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float64, Int, PRNGKeyArray

from unlazy.core.checks import check_count, check_inputs, check_key
from unlazy.core.entries import entry
from unlazy.kernels import relu_gram
from unlazy.linalg import gram_eigenvalues
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.conditions import check_delta


class NonDegeneracy(eqx.Module):
    r"""The estimate of `nondegeneracy`: a $\lambda_0$ that a share of 1 - delta of draws reach."""

    smallest_eigenvalue: float  # lambda_0; zero where more than a share delta is singular
    values: Float64[np.ndarray, " draws"]  # smallest eigenvalue of each draw, smallest first
    n: int
    delta: float


@entry
def nondegeneracy(
    x: Inputs, n: int, *, delta: float = 0.05, draws: int = 100, key: PRNGKeyArray
) -> NonDegeneracy:
    r"""Estimate the $\lambda_0$ for which the distribution of the inputs is non-degenerate.

    A distribution is $(\lambda_0, \delta, n)$-non-degenerate if

    $$\Pr\big[\lambda_{\min}(H) \ge \lambda_0\big] \ge 1 - \delta$$

    over n independent samples, with $H$ their H-infinity. The rows of `x` stand for the
    distribution: each of the `draws` takes n of them, without replacement, and the result is the
    largest $\lambda_0$ that at least a share $1 - \delta$ of the draws reach. Draws overlap, so the
    pool should be much larger than n. Theorem 5.1 asks for this with $\delta/3$, and
    `population_loss` takes the value as `smallest_eigenvalue`.

    Two facts help to read it: the value falls as n grows (interlacing), and it is at most
    $1/2 - \max_{i \ne j} |H_{ij}|$ for unit-norm rows, so near duplicates decide it.

    Source: AR-64 and AR-8, arXiv:1901.08584 Definition 5.1.

    Args:
        x: a pool of at least n inputs of any norm but zero.
        n: size of a sample.
        delta: failure probability, at least 1 / draws: fewer draws cannot see it.
        draws: number of samples.
        key: random key of the draws.

    Example:
        >>> pool = 2.0 * np.eye(6)  # orthogonal rows: every kernel is half of 4 I
        >>> print(nondegeneracy(pool, 3, draws=20, key=jax.random.key(0)).smallest_eigenvalue)
        2.0
    """
    check_inputs(x)
    check_count(n, "n", most=np.shape(x)[0])
    check_delta(delta)
    check_count(draws, "draws")
    check_key(key)
    if draws * delta < 1:
        raise ValueError(
            f"`draws` must be at least 1/delta={1 / delta:.6g}, got draws={draws}. "
            "Fewer samples say nothing about so rare an event."
        )
    pool = np.asarray(x, np.float64)
    rows = np.asarray(_subsets(jr.split(key, draws), len(pool), n))
    values = np.sort([_smallest(pool[chosen]) for chosen in rows])
    return NonDegeneracy(float(values[math.floor(delta * draws)]), values, n, delta)


def _smallest(x: Float64[np.ndarray, "n d"]) -> float:
    values = np.linalg.eigvalsh(np.asarray(relu_gram(x)))[::-1]
    return float(gram_eigenvalues(values)[-1])


@partial(jax.jit, static_argnums=(1, 2))
def _subsets(keys: Array, size: int, n: int) -> Int[Array, "draws n"]:
    return jax.vmap(lambda key: jr.permutation(key, size)[:n])(keys)
