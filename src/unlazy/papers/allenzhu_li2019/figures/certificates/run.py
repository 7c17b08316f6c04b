# SPDX-License-Identifier: Apache-2.0
"""The cells of the certificate figure, computed."""

import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from unlazy import certificates, kernels
from unlazy.experiments import CellResult, Progress
from unlazy.papers.allenzhu_li2019.figures.certificates.config import (
    ALL,
    ALPHA,
    EXTREMAL,
    FEATURES,
    Remark,
    Sweep,
)
from unlazy.papers.allenzhu_li2019.figures.linear_models import Kernel, on_cube
from unlazy.special import subsets

Rows = Float64[np.ndarray, "n d"]
RowOf = Callable[[int], dict[str, float]]  # the row of a table for a sample size


def run(config: Sweep | Remark, *, seed: int, progress: Progress) -> CellResult:
    # NumPy draws, not JAX: all here is NumPy, and the numbers are the same with x64 on or off.
    # One sequence for all learners; a larger sample contains the smaller ones.
    x = _signs(np.random.default_rng([46, seed, config.d]), max(config.sizes), config.d)
    draw = np.random.default_rng([48, seed, config.d])
    row_of = _remark(config, x, draw) if isinstance(config, Remark) else _sweep(config, x, draw)
    rows = []
    for done, n in enumerate(config.sizes, start=1):
        rows.append(row_of(n))
        progress(done, len(config.sizes))
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return CellResult({"n": np.array(config.sizes), **table})


def kernel(name: str, d: int) -> Kernel:
    """A kernel of the paper on the corners of a cube."""
    named: dict[str, Kernel] = {
        "gaussian": functools.partial(kernels.gaussian, bandwidth=d),
        "arcsin": kernels.arcsin,
        "conjugate-2": functools.partial(kernels.conjugate, layers=2),
        "tangent-2": functools.partial(kernels.tangent, layers=2),
        "tangent-3": functools.partial(kernels.tangent, layers=3),
        "exponential": lambda x1, x2: np.exp(x1 @ x2.T / d),
        "cubic": lambda x1, x2: (1 + x1 @ x2.T / d) ** 3,
    }
    return on_cube(named[name], d)


def _dimension(name: str, x: Rows) -> int | None:
    """The dimension of a kernel on the sample, where rounding would hide it."""
    if name == "arcsin":  # odd: a point and its opposite give one function
        return len(np.unique(x * x[:, :1], axis=0))
    if name == "cubic":  # the rank of the cubic monomials on the sample
        monomials = [np.prod(x[:, subsets(x.shape[1], j)], axis=2) for j in (1, 2, 3)]
        return int(np.linalg.matrix_rank(np.concatenate([np.ones((len(x), 1)), *monomials], 1)))
    return None


def _signs(draw: np.random.Generator, n: int, d: int) -> Rows:
    return draw.choice([-1.0, 1.0], (n, d))


def _sweep(config: Sweep, x: Rows, draw: np.random.Generator) -> RowOf:
    d, options = config.d, {"degree": config.k, "alpha": ALPHA}
    features = _features(config, len(x), draw)
    learner = None if features or config.learner == ALL else kernel(config.learner, d)

    def row(n: int) -> dict[str, float]:
        shared = found = certificates.dot_product(x[:n], **options)
        if features:
            found = certificates.features(features(n), d, **options)
        elif learner:
            known = _dimension(config.learner, x[:n])
            found = certificates.kernel(learner, x[:n], dimension=known, **options)
        projected = ALPHA**2 * np.clip(1 - found.captured, 0, 1)
        return {
            "fraction_bad": found.fraction_bad,
            "min_ratio": found.min_ratio,
            "good": float(np.sum(~found.bad)),
            "captured": float(np.mean(found.captured)),
            "gap": float(np.max(np.abs(found.captured - shared.captured))),
            "excess": float(np.min(found.least - projected)),
        }

    return row


def _features(
    config: Sweep, most: int, draw: np.random.Generator
) -> Callable[[int], Callable[[Rows], Rows]] | None:
    """The map of the first n features, for learners that have features."""
    d = config.d
    if config.learner == FEATURES:  # ReLU neurons with Gaussian weights and biases
        W = draw.standard_normal((most, d + 1))
        return lambda n: lambda x: np.maximum(x @ W[:n, :-1].T + W[:n, -1], 0.0)
    if config.learner == EXTREMAL:  # the coordinates, then parities of degree k in any order
        sets = draw.permutation(subsets(d, config.k))
        return lambda n: (
            lambda x: np.concatenate(
                [x[:, : min(n, d)], np.prod(x[:, sets[: max(0, n - d)]], axis=2)], axis=1
            )
        )
    return None


def _remark(config: Remark, x: Rows, draw: np.random.Generator) -> RowOf:
    """Further coordinates take few values, which are corners too, with the given weights."""
    p = np.asarray(config.weights)
    others = _signs(draw, len(p), config.extra)
    whole = np.concatenate([x, others[draw.choice(len(p), len(x), p=p)]], axis=1)
    learner = kernel(config.learner, whole.shape[1])

    def row(n: int) -> dict[str, float]:
        options = {"degree": config.k, "alpha": ALPHA, "others": others, "weights": p}
        exact = certificates.kernel(learner, whole[:n], **options)
        # A product of kernels, averaged: the other coordinates of a point give but a factor.
        is_product = config.learner in ("gaussian", "exponential")
        known = len(np.unique(x[:n], axis=0)) if is_product else None
        options |= {"averaged": True, "dimension": known}
        averaged = certificates.kernel(learner, whole[:n], **options)
        return {
            "exact": exact.min_ratio,
            "averaged": averaged.min_ratio,
            "difference": float(np.min(exact.risks - averaged.risks)),
        }

    return row
